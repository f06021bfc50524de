"""Semantic roles in columns, in CoNLL-U Plus and in JSON lines."""

import json

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import Frame, RoleExample
from regard.data.readers.fields import DropCounts
from regard.metrics.entities import LabelledSpan
from small_roles import GLOBAL, SENTENCES, brackets, write_roles

FORMS = ["CoNLL-2005", "CoNLL-2012", "CoNLL-U", "spans", "jsonl"]


def read_file(path, form):
    return [*read("roles", {"spans": "CoNLL-U"}.get(form, form), path)]


def spans(arguments):
    return tuple(LabelledSpan(first, last + 1, label) for first, last, label in arguments)


@pytest.mark.parametrize("form", FORMS)
def test_all_formats_say_the_same(tmp_path, form):
    examples = read_file(write_roles(tmp_path / "roles.txt", form), form)
    assert [(list(one.words), [f.predicate for f in one.frames]) for one in examples] == [
        (words, [place for place, *_ in frames]) for words, frames in SENTENCES
    ]
    for example, (_, frames) in zip(examples, SENTENCES, strict=True):
        for frame, (_, lemma, arguments) in zip(example.frames, frames, strict=True):
            assert frame.arguments == spans(arguments)
            assert frame.sense.startswith(lemma)
    assert examples[0].where.startswith(str(tmp_path / "roles.txt:"))


def test_the_column_of_predicates_can_be_named(tmp_path):
    words, frames = SENTENCES[2]
    ((_, _, arguments),) = frames
    cells = zip(["-", "look", *["-"] * 6], brackets(words, arguments), words, strict=True)
    path = tmp_path / "roles.txt"
    path.write_text("\n".join(f"x {word} {lemma} {cell}" for lemma, cell, word in cells))
    (example,) = read("roles", "conll-2005", path, None, word=1, predicate=2)
    assert example.words == tuple(words)
    assert example.frames == (Frame(1, spans(arguments), "look"),)


def test_a_predicate_without_its_own_span_gets_one(tmp_path):
    path = tmp_path / "roles.jsonl"
    record = {"tokens": ["Owls", "eat"], "predicates": [{"index": 1, "args": [[0, 0, "A0"]]}]}
    path.write_text(json.dumps(record))
    (example,) = read("roles", "jsonl", path)
    assert example.frames[0].arguments == spans([(0, 0, "A0"), (1, 1, "V")])
    assert example.content.inputs == ("Owls eat",) and example.content.labels == ("A0", "V")


def test_a_continued_verb_may_be_the_predicate(tmp_path):
    path = tmp_path / "roles.jsonl"
    arguments = [(0, 0, "V"), (2, 2, "C-V")]
    record = {"tokens": ["flip", "-", "flop"], "predicates": [{"index": 2, "args": arguments}]}
    path.write_text(json.dumps(record))
    (example,) = read("roles", "jsonl", path)
    assert example.frames == (Frame(2, spans(arguments)),)


def test_labels_at_heads_are_arguments_of_one_word(tmp_path):
    path = tmp_path / "roles.conllu"
    rows = [("Old", "_", "_"), ("owls", "_", "A0"), ("eat", "eat.01", "_"), ("mice", "_", "A1")]
    lines = [
        "\t".join([str(i), word, *["_"] * 8, *rest]) for i, (word, *rest) in enumerate(rows, 1)
    ]
    path.write_text("\n".join(lines))
    (example,) = read("roles", "CoNLL-U", path)
    assert example.frames == (Frame(2, spans([(1, 1, "A0"), (2, 2, "V"), (3, 3, "A1")]), "eat.01"),)


