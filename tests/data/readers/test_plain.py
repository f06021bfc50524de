"""Readers of columns and JSON keys, and the function that finds a reader and checks its options."""

import json
import re

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import READERS, read
from regard.data.readers.examples import LabelledExample, TaggedExample
from regard.data.readers.fields import DropCounts
from regard.data.readers.table_files import Csv, Table, read_cells


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def test_columns_by_name_and_by_number(tmp_path):
    tsv = put(tmp_path / "a.tsv", 'id\ttext\tother\ttopic\n1\t"a\tb\tx\n')
    wanted = [LabelledExample(f"{tsv}:2", ('"a', "b"), ("x",))]
    assert list(read("classify", "tsv", tsv, texts=["text", "other"], label="topic")) == wanted
    bare = put(tmp_path / "b.tsv", "1\ta\tb\tx\n")
    assert list(read("classify", "tsv", bare, texts=[1, 2], label=3)) == [
        LabelledExample(f"{bare}:1", ("a", "b"), ("x",))
    ]
    csv = put(tmp_path / "a.csv", 'text,topic\n"a, ""b""\nc",x\n')
    assert list(read("classify", "csv", csv, label="topic")) == [
        LabelledExample(f"{csv}:2", ('a, "b"\nc',), ("x",))
    ]
    assert next(read("classify", "csv", csv)).labels is None


def test_several_labels_at_once(tmp_path):
    path = put(tmp_path / "a.tsv", "text\ttopics\na\tx| y\nb\t\nc\t |z\n")
    found = list(read("classify", "tsv", path, label="topics", separator="|"))
    assert [one.labels for one in found] == [("x", "y"), (), ("z",)]
    with complains(f"{path}:3: the label is missing: give one, or leave the row out"):
        list(read("classify", "tsv", path, label="topics"))
    lines = put(tmp_path / "a.jsonl", '{"text": "a", "l": ["x", 2]}\n{"text": "b", "l": []}\n')
    assert [one.labels for one in read("classify", "jsonl", lines, label="l")] == [("x", "2"), ()]


@pytest.mark.parametrize("cell", ["nan", "NaN"])
def test_a_missing_value_of_pandas_is_no_text_and_no_label(cell, tmp_path):
    csv = put(tmp_path / "a.csv", f"text,topic\na,x\n{cell},x\nb,{cell}\nnanny,y\n")
    with complains(f"{csv}:3: the cell of column 0 is {cell!r}: a missing value"):
        list(read("classify", "csv", csv, label="topic"))
    dropped = DropCounts()
    kept = [*read("classify", "csv", csv, dropped, label="topic")]
    assert [one.texts for one in kept] == [("a",), ("nanny",)] and str(dropped) == "2 missing"
    tsv = put(tmp_path / "a.tsv", f"text\ttopic\na\t{cell}\n")
    with complains(f"{tsv}:2: the label is missing: give one, or leave the row out"):
        list(read("classify", "tsv", tsv, label="topic"))
    lines = put(tmp_path / "a.jsonl", f'{{"text": "{cell}", "l": "x"}}\n')
    with complains(f"{lines}:1: the value of 'text' is {cell!r}: a missing value"):
        list(read("classify", "jsonl", lines, label="l"))
    put(lines, '{"text": "a", "l": NaN}\n')
    with complains(f"{lines}:1: the value of 'l' is 'nan': a missing value"):
        list(read("classify", "jsonl", lines, label="l"))


def test_keys_of_json_lines(tmp_path):
    records = [{"in": {"a": "x", "b": "y"}, "score": 2.5}, {"in": {"a": "z", "b": "w"}, "score": 3}]
    path = put(tmp_path / "a.jsonl", "".join(json.dumps(one) + "\n" for one in records))
    assert list(read("classify", "jsonl", path, texts=["in.a", "in.b"], label="score")) == [
        LabelledExample(f"{path}:1", ("x", "y"), ("2.5",)),
        LabelledExample(f"{path}:2", ("z", "w"), ("3",)),
    ]
    dotted = put(tmp_path / "b.jsonl", '{"in.a": "x"}\n')
    assert next(read("classify", "jsonl", dotted, texts=["in.a"])).texts == ("x",)


def test_words_and_tags_of_json_lines(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"tokens": ["a", "b"], "pos": ["X", 1]}\n')
    assert list(read("tag", "jsonl", path, words="tokens", tags="pos")) == [
        TaggedExample(f"{path}:1", ("a", "b"), ("X", "1"))
    ]


