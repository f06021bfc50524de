"""Four choices each: continuations of SWAG, options of RACE."""

import json
import re

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import ChoiceExample
from regard.data.readers.fields import DropCounts

HEADER = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3"
ROW = '0,v1,1,"He sits. He","He sits, then.",He,gold,"stands, up.","says ""no"".",runs.,"sle\neps."'
ENDINGS = ("He stands, up.", 'He says "no".', "He runs.", "He sle\neps.")
PASSAGE = {
    "id": "high1.txt",
    "article": "It rained. We stayed in.",
    "questions": ["We stayed _ .", "Why?", "_ and _ ?"],
    "options": [["in", "out", "up", "\\1"], ["Rain", "Sun", "Snow", "Fog"], list("abcd")],
    "answers": ["A", "A", "D"],
}
UNCLOSED = (
    "a quote that is never closed; close it, or set quoting = false if quotes are part of the text"
)


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def passage(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**PASSAGE, **changes}))
    return path


def test_swag(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text(f"{HEADER},label\n{ROW},2\n")
    pairs = tuple(("He sits, then.", ending) for ending in ENDINGS)
    assert list(read("choose", "SWAG", path)) == [ChoiceExample(f"{path}:2", pairs, 2)]
    path.write_text(f"{HEADER}\n{ROW}\n")
    assert list(read("choose", "SWAG", path)) == [ChoiceExample(f"{path}:2", pairs, None)]


@pytest.mark.parametrize("label", ["4", "01", "", "x"])
def test_a_label_is_one_of_four(tmp_path, label):
    path = tmp_path / "train.csv"
    path.write_text(f"{HEADER},label\n{ROW},{label}\n")
    with complains(f"{path}:2: the label is {label!r}, not one of 0, 1, 2, 3"):
        list(read("choose", "SWAG", path))
    dropped = DropCounts()
    assert not list(read("choose", "SWAG", path, dropped)) and dropped.total() == 1


def test_wrong_tables(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("sent1,sent2\na,b\n")
    with complains(f"{path}:1: no column 'ending0' among 'sent1, sent2'"):
        list(read("choose", "SWAG", path))
    path.write_text(f'{HEADER}\n0,"never closed\n')
    with complains(f"{path}:2: {UNCLOSED}"):
        list(read("choose", "SWAG", path))


def test_race_from_a_file_and_from_folders(tmp_path):
    high = passage(tmp_path / "test" / "high" / "1.txt")
    passage(tmp_path / "test" / "middle" / "2.txt", answers=list("BBB"))
    (tmp_path / "test" / "high" / "1.txt~").write_bytes(b"\x00\xff")
    first, second, third = read("choose", "RACE", high)
    article = PASSAGE["article"]
    assert first.choices[0] == (article, "We stayed in .")
    assert first.choices[3] == (article, "We stayed \\1 .")
    assert second.choices[2] == (article, "Why? Snow")
    assert third.choices[1] == (article, "_ and _ ? b")
    assert [one.label for one in (first, second, third)] == [0, 0, 3]
    assert second.where == f"{high}: question 2"
    assert [one.label for one in read("choose", "RACE", tmp_path / "test")] == [0, 0, 3, 1, 1, 1]


def test_race_with_hidden_answers(tmp_path):
    path = passage(tmp_path / "1.txt")
    hidden = {key: value for key, value in PASSAGE.items() if key != "answers"}
    path.write_text(json.dumps(hidden))
    assert [one.label for one in read("choose", "RACE", path)] == [None, None, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["E", "A", "A"]}, ": question 1: the label is 'E', not one of A, B, C, D"),
        ({"answers": [1, "A", "A"]}, ": question 1: the answer is not text"),
        ({"questions": [3, "b", "c"]}, ": question 1: the question is not text"),
        ({"options": [["a"], *PASSAGE["options"][1:]]}, ": question 1: 1 options instead of 4"),
        (
            {"options": [[1, 2, 3, 4], *PASSAGE["options"][1:]]},
            ": question 1: an option is not text",
        ),
    ],
)
def test_a_bad_question_is_named_or_dropped(tmp_path, changes, message):
    path = passage(tmp_path / "1.txt", **changes)
    with complains(f"{path}{message}"):
        list(read("choose", "RACE", path))
    dropped = DropCounts()
    assert len(list(read("choose", "RACE", path, dropped))) == 2
    assert dropped.total() == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": ["A"]}, ": 3 questions, 3 options, 1 answers"),
        ({"article": None}, ": the value of 'article' is not text"),
        ({"questions": "Why?"}, ": the value of 'questions' is not a list"),
    ],
)
def test_a_bad_passage_is_never_dropped(tmp_path, changes, message):
    path = passage(tmp_path / "1.txt", **changes)
    with complains(f"{path}{message}"):
        list(read("choose", "RACE", path, DropCounts()))


def test_no_files(tmp_path):
    with complains(f"{tmp_path}: no .txt files in this folder"):
        list(read("choose", "RACE", tmp_path))
    with complains(f"{tmp_path / 'none'}: cannot be read (No such file or directory)"):
        list(read("choose", "RACE", tmp_path / "none"))
