"""Delimiter, quoting, encoding and header of tables are found, or declared; Parquet is optional."""

import csv
import io
import json
import os
import re
import sys
from threading import Thread
from types import ModuleType, SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput, DataWarning
from regard.data.data_tables import FilesConfig
from regard.data.readers.by_task import read
from regard.data.readers.fields import NAN, DropCounts
from regard.data.readers.plain import labelled
from regard.data.readers.sources import read_pairs
from regard.data.readers.table_files import Csv, JsonLines, Parquet, Table, read_cells
from regard.data.readers.table_format import TableFormat, find_delimiter, is_header
from regard.data.readers.text_files import TO_UTF8
from regard.data.table_columns import COLUMNS

LETTERS = st.text(
    st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=12
).filter(lambda cell: cell.strip() not in NAN)
CELLS = LETTERS | st.sampled_from(['"', '""', ",", ";", "\t", "\n", '",\n"', " ", "a|b"])


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def written(rows, delimiter):
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue()


@given(
    st.lists(st.tuples(CELLS, CELLS), max_size=5),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
)
def test_any_table_is_read_as_it_was_written(tmp_path_factory, pairs, delimiter, encoding):
    path = tmp_path_factory.mktemp("table") / "a.csv"
    rows = [(f"n{number}", *pair) for number, pair in enumerate(pairs)]
    path.write_bytes(written([("id", "text", "label"), *rows], delimiter).encode(encoding))
    cells = read_cells(Csv(str(path), ("id", "text", "label")))
    assert [tuple(row) for _, row in cells] == rows


TEXT = "text;label\nein schöner Tag;süß\n„nein“, sagt er – für 3 €;böse\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("kind", [Csv, JsonLines])
def test_encodings_are_found(tmp_path, kind, encoding):
    path = tmp_path / "a"
    lines = [line.split(";") for line in TEXT.splitlines()[1:]]
    objects = "".join(
        json.dumps({"text": a, "label": b}, ensure_ascii=False) + "\n" for a, b in lines
    )
    path.write_bytes((TEXT if kind is Csv else objects).encode(encoding))
    assert [pair for _, *pair in read_pairs(kind(str(path), ("text", "label")))] == lines


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(TEXT, "cp1252"), ("text;label\n\x81 süß süß süß süß süß;gut\n", "latin-1")],
)
def test_other_encodings_are_found_and_said(tmp_path, text, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(encoding))
    with pytest.warns(DataWarning, match=f"a.csv: not UTF-8; read as {encoding}: declare another"):
        pairs = [";".join(pair) for _, *pair in read_pairs(Csv(str(path), ("text", "label")))]
    assert pairs == text.splitlines()[1:]
    form = TableFormat(encoding="cp437", quoting=True)
    assert next(read_pairs(Csv(str(path), ("text", "label"), form=form)))[1] != pairs[0]


