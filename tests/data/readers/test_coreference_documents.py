"""Coreference files: columns, JSON lines, questions about pronouns, and what is refused where."""

import json
import re

import pytest

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.coreference_documents import sentence_spans
from regard.data.readers.examples import CoreferenceExample, PronounQuestion
from regard.data.readers.fields import DropCounts
from regard.data.readers.memory import MemoryExamples


def column_line(word, marks, speaker="-", name="bc/a/0"):
    return f"{name} 0 0 {word} NN * - - - {speaker} * {marks}"


COLUMNS = "\n".join(
    [
        "#begin document (bc/a/0); part 001",
        column_line("Ann", "(0)|(1", "Kim"),
        column_line("Lee", "1)", "Kim"),
        column_line("sat", "-", "Kim"),
        "",
        column_line("She", "(0)", "Bo"),
        column_line("smiled", "-", "Bo"),
        "",
        "#end document",
        "#begin document (plain)",
        "plain\t0\t0\tOne\t_\t_\t_\t_\t_\t_\t_\t_\t(7",
        "plain\t0\t1\tword\t_\t_\t_\t_\t_\t_\t_\t_\t7)",
        "plain\t0\t2\t.\t_\t_\t_\t_\t_\t_\t_\t_\t",
        "#end document",
    ]
)


def put(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def refused(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def test_columns_of_conll_2012_and_litbank(tmp_path):
    path = put(tmp_path / "a.conll", COLUMNS)
    first, second = read("coreference", "CoNLL-2012", path)
    assert first == CoreferenceExample(
        f"{path}:1",
        (("Ann", "Lee", "sat"), ("She", "smiled")),
        (((0, 1), (3, 4)), ((0, 2),)),
        "bc/a/0_001",
        ("Kim", "Kim", "Kim", "Bo", "Bo"),
        "bc",
    )
    assert first.content.inputs == ("Ann Lee sat She smiled",)
    assert second == CoreferenceExample(
        f"{path}:10", (("One", "word", "."),), (((0, 2),),), "plain"
    )


def test_nested_mentions_of_one_cluster_close_the_inner_one_first(tmp_path):
    lines = [column_line(*pair) for pair in (("a", "(0|(0"), ("b", "0)"), ("c", "0)"))]
    path = put(tmp_path / "a", "\n".join(["#begin document (x); part 0", *lines, "#end document"]))
    (only,) = read("coreference", "conll-2012", path)
    assert only.clusters == (((0, 2), (0, 3)),)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("#begin document (x)\n" + column_line("a", "(0"), 1, "this document has no #end document"),
        ("word\n", 1, "a line outside #begin document"),
        ("#end document\n", 1, "a document ends that did not begin"),
        ("#begin document (x)\n#begin document (y)\n", 2, "a document begins before #end document"),
        ("#begin document x\n#end document", 1, "#begin document has no (name)"),
        ("#begin document (x)\na b c\n#end document", 2, "3 columns, fewer than 5"),
        ("#begin document (x)\n#end document", 1, "a document without words"),
        (f"#begin document (x)\n{column_line('a', '(0')}\n#end document", 2, "(0 is not closed"),
        (f"#begin document (x)\n{column_line('a', '0)')}\n#end document", 2, "0) was not opened"),
        (
            f"#begin document (x)\n{column_line('a', '0')}\n#end document",
            2,
            "'0' is no mark of a cluster such as (3 or 3) or (3)",
        ),
        (
            f"#begin document (x)\n{column_line('a', '(0)|(1)')}\n#end document",
            1,
            "the mention [0, 0] is in two clusters, or twice in one",
        ),
    ],
)
def test_bad_columns_are_refused_with_their_line(tmp_path, text, line, message):
    path = put(tmp_path / "a", text)
    with refused(f"{path}:{line}: {message}"):
        list(read("coreference", "CoNLL-2012", path))


def test_a_bad_document_can_be_left_out(tmp_path):
    bad = f"#begin document (x)\n{column_line('a', '(0')}\n#end document\n"
    path, dropped = put(tmp_path / "a", bad + COLUMNS), DropCounts()
    assert len(list(read("coreference", "CoNLL-2012", path, dropped))) == 2
    assert dropped == {"not clusters": 1}


RECORD = {
    "doc_key": "nw/x",
    "genre": "nw",
    "sentences": [["Ann", "sat"], ["She", "smiled"]],
    "speakers": [["K", "K"], ["K", "K"]],
    "clusters": [[[2, 2], [0, 0]]],
}


def test_json_lines_have_inclusive_ends(tmp_path):
    alone = {"sentences": [["a"]], "clusters": []}
    path = put(tmp_path / "a.jsonl", f"{json.dumps(RECORD)}\n{json.dumps(alone)}\n")
    first, second = read("coreference", "jsonl", path)
    assert first == CoreferenceExample(
        f"{path}:1",
        (("Ann", "sat"), ("She", "smiled")),
        (((0, 1), (2, 3)),),
        "nw/x",
        ("K",) * 4,
        "nw",
    )
    assert second.clusters == ()