U = "\t".join(["_"] * 8)
BAD = [
    ("CoNLL-2005", "a - (A0*\nb x *\n", "2: column 2: (A0 is not closed"),
    ("CoNLL-2005", "a - *)\nb x (V*)\n", "1: column 2: '*)' after no open bracket"),
    ("CoNLL-2005", "a - (A0*\nb x (V*))\n", "2: column 2: '(V*))' after A0 open bracket"),
    ("CoNLL-2005", "a - (A0*\nb x (V*)\n", "2: column 2: '(V*)' after A0 open bracket"),
    ("CoNLL-2005", "a x *\nb x *\n", "1: 2 predicates, but 1 columns of arguments"),
    ("CoNLL-2005", "a x *\nb -\n", "2: 2 columns where the sentence began with 3"),
    ("CoNLL-2005", "a\nb\n", "1: no words in column 0, predicates in column 0, of 1"),
    ("CoNLL-2012", "a b c\n", "1: 3 columns, fewer than 12"),
    ("CoNLL-2012", "d 0 0 eat X * eat 01 - - * (A0*) -\n", "1: column 11 has no (V*)"),
    ("CoNLL-U", f"1\ta\t{U}\n", "1: 10 columns, not 11"),
    ("CoNLL-U", f"1\ta\t{U}\tx\n", "1: 1 predicates, but 0 columns of arguments"),
    ("CoNLL-U", f"one\ta\t{U}\tx\t_\n", "1: 'one' is not the number of a word"),
    ("CoNLL-U", "# global.columns = ID UP:PRED\n1\t_\n", "1: no column FORM; merge"),
    ("CoNLL-U", f"{GLOBAL} UP:ARGSPANS\n1\ta\t{U}\tx\tA0:1\n", "2: 'A0:1' is not a label and"),
    ("CoNLL-U", f"{GLOBAL} UP:ARGSPANS\n1\ta\t{U}\tx\tA0:1-7\n", "2: 'A0:1-7' is not a label"),
    ("jsonl", '{"tokens": []}\n', "1: no key 'predicates'"),
    ("jsonl", '{"tokens": [], "predicates": []}\n', "1: a sentence without words"),
    ("jsonl", '{"tokens": ["a"], "predicates": [3]}\n', "1: a predicate is not a JSON object"),
    ("jsonl", '{"tokens": ["a"], "predicates": [{"index": 1}]}\n', "1: the predicate is word 1"),
    (
        "jsonl",
        '{"tokens": ["a"], "predicates": [{"index": 0}, {"index": 0}]}\n',
        r"1: the predicate 0 (a) has 2 frames",
    ),
    (
        "jsonl",
        '{"tokens": ["a", "b"], "predicates": [{"index": 0, "args": [[1, 1, "V"]]}]}\n',
        "1: the predicate is word 0, but V has the words 1 to 1",
    ),
    ("CoNLL-2005", "a x *\nb - (V*)\n", "1: the predicate is word 0, but V has the words 1 to 1"),
    (
        "jsonl",
        '{"tokens": ["a"], "predicates": [{"index": 0, "args": [[0, 0]]}]}\n',
        "1: an argument has 2 parts",
    ),
    (
        "jsonl",
        '{"tokens": ["a"], "predicates": [{"index": 0, "args": [[0, 1, "A0"]]}]}\n',
        "1: no words 0 to 1 of 1 for 'A0'",
    ),
    (
        "jsonl",
        '{"tokens": ["a", "b"], "predicates": [{"index": 0, "args": [[0, 1, "A0"]]}]}\n',
        "1: A0 contains the predicate, word 0; only V may",
    ),
    (
        "jsonl",
        '{"tokens": ["a", "b"], "predicates": [{"index": 1, "args": [[0, 1, "A0"]]}]}\n',
        "1: A0 contains the predicate, word 1; only V may",
    ),
    (
        "jsonl",
        '{"tokens": ["a"], "predicates": [{"index": 0, "args": [[0, 0, "V"], [0, 0, "V"]]}]}\n',
        "1: V overlaps another argument of the predicate 0",
    ),
    (
        "jsonl",
        '{"tokens": ["a", "b"], "predicates": [{"index": 1, "args": [[0, 0, ""]]}]}\n',
        "1: an argument has an empty label",
    ),
    (
        "jsonl",
        '{"tokens": ["a", "b"], "predicates": [{"index": 1, "args": [[0, 0, "V"]]}]}\n',
        "1: the predicate is word 1, but V has the words 0 to 0",
    ),
]


@pytest.mark.parametrize(("form", "text", "message"), BAD)
def test_a_bad_sentence_is_named_or_dropped(tmp_path, form, text, message):
    path = tmp_path / "roles.txt"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        list(read("roles", form, path))
    assert str(caught.value).startswith(f"{path}:{message}"), str(caught.value)
    assert "\n" not in str(caught.value)
    if "no column" not in message:
        dropped = DropCounts()
        assert list(read("roles", form, path, dropped)) == [] and dropped.total() == 1


def test_an_example_is_the_same_read_twice(tmp_path):
    path = write_roles(tmp_path / "roles.jsonl", "jsonl")
    first, second = read_file(path, "jsonl"), read_file(path, "jsonl")
    assert first == second and isinstance(first[0], RoleExample)