def test_damaged_utf8_is_not_taken_for_another_encoding(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\nschön,gut\n".encode() + b"sch\xf6n,gut\n")
    with complains(f"{path}:3: not UTF-8 (byte 0xf6 at column 4); {TO_UTF8}"):
        list(read_pairs(Csv(str(path), ("text", "label"))))


def test_a_wrong_encoding_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\na\x81,b\n")
    with pytest.raises(BadInput, match=r"a\.csv: after line 0: not cp1252 \(.*declare its enc"):
        list(read_pairs(Csv(str(path), ("text", "label"), form=TableFormat(encoding="cp1252"))))


@pytest.mark.parametrize(
    ("text", "names", "delimiter"),
    [
        ("a,b\nc,d\n", (), ","),
        ("a;b\nwell, yes;d\nwell, no, yes;e\n", (), ";"),
        ('a|b\n"x|y, z"|d\n', (), "|"),
        ("text\tlabel\na\tb\n", (), "\t"),
        ("a, b;c\nx, y;z\n", ("c",), ";"),
        ("one column\nof texts\n", (), ","),
        ("", (), ","),
    ],
)
def test_delimiters(text, names, delimiter):
    assert find_delimiter(text, quoting=True, names=names) == delimiter


def test_quotes_of_a_tab_separated_file_are_found(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"a\tb"\tgood\n"said ""no"""\tbad\n')
    assert [text for _, text, _ in read_pairs(Table(str(path), (0, 1), form=header(True)))] == [
        "a\tb",
        'said "no"',
    ]
    path.write_text('text\tlabel\n"no"\tgood\n"so it is"\tbad\nthe 5" one\tbad\n')
    texts = [text for _, text, _ in read_pairs(Table(str(path), (0, 1), form=header(True)))]
    assert texts == ['"no"', '"so it is"', 'the 5" one']


def header(declared):
    return TableFormat("\t", header=declared)


@pytest.mark.parametrize("marked", [{7}, {3, 7}, {*range(12)}])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_quote_inside_a_cell_opens_nothing(tmp_path, marked, delimiter):
    path = tmp_path / "a.csv"
    lines = [
        f'a 5" disk {n}{delimiter}{"new" if n % 2 else "old"}'
        if n in marked
        else f'"a ""disk"", {n};\nor two"{delimiter}"{"new" if n % 2 else "old"}"'
        for n in range(12)
    ]
    path.write_text("\n".join([f"text{delimiter}label", *lines]) + "\n")
    with path.open(newline="") as file:
        rows = [tuple(row) for row in csv.reader(file, delimiter=delimiter)]
    assert [row for _, row in read_cells(Csv(str(path), ("text", "label")))] == rows[1:]
    assert len(rows) == 13


def test_a_quote_after_a_quoted_cell_concerns_its_own_line_only(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"a 5" disk",old\n"a 3"" disk",new\n')
    dropped = DropCounts()
    cells = [row for _, row in read_cells(Csv(str(path), ("text", "label")), dropped)]
    assert cells == [('a 3" disk', "new")]
    assert str(dropped) == "1 not CSV"


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_may_be_long(tmp_path, quote):
    path, text = tmp_path / "a.csv", "word " * 30_000
    path.write_text(f"text,label\n{quote}{text}{quote},new\nshort,old\n")
    cells = [row for _, row in read_cells(Csv(str(path), ("text", "label")))]
    assert cells == [(text, "new"), ("short", "old")]


def test_quotes_may_be_declared_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"no,good\n')
    declared = FilesConfig(csv="a.csv", columns=("text", "label"), quoting=False)
    assert [pair for _, *pair in read_pairs(declared.under(tmp_path))] == [['"no', "good"]]


FILMS = [["1", "a gripping film", "good"], ["2", "two hours that I want back", "bad"]]


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        (["id", "text", "label"], FILMS, True),
        (["Nr", "Kommentar", "Urteil"], FILMS, True),  # numbers below
        (["Kommentar", "Urteil"], [row[1:] for row in FILMS * 2], True),  # sentences below
        (["user_id", "Review Text"], [["ab", "fine"]], True),
        (["en", "de"], [["a house", "ein Haus"]], True),
        (["text"], [], True),
        (["a gripping film", "good"], [["bad", "bad"]], False),
        (["good quality", "pos"], [["dull", "neg"]], False),
        (["Gripping", "good"], [row[1:] for row in FILMS * 2], False),  # a label occurs again
        (["The old man.", "Der alte Mann."], [["a", "b"]], False),
        (["one", "two"], [["three", "four"]], False),
        (["text", "text"], [["a", "b"]], False),
        (["text", "text", "label"], [["a", "b", "c"]], True),
        (["one", "one", "label"], [["a", "b", "c"]], False),
        (["", "text", "label"], [["0", "b", "c"]], True),
        (["text", "label", ""], [["b", "c", ""]], True),
        (["", "good"], [["fine", "good"]], False),
        (["", ""], [["fine", "good"]], False),
        (["7", "text"], [["8", "b"]], False),
        ([""], [], False),
    ],
)
def test_headers_are_recognised(first, rest, expected):
    assert is_header(first, rest) is expected


def test_columns_by_number_skip_the_header(tmp_path):
    """Whether it is recognised or declared; that it was recognised is said."""
    path = tmp_path / "a.csv"
    rows = "".join(",".join(row) + "\n" for row in FILMS)
    path.write_text("id,text,label\n" + rows)
    config = {"csv": "a.csv", "columns": (1, 2)}
    said = r"a\.csv: the first line is read as the header \(id, text, label\), not as an example"
    with pytest.warns(DataWarning, match=said):
        found = [*labelled(FilesConfig(**config).under(tmp_path))]
    assert [(example.texts[0], *example.labels) for example in found] == [
        (text, label) for _, text, label in FILMS
    ]
    assert found[0].where == f"{path}:2"
    assert [*labelled(FilesConfig(**config, header=True).under(tmp_path))] == found
    first, *_ = labelled(FilesConfig(**config, header=False).under(tmp_path))
    assert (first.where, first.texts, first.labels) == (f"{path}:1", ("text",), ("label",))
    with complains(f"{path}: no column 'text' without a header; name columns by number, from 0"):
        named = FilesConfig(csv="a.csv", columns=("text", "label"), header=False)
        list(read_pairs(named.under(tmp_path)))


def test_an_index_without_a_name_is_a_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",text,label\n0,a fine film,good\n1,a dull film,bad\n")
    columns = COLUMNS["csv"](path)
    assert [*columns.cells] == ["text", "label"]
    assert columns.format.endswith("header text, label")
    assert len([*read_cells(Csv(str(path), ("text", "label")))]) == 2


