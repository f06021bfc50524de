"""Methods that study the inside of a model, scored on programs whose circuit is known."""

import re
from pathlib import Path

import numpy as np
import pytest

from circuits import PROGRAMS
from circuits.method_scores import (
    HEAD_METHODS,
    WORD_METHODS,
    StudiedProgram,
    draw_questions,
    score_heads,
    score_words,
)

DOCS = Path(__file__).parents[2] / "docs"
FOUND = {
    "ablation": dict.fromkeys(PROGRAMS, (100, 100)),
    "patching": {name: (100, 50 if name == "reverse" else 100) for name in PROGRAMS},
    "contributions": {
        name: (100, 100 / len(program.circuit.heads)) for name, program in PROGRAMS.items()
    },
    "importance": {
        name: (100, 100 / len(program.circuit.heads)) for name, program in PROGRAMS.items()
    },
    # A decoy of the second layer attends to rare letters.
    "roles": {"previous-token": (100, 100), "induction": (pytest.approx(200 / 3), 100)},
}
"""Precision and recall of the heads that a method names, where it finds any."""
COPIED = ("previous-token", "reverse")  # one word is copied, and no other decides which


@pytest.fixture(scope="module")
def studied():
    """A model of each program, with few questions."""
    return {name: [StudiedProgram.build(program, 3, 2)] for name, program in PROGRAMS.items()}


def shares(score):
    return score.precision, score.recall


@pytest.mark.parametrize("method", HEAD_METHODS)
def test_methods_name_the_heads_of_circuits(method, studied):
    for name, expected in FOUND[method].items():
        assert shares(score_heads(method, studied[name])) == expected, name


def test_roles_say_nothing_of_heads_without_a_known_role(studied):
    for name in ("reverse", "fraction", "sort"):
        assert score_heads("roles", studied[name]).recall == 0, name


@pytest.mark.parametrize("method", ["gradient", "attention-gradient", "leave-one-out"])
def test_attribution_names_the_word_that_is_copied(method, studied):
    for name in COPIED:
        assert shares(score_words(method, studied[name])) == (100, 100), name
    for name in PROGRAMS:
        assert score_words(method, studied[name]).precision == 100, name


def test_leaving_words_out_finds_those_that_choose_the_copied_word(studied):
    """Attention is 0 or 1, so gradients only see the word that is copied."""
    for name in ("induction", "sort"):
        assert score_words("leave-one-out", studied[name]).recall > 75
        assert score_words("gradient", studied[name]).recall < 50


def test_rollout_follows_decoys_as_well(studied):
    score = score_words("rollout", studied["reverse"])
    assert score.recall == 100 and score.precision < 50


@pytest.mark.parametrize(
    ("name", "text", "position", "words"),
    [
        ("previous-token", "a b c", 3, {2}),
        ("previous-token", "a b c", 1, set()),
        ("induction", "a b c a", 4, {1, 2, 4}),  # the token, its occurrence, the one after
        ("induction", "a b c", 3, {3}),
        ("reverse", "a b c d", 1, {4}),
        ("fraction", "a x c", 2, {1, 2}),
        ("sort", "5 1 7 3", 2, {2, 4}),  # the digit, and the smaller ones that are counted
    ],
)
def test_words_that_a_circuit_reads(name, text, position, words):
    assert PROGRAMS[name].words_read(text.split(), position) == words


def test_questions_have_two_inputs_of_equal_length_and_different_outputs():
    for program in PROGRAMS.values():
        for question in draw_questions(program, 20):
            assert len(question.tokens) == len(question.others)
            one, other = (program.run(each) for each in question[:2])
            assert one[question.position - 1] != other[question.position - 1]


@pytest.mark.slow
def test_tables_of_the_guides():
    """The tables are what ``bench/programs.py`` prints."""
    for page, methods, score in (
        ("inside.md", HEAD_METHODS, score_heads),
        ("attribution.md", WORD_METHODS, score_words),
    ):
        text = (DOCS / page).read_text(encoding="utf-8")
        for name, program in PROGRAMS.items():
            models = [StudiedProgram.build(program, 4, seed) for seed in range(5)]
            (row,) = re.findall(rf"^\| `{name}` \|((?: \d+ / \d+ \|)+)", text, re.MULTILINE)
            cells = [tuple(map(int, cell.split("/"))) for cell in row.split("|")[:-1]]
            figures = [shares(score(method, models)) for method in methods]
            np.testing.assert_allclose(cells, figures, atol=1.0, err_msg=name)
