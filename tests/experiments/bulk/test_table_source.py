"""Rows of tables come out as they went in, with results in further columns."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.readers.text_files import Arrivals
from regard.experiments.bulk.table_source import DelimitedRows, JsonRows, TsvRows

LETTERS = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), max_size=12)
CELLS = LETTERS | st.sampled_from(['"', '""', ",", ";", "\t", "\n", '",\n"', " ", "", "a|b"])
RESULTS = {"label": 'so "good"', "probability": 0.5, "words": ["a", "b,c"], "none": None}
ADDED = ['so "good"', "0.5", '["a", "b,c"]', ""]


def printed(rows):
    """All that a verb prints, with the same results in every row."""
    lines = [rows.head([*RESULTS])]
    for number, raw in rows.lines(Arrivals()):
        lines.append(rows.row(raw.decode(), f"a:{number}", RESULTS))
    return "".join(lines)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5), st.sampled_from([",", ";", "\t", "|"]))
def test_any_csv_survives(tmp_path_factory, pairs, delimiter):
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    table = [["id", "te xt", 'la"bel']] + [[f"n{n}", *pair] for n, pair in enumerate(pairs)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(table)
    rows = DelimitedRows(str(path), named=True)
    assert rows.table.form.delimiter == delimiter
    names, *cells = csv.reader(io.StringIO(printed(rows), newline=""), delimiter=delimiter)
    assert names == [*table[0], *RESULTS]
    assert cells == [[*row, *ADDED] for row in table[1:]]
    wheres = rows.lines(Arrivals())
    records = [rows.record(raw.decode(), f"a:{number}") for number, raw in wheres]
    assert records == [dict(zip(table[0], row, strict=True)) for row in table[1:]]


@given(st.lists(st.dictionaries(CELLS, CELLS | st.integers() | st.none() | st.lists(CELLS))))
def test_any_json_survives(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("rows") / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    lines = printed(JsonRows(str(path))).split("\n")[:-1]
    assert [json.loads(line) for line in lines] == [{**record, **RESULTS} for record in records]


def test_plain_tabs_stay_plain(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\n1\tthe 5" one\n2\n\n3\t"no"\n')
    rows = TsvRows(str(path))
    head, first, short, empty, last = printed(rows).splitlines()
    assert head == "id\ttext\tlabel\tprobability\twords\tnone"
    assert first == '1\tthe 5" one\tso "good"\t0.5\t["a", "b,c"]\t'
    assert short == '2\t\tso "good"\t0.5\t["a", "b,c"]\t'  # filled up to the header
    assert empty == "" and last.startswith('3\t"no"\tso')
    assert rows._cell("a\tb\nc") == "a b c"


def test_a_malformed_row_becomes_one_cell(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"a"b\n')
    rows = DelimitedRows(str(path))
    _, row = csv.reader(io.StringIO(printed(rows)))
    assert row == ['1,"a"b', "", *ADDED]
    with pytest.raises(BadInput, match=r"^a:2: not CSV \("):
        rows.record('1,"a"b', "a:2")
    assert json.loads(JsonRows("a").row("[1", "a:2", {"x": 1})) == {"line": "[1", "x": 1}


def test_numbers_of_lines_are_those_of_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"a\nb"\n2,c\n')
    assert [number for number, _ in DelimitedRows(str(path)).lines(Arrivals())] == [2, 4]