def test_two_columns_of_one_name_are_refused_only_if_asked_for(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,text,label,id\na fine film,good,7,1\n")
    assert [row for _, row in read_cells(Csv(str(path), ("label", "id")))] == [("7", "1")]
    with complains(f"{path}:1: two columns are called 'text'; rename one of them"):
        list(read_cells(Csv(str(path), ("text", "label"))))


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"'])
def test_the_line_that_declares_a_delimiter_is_no_example(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\ntext;label\na, b, c;good\nd;bad\n")
    cells = [*read_cells(Csv(str(path), ("text", "label")))]
    assert cells == [(f"{path}:3", ("a, b, c", "good")), (f"{path}:4", ("d", "bad"))]
    assert [*COLUMNS["csv"](path).cells] == ["text", "label"]


def test_a_pipe_is_read_once(tmp_path):
    """Nothing is taken from it to find its form."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = Thread(target=path.write_text, args=("text,label\nfine,good\n",))
    writer.start()
    pairs = [pair for _, *pair in read_pairs(Csv(str(path), ("text", "label")))]
    writer.join()
    assert pairs == [["fine", "good"]]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delimiter", "::", "delimiter: '::' is not one ASCII character, as in delimiter = ';'"),
        ("delimiter", '"', "delimiter: '\"' is not one ASCII character"),
        ("encoding", "utf-9", "encoding: 'utf-9' is unknown; use utf-8, utf-16, cp1252 or"),
    ],
)
def test_wrong_forms_are_named(tmp_path, key, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        FilesConfig(csv="a.csv", columns=(0, 1), **{key: value})
    with pytest.raises(BadInput, match=re.escape(message)):
        read("classify", "csv", tmp_path / "a.csv", **{key: value})


MISSING = "the label is missing: give one, or leave the row out"


@pytest.mark.parametrize(
    ("kind", "content"),
    [("csv", "text,label\nfine,good\ndull,\n"), ("table", "text\tlabel\nfine\tgood\ndull\t \n")],
)
def test_a_missing_label_is_no_empty_text(tmp_path, kind, content):
    path = tmp_path / "a"
    path.write_text(content)
    source = FilesConfig(**{kind: "a"}, columns=("text", "label")).under(tmp_path)
    with complains(f"{path}:3: {MISSING}"):
        list(labelled(source))
    dropped = DropCounts()
    assert len(list(labelled(source, dropped))) == 1
    assert dropped == {"without a label": 1}
    reader = "tsv" if kind == "table" else "csv"
    with complains(f"{path}:3: {MISSING}"):
        list(read("classify", reader, path, label="label"))


def test_a_missing_label_of_parallel_files_is_named_there(tmp_path):
    (tmp_path / "a").write_text("fine\ndull\n")
    (tmp_path / "b").write_text("good\n\n")
    with complains(f"{tmp_path}/b:2: {MISSING}"):
        list(labelled(FilesConfig(source="a", target="b").under(tmp_path)))
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "fine", "label": null}\n')
    with complains(f"{lines}:1: {MISSING}"):
        list(read("classify", "jsonl", lines, label="label"))


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and more")
    with complains(f"{path}: Parquet needs pyarrow: pip install regard[parquet]"):
        list(read("classify", "parquet", path))
    path.write_bytes(b"text,label")
    with complains(f"{path}: not a Parquet file"):
        list(read("classify", "parquet", path))


def test_parquet_is_read_by_pyarrow(tmp_path, monkeypatch):
    records = [{"id": 1, "text": "fine", "label": "good"}, {"id": 2, "text": "dull", "label": 0}]
    batches = [SimpleNamespace(to_pylist=lambda: records[:1])]
    batches += [SimpleNamespace(to_pylist=lambda: records[1:])]
    fake = ModuleType("pyarrow.parquet")
    fake.ParquetFile = lambda path: SimpleNamespace(iter_batches=lambda: iter(batches))
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", fake)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and more")
    expected = [("fine", "good"), ("dull", "0")]
    found = [*read("classify", "parquet", path, label="label")]
    assert [(example.texts[0], *example.labels) for example in found] == expected
    for columns in (("text", "label"), (1, 2)):
        source = FilesConfig(parquet="a.parquet", columns=columns).under(tmp_path)
        assert isinstance(source, Parquet)
        assert [tuple(pair) for _, *pair in read_pairs(source)] == expected
    with complains(f"{path}:1: no column 3, counted from 0: the row has 3"):
        list(read_pairs(Parquet(str(path), (1, 3))))
