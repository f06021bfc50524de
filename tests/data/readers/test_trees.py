"""Trees of sentiment: labels, phrases, brackets that do not match, and trees of any depth."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import DropCounts
from regard.data.readers.glue import tree

LINE = "(3 (2 It) (4 (2 really) (3 works)))"

leaves = st.tuples(st.sampled_from("01234"), st.text("abc-", min_size=1))
nested = st.recursive(
    leaves, lambda inner: st.tuples(st.sampled_from("01234"), st.lists(inner, min_size=1))
)


def written(node):
    label, inside = node
    held = inside if isinstance(inside, str) else " ".join(map(written, inside))
    return f"({label} {held})"


def phrases(node):
    """(label, text) of every bracket, as they open."""
    label, inside = node
    if isinstance(inside, str):
        return [(label, inside)]
    below = [phrases(child) for child in inside]
    return [(label, " ".join(one[0][1] for one in below)), *(each for one in below for each in one)]


@given(nested)
def test_every_phrase_of_every_tree(node):
    words, brackets = tree(written(node), "here")
    found = [(one.label, " ".join(words[one.start : one.stop])) for one in brackets]
    assert found == phrases(node)


def test_sentences_and_phrases(tmp_path):
    path = tmp_path / "dev.txt"
    path.write_text(f"{LINE}\n(0 Bad)\n")
    where = f"{path}:1"
    assert list(read("classify", "SST-5", path)) == [
        LabelledExample(where, ("It really works",), ("3",)),
        LabelledExample(f"{path}:2", ("Bad",), ("0",)),
    ]
    assert list(read("classify", "SST-5", path, phrases=True))[:5] == [
        LabelledExample(where, ("It really works",), ("3",)),
        LabelledExample(where, ("It",), ("2",)),
        LabelledExample(where, ("really works",), ("4",)),
        LabelledExample(where, ("really",), ("2",)),
        LabelledExample(where, ("works",), ("3",)),
    ]


def test_escapes_are_turned_back_and_odd_spaces_stay():
    line = r"(2 (2 -LRB-) (2 (2 8 1\/2) (2 (2 -rrb-) (2 \*))))".replace("8 1", "8\u00a01")
    assert tree(line, "here")[0] == ["(", "8\u00a01/2", ")", "*"]


def test_a_tree_of_any_depth():
    depth = 200_000
    words, brackets = tree("(2 " * depth + "deep" + ")" * depth, "here")
    assert words == ["deep"] and len(brackets) == depth
    assert all((one.start, one.stop) == (0, 1) for one in brackets)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 It) (4 works)", "the bracket at column 1 is never closed"),
        ("(3 (2 It) (4 works", "the bracket at column 11 is never closed"),
        ("(3 (2 It)) )", "')' at column 12 is outside of the tree"),
        ("(3 It) (2 too)", "'(' at column 8 is outside of the tree"),
        ("It works", "'It' at column 1 is outside of the tree"),
        ("(5 It)", "'5' at column 2 is not a label from 0 to 4"),
        ("((2 It))", "'(' at column 2 is not a label from 0 to 4"),
        ("(3 )", "')' at column 4 closes an empty bracket"),
        ("(3 It works)", "'works' at column 7 is beside a word"),
        ("(3 It (2 works))", "'(' at column 7 is beside a word"),
        ("(3 (2 It) works)", "'works' at column 11 is beside brackets"),
    ],
)
def test_a_wrong_bracket_is_pointed_at(tmp_path, line, message):
    path = tmp_path / "train.txt"
    path.write_text(f"{LINE}\n{line}\n")
    with pytest.raises(BadInput, match=f"^{re.escape(f'{path}:2: {message}')}$"):
        list(read("classify", "SST-5", path))
    dropped = DropCounts()
    assert len(list(read("classify", "SST-5", path, dropped))) == 1
    assert dropped == {"not a tree": 1}
