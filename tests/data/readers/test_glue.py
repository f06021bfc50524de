"""Each task of GLUE is read from files in the form in which it is distributed."""

import gzip
import io
import re
import sys

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.fields import DropCounts
from regard.data.readers.glue import GLUE_TASKS, glue
from regard.data.readers.text_files import TO_UTF8

MNLI = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\t"
    "sentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
    '0\t3\t3n\tfiction\t( a )\t( b )\t(A a)\t(B b)\tHe said "no.\tHe spoke.\tneutral\tentailment\n'
)
STSB = (
    "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    "0\tnews\tMSRvid\t2012\t1\tnone\tnone\tA man runs.\tA man walks.\t3.800\n"
)
LABELLED = {
    "CoLA": ("gj04\t1\t\tIt rains.\nbc01\t0\t*\tRains it it.\n", ("It rains.",), "1"),
    "SST-2": ("sentence\tlabel\na fine film \t1\n", ("a fine film ",), "1"),
    "MRPC": (
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t12\t34\t" It is .\tSo it is .\r\n',
        ('" It is .', "So it is ."),
        "1",
    ),
    "STS-B": (STSB, ("A man runs.", "A man walks."), "3.800"),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n7\t1\t2\tWhy?\tHow?\t0\n",
        ("Why?", "How?"),
        "0",
    ),
    "MNLI": (MNLI, ('He said "no.', "He spoke."), "entailment"),
    "QNLI": (
        "index\tquestion\tsentence\tlabel\n0\tWho?\tNobody.\tnot_entailment\n",
        ("Who?", "Nobody."),
        "not_entailment",
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel\n0\tIt rains.\tIt pours.\tentailment\n",
        ("It rains.", "It pours."),
        "entailment",
    ),
    "WNLI": (
        "index\tsentence1\tsentence2\tlabel\n0\tHe fed it.\tHe fed the cat.\t1\n",
        ("He fed it.", "He fed the cat."),
        "1",
    ),
}
HIDDEN = {
    "CoLA": ("index\tsentence\n0\tIt rains.\n", ("It rains.",)),
    "SST-2": ("index\tsentence\n0\ta fine film\n", ("a fine film",)),
    "MRPC": ("index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tSo .\tNo .\n", ("So .", "No .")),
    "QQP": ("id\tquestion1\tquestion2\n0\tWhy?\tHow?\n", ("Why?", "How?")),
    "RTE": ("index\tsentence1\tsentence2\n0\tIt rains.\tIt pours.\n", ("It rains.", "It pours.")),
}


def put(path, text):
    path.write_bytes(text.encode())
    return path


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("name", GLUE_TASKS)
def test_each_task_is_read_as_distributed(tmp_path, name):
    text, texts, label = LABELLED[name]
    path = put(tmp_path / "train.tsv", text)
    first = next(read("classify", name, path))
    line = 1 if name == "CoLA" else 2
    assert (first.where, first.texts, first.labels) == (f"{path}:{line}", texts, (label,))
    assert len(list(read("classify", name.lower(), path))) == text.count("\n") - (line - 1)


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_labels_are_no_labels(tmp_path, name):
    text, texts = HIDDEN[name]
    (only,) = read("classify", name, put(tmp_path / "test.tsv", text))
    assert (only.texts, only.labels) == (texts, None)


def test_the_benchmark_says_what_it_measures():
    assert GLUE_TASKS["CoLA"].metrics == ("Matthews",)
    assert GLUE_TASKS["STS-B"].metrics == ("Pearson", "Spearman") and not GLUE_TASKS["STS-B"].labels
    for name in ("MRPC", "QQP"):
        assert GLUE_TASKS[name].metrics == ("F1", "accuracy") and GLUE_TASKS[name].positive == "1"
    for name in ("SST-2", "MNLI", "QNLI", "RTE", "WNLI"):
        assert GLUE_TASKS[name].metrics == ("accuracy",) and GLUE_TASKS[name].positive is None
    assert len(GLUE_TASKS) == 9


def test_broken_lines_are_named_or_counted(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "1\t1\t2\tWhy is\nthis?\tHow?\t0\n\n2\t3\t4\tWho?\t\t1\n3\t5\t6\tA?\tB?\t2\n"
    good = "4\t7\t8\tA?\tB?\t1\n"
    path = put(tmp_path / "train.tsv", header + rows + good)
    with complains(f"{path}:2: no column 4, counted from 0: the line has 4"):
        list(glue(path, "QQP"))
    dropped = DropCounts()
    (kept,) = glue(path, "QQP", dropped)
    assert kept.where == f"{path}:7"
    assert dropped == {"without a column": 2, "empty": 2, "with an unknown label": 1}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("SST-2", b"sentence\tlabel\ngood\t2\n", ":2: the label is '2', not one of 0, 1"),
        ("SST-2", b"text\tlabel\ngood\t1\n", ":1: no column 'sentence' among 'text, label'"),
        ("SST-2", b"", ": empty, without a header"),
        (
            "SST-2",
            b"sentence\tlabel\nb\xe9te\t1\n",
            f":2: not UTF-8 (byte 0xe9 at column 2); {TO_UTF8}",
        ),
        ("SST-2", b"sentence\tlabel\n \t1\n", ":2: empty text"),
        (
            "CoLA",
            b"a\t1\t\tIt is.\na\t1\tIt was.\n",
            ":2: no column 3, counted from 0: the line has 3",
        ),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(tmp_path, name, content, message):
    path = tmp_path / "dev.tsv"
    path.write_bytes(content)
    with complains(f"{path}{message}"):
        list(glue(path, name))


@pytest.mark.parametrize("label", ["high", "nan", "inf", ""])
def test_a_score_is_a_number(tmp_path, label):
    path = put(tmp_path / "dev.tsv", STSB.replace("3.800", label))
    with complains(f"{path}:2: the label {label!r} is not a number"):
        list(glue(path, "STS-B"))


def test_packed_missing_and_truncated_files(tmp_path):
    packed = gzip.compress(LABELLED["RTE"][0].encode() * 50)
    whole, half = tmp_path / "whole.tsv.gz", tmp_path / "half.tsv.gz"
    whole.write_bytes(gzip.compress(LABELLED["RTE"][0].encode()))
    half.write_bytes(packed[: len(packed) // 2])
    assert len(list(glue(whole, "RTE"))) == 1
    with pytest.raises(BadInput, match=f"^{re.escape(str(half))}: damaged or truncated archive"):
        list(glue(half, "RTE", DropCounts()))
    with complains(f"{tmp_path / 'none.tsv'}: cannot be read (No such file or directory)"):
        list(glue(tmp_path / "none.tsv", "RTE"))


def test_standard_input(monkeypatch):
    content = io.TextIOWrapper(io.BytesIO(LABELLED["CoLA"][0].encode()))
    monkeypatch.setattr(sys, "stdin", content)
    assert [one.where for one in read("classify", "CoLA", "-")] == [
        "standard input:1",
        "standard input:2",
    ]
