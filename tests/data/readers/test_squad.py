"""Questions and where their answers stand; articles as wholes; what a file may get wrong."""

import gzip
import json
import re

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import GoldAnswer, QuestionExample
from regard.data.readers.fields import DropCounts

CONTEXT = "Émile 𝄞 sang. He sang well."


def asked(name, *answers, **more):
    return {
        "id": name,
        "question": "Who sang?",
        "answers": [{"text": text, "answer_start": start} for text, start in answers],
        **more,
    }


def put(path, *about):
    data = [
        {"title": f"T{number}", "paragraphs": [{"context": CONTEXT, "qas": questions}]}
        for number, questions in enumerate(about, start=1)
    ]
    text = json.dumps({"version": "1.1", "data": data}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("name", ["dev.json", "dev.json.gz"])
def test_questions_of_both_versions(tmp_path, name):
    questions = [
        asked("a", ("sang", 8), ("Émile", 0)),
        asked("b", is_impossible=True, plausible_answers=[{"text": "He", "answer_start": 14}]),
        asked("c", ("well", 22), is_impossible=False),
    ]
    questions[2]["answers"][0]["start_inferred"] = True
    path = put(tmp_path / name, questions)
    first, second, third = read("answer", "SQuAD", path)
    assert first == QuestionExample(
        f"{path}: question a",
        "a",
        "Who sang?",
        CONTEXT,
        (GoldAnswer("sang", 8), GoldAnswer("Émile", 0)),
        True,
    )
    assert (second.answers, second.answerable) == ((), False)
    assert (third.answers, third.answerable) == ((GoldAnswer("well", 22),), True)
    for answer in (*first.answers, *third.answers):
        assert CONTEXT[answer.start : answer.start + len(answer.text)] == answer.text


def test_hidden_answers(tmp_path):
    question = asked("a")
    del question["answers"]
    (only,) = read("answer", "SQuAD", put(tmp_path / "test.json", [question]))
    assert (only.answers, only.answerable) == ((), True)


def test_articles_split_a_file(tmp_path):
    path = put(tmp_path / "dev.json", [asked("a"), asked("b")], [asked("c")], [asked("d")])
    every = list(read("answer", "SQuAD", path))
    assert [one.id for one in every] == ["a", "b", "c", "d"]
    first = list(read("answer", "SQuAD", path, articles=[0, 2]))
    rest = list(read("answer", "SQuAD", path, articles=(2, 3)))
    assert first + rest == every
    assert [one.id for one in rest] == ["d"]
    for start, stop in [(0, 4), (2, 2), (-1, 2), (3, 5)]:
        with complains(f"{path}: options.articles: {start} to {stop}, but the file has 3"):
            list(read("answer", "SQuAD", path, articles=[start, stop]))


def test_unselected_questions_are_not_counted(tmp_path):
    path = put(tmp_path / "dev.json", [asked("a", ("sang", 9))], [asked("b")])
    dropped = DropCounts()
    assert len(list(read("answer", "SQuAD", path, dropped, articles=[1, 2]))) == 1
    assert not dropped


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (asked("x", ("sang", 9)), "the answer 'sang' is not at character 9 of its context"),
        (asked("x", ("ll.", -3)), "the answer 'll.' is not at character -3 of its context"),
        (asked("x", ("sang", "8")), "the value of 'answer_start' is not a whole number"),
        (asked("x", ("", 3)), "empty text"),
        (
            asked("x", ("sang", 8), is_impossible=True),
            "it is marked as impossible, but has an answer",
        ),
        (asked("x", is_impossible="no"), "the value of 'is_impossible' is not true or false"),
        ({"id": "x", "answers": []}, "no key 'question'"),
        ({**asked("x"), "question": " "}, "empty text"),
        (
            {**asked("x"), "question": "a\ud800"},
            "the value of 'question' has a surrogate without its pair",
        ),
        ({**asked("x"), "answers": ["sang"]}, "an answer is not a JSON object"),
    ],
)
def test_a_bad_question_is_named_or_dropped(tmp_path, question, message):
    path = put(tmp_path / "dev.json", [question, asked("good", ("He", 14))])
    with complains(f"{path}: question x: {message}"):
        list(read("answer", "SQuAD", path))
    dropped = DropCounts()
    assert [one.id for one in read("answer", "SQuAD", path, dropped)] == ["good"]
    assert dropped.total() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"data": [\n{"title": ', ":2: not JSON (Expecting value)"),
        ("", ":1: not JSON (Expecting value)"),
        ("[]", ": the file is not a JSON object"),
        ("{}", ": no key 'data'"),
        ('{"data": [3]}', ": article 1: it is not a JSON object"),
        ('{"data": [{"title": "T"}]}', ": article 1: no key 'paragraphs'"),
        (
            '{"data": [{"title": "T", "paragraphs": [{"context": "a", "qas": [{}]}]}]}',
            ": article 1, paragraph 1, question 1: no key 'id'",
        ),
    ],
)
def test_a_bad_file_is_never_dropped(tmp_path, text, message):
    path = tmp_path / "dev.json"
    path.write_text(text)
    with complains(f"{path}{message}"):
        list(read("answer", "SQuAD", path, DropCounts()))


def test_hostile_depth_and_truncation(tmp_path):
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200_000)
    with pytest.raises(BadInput, match=f"^{re.escape(str(deep))}: not JSON"):
        list(read("answer", "SQuAD", deep))
    half = put(tmp_path / "half.json.gz", [asked("a")] * 50)
    half.write_bytes(half.read_bytes()[:-20])
    with pytest.raises(BadInput, match="damaged or truncated archive"):
        list(read("answer", "SQuAD", half))
    with pytest.raises(BadInput, match="cannot be read"):
        list(read("answer", "SQuAD", tmp_path / "none.json"))