def test_labels_of_json_may_be_true_and_false(tmp_path):
    lines = '{"text": "a", "label": true}\n{"text": "b", "label": false}\n'
    path = put(tmp_path / "a.jsonl", lines)
    labels = [example.labels for example in read("classify", "jsonl", path, label="label")]
    assert labels == [("True",), ("False",)]


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("classify", "{", "not JSON (Expecting property name enclosed in double quotes"),
        ("classify", "[]", "the line is not a JSON object"),
        ("classify", '{"label": "x"}', "no key 'text'"),
        ("classify", '{"text": "a"}', "no key 'label'"),
        ("classify", '{"text": 3, "label": "x"}', "the value of 'text' is not text"),
        ("classify", '{"text": "a", "label": {}}', "the value of 'label' is not text"),
        ("classify", '{"text": " ", "label": "x"}', "empty text"),
        ("tag", '{"words": ["a"], "tags": []}', "1 words and 0 tags"),
        ("tag", '{"words": [], "tags": []}', "0 words and 0 tags"),
        ("tag", '{"words": ["a", ""], "tags": ["x", "y"]}', "empty text"),
        ("tag", '{"words": "a", "tags": ["x"]}', "the value of 'words' is not a list"),
    ],
)
def test_bad_lines_are_named_or_counted(tmp_path, kind, line, message):
    good = '{"text": "a", "label": "x", "words": ["a"], "tags": ["x"]}'
    path = put(tmp_path / "a.jsonl", f"{good}\n{line}\n")
    options = {"label": "label"} if kind == "classify" else {}
    with pytest.raises(BadInput, match=f"^{re.escape(f'{path}:2: {message}')}"):
        list(read(kind, "jsonl", path, **options))
    dropped = DropCounts()
    assert len(list(read(kind, "jsonl", path, dropped, **options))) == 1
    assert dropped.total() == 1


def test_rows_of_a_table(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b'a\tb\n"c\n\n\xff\n')
    dropped = DropCounts()
    assert list(read_cells(Table(str(path), (0,)), dropped)) == [
        (f"{path}:1", ("a",)),
        (f"{path}:2", ('"c',)),
    ]
    assert dropped == {"empty": 1, "not UTF-8": 1}
    path.write_bytes(b'a,"b\nc"\nd\n')
    assert list(read_cells(Csv(str(path), (0,)))) == [(f"{path}:1", ("a",)), (f"{path}:3", ("d",))]


@pytest.mark.parametrize(
    ("kind", "reader", "options", "message"),
    [
        ("clasify", "tsv", {}, "unknown task 'clasify'; did you mean 'classify'?"),
        ("tag", "conl", {}, "no reader for task 'tag' is called 'conl'; did you mean 'CoNLL'?"),
        ("answer", "xyz", {}, "no reader for task 'answer' is called 'xyz'; known: SQuAD"),
        (
            "classify",
            "SST-5",
            {"phrase": True},
            "SST-5 has no option 'phrase'; did you mean 'phrases'?",
        ),
        ("classify", "MRPC", {"name": "RTE"}, "MRPC has no option 'name'; known: none"),
        (
            "classify",
            "tsv",
            {"comma": True},
            "tsv has no option 'comma'; known: delimiter, encoding, header, label, quoting, "
            "separator, texts",
        ),
        ("answer", "SQuAD", {"path": "b"}, "SQuAD has no option 'path'; known: articles"),
        ("classify", "MRPC", {"task": "RTE"}, "MRPC has no option 'task'; known: none"),
        ("classify", "tsv", {"texts": []}, "an example is one text or two, not 0"),
        ("classify", "tsv", {"texts": ["a", "b", "c"]}, "an example is one text or two, not 3"),
        (
            "classify",
            "jsonl",
            {"separator": ""},
            "options.separator must have at least one character",
        ),
    ],
)
def test_names_that_are_not_known(kind, reader, options, message):
    with complains(message):
        read(kind, reader, "-", **options)


@pytest.mark.parametrize(
    ("kind", "reader", "options"),
    [
        ("answer", "SQuAD", {"articles": "first 38"}),
        ("answer", "SQuAD", {"articles": [38]}),
        ("tag", "CoNLL", {"tag": "ner"}),
        ("classify", "SST-5", {"phrases": 3}),
        ("classify", "csv", {"texts": "text"}),
    ],
)
def test_options_of_the_wrong_type(kind, reader, options):
    (option,) = options
    with pytest.raises(BadInput, match=f"^{reader}: option '{option}' cannot be .*$"):
        read(kind, reader, "-", **options)


BUILT_IN = {"digits", "modular-sums", "repeats"}  # they read no file


def test_every_reader_reports_a_missing_file(tmp_path):
    for kind, readers in READERS.items():
        for name in readers.keys() - BUILT_IN:
            missing = tmp_path / ("none.jsonl" if name == "SNLI" else "none")
            with complains(f"{missing}: cannot be read (No such file or directory)"):
                list(read(kind, name, missing))