def test_examples_in_memory_have_the_same_rules():
    value = ([["Ann", "sat"], ("She", "smiled")], [[(0, 0), (2, 2)]])
    (only,) = MemoryExamples("data", [value]).read("coreference", None)
    assert only.clusters == (((0, 1), (2, 3)),)
    with refused("data[0]: the mention [0, 9] is not in a document of 1 words"):
        list(MemoryExamples("data", [([["a"]], [[(0, 9)]])]).read("coreference", None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": [[[0, 4]]]}, "the mention [0, 4] is not in a document of 4 words"),
        ({"clusters": [[[1, 0]]]}, "the mention [1, 0] is not in a document of 4 words"),
        ({"clusters": [[[0]]]}, "a mention is [first word, last word], not [0]"),
        ({"clusters": [[["a", 0]]]}, "a word of a mention is not a whole number"),
        ({"clusters": 3}, "the value of 'clusters' is not a list"),
        ({"speakers": [["K"]]}, "1 speakers of 4 words"),
        ({"sentences": [[""]]}, "an empty word"),
        ({"sentences": ["a"]}, "a sentence is not a list"),
    ],
)
def test_bad_json_is_refused_with_its_line(tmp_path, change, message):
    path = put(tmp_path / "a.jsonl", json.dumps(RECORD | change))
    with refused(f"{path}:1: {message}"):
        list(read("coreference", "jsonl", path))


def test_json_lines_without_clusters_are_refused(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"sentences": [["a"]]}\n')
    with refused(f"{path}:1: no key 'clusters'"):
        list(read("coreference", "jsonl", path))
    path = put(tmp_path / "a.jsonl", json.dumps(RECORD | {"clusters": [[[0, 0]], []]}))
    with refused(f"{path}:1: a cluster without mentions"):
        list(read("coreference", "jsonl", path))


GAP_HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"


def gap_line(text, pronoun, a, b, answers=("TRUE", "FALSE"), shift=0):
    places = [str(text.index(part) + shift) for part in (pronoun, a, b)]
    cells = ["test-1", text, pronoun, places[0], a, places[1], answers[0], b, places[2], answers[1]]
    return GAP_HEADER + "\t".join([*cells, "http://x"]) + "\n"


def test_gap_finds_the_words_of_names_and_pronoun(tmp_path):
    text = "Mary Gray's friend met Kate. Later she left."
    path = put(tmp_path / "gap.tsv", gap_line(text, "she", "Mary Gray", "Kate"))
    (only,) = read("coreference", "GAP", path)
    assert only.sentences[0][:4] == ("Mary", "Gray", "'s", "friend")
    assert only.pronoun == PronounQuestion((8, 9), ((0, 2), (5, 6)), (True, False), "feminine")
    assert only.clusters == (((0, 2), (8, 9)), ((5, 6),))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            gap_line("Al saw Bo and he left", "he", "Al", "Bo", shift=1),
            "'he' is not at offset '15'",
        ),
        (
            gap_line("Al saw Bo and he left", "he", "Al", "Bo", ("yes", "FALSE")),
            "the label is 'yes', not one of true, false",
        ),
    ],
)
def test_bad_gap_lines_are_refused(tmp_path, line, message):
    path = put(tmp_path / "gap.tsv", line)
    with refused(f"{path}:2: {message}"):
        list(read("coreference", "GAP", path))


def test_winogender_has_an_occupation_and_a_participant(tmp_path):
    lines = [
        "sentid\tsentence",
        "baker.guest.1.female.txt\tThe baker told a guest that she could pay.",
        "baker.someone.0.neutral.txt\tThe baker told someone that they were late.",
    ]
    first, second = read("coreference", "Winogender", put(tmp_path / "a.tsv", "\n".join(lines)))
    assert first.pronoun == PronounQuestion((6, 7), ((0, 2), (3, 5)), (False, True), "feminine")
    assert second.pronoun == PronounQuestion((5, 6), ((0, 2), (3, 4)), (True, False), "other")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("baker.guest.1\tA baker.", "the sentid 'baker.guest.1' is not"),
        ("baker.guest.2.male.txt\tA baker.", "the label is '2', not one of 0, 1"),
        ("baker.guest.1.male.txt\tThe baker and he left.", "no guest in the sentence"),
        ("baker.guest.1.male.txt\tThe baker and a guest left.", "no pronoun in the sentence"),
    ],
)
def test_bad_winogender_lines_are_refused(tmp_path, line, message):
    path = put(tmp_path / "a.tsv", f"sentid\tsentence\n{line}\n")
    with pytest.raises(BadInput, match=f"^{re.escape(f'{path}:2: {message}')}"):
        list(read("coreference", "winogender", path))


def test_winobias_marks_a_name_and_its_pronoun(tmp_path):
    path = put(
        tmp_path / "a.dev",
        "1 [The baker] thanked the guest because [she] was glad.\n"
        "2 After [he ] ate, [the guest] paid.\n",
    )
    first, second = read("coreference", "WinoBias", path)
    assert first.words[:4] == ("The", "baker", "thanked", "the")
    assert first.pronoun == PronounQuestion((6, 7), ((0, 2),), (True,), "feminine")
    assert second.pronoun == PronounQuestion((1, 2), ((4, 6),), (True,), "masculine")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 [The baker] left.", "1 phrases in brackets, not a name and a pronoun"),
        ("1 [The baker] met [a guest].", "one phrase in brackets must be a pronoun"),
        ("1 [The baker] left, since [[she]] ate.", "a bracket in brackets, or without its pair"),
        ("1 [The baker] left, since [she] ate].", "a bracket in brackets, or without its pair"),
    ],
)
def test_bad_winobias_lines_are_refused(tmp_path, line, message):
    path = put(tmp_path / "a.dev", line)
    with refused(f"{path}:1: {message}"):
        list(read("coreference", "WinoBias", path))


def test_words_of_a_text_by_sentence_keep_their_characters():
    text = "Ann's dog ran. It's here.\nThe end"
    spans = sentence_spans(text)
    words = [[text[start:end] for start, end in sentence] for sentence in spans]
    assert words == [["Ann", "'s", "dog", "ran", "."], ["It", "'s", "here", "."], ["The", "end"]]
    assert sentence_spans(" \n ") == []
