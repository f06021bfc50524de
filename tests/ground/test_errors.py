"""What a user is told is one line that a terminal can show, however long the value it is about."""

import pickle

import pytest

from regard.ground.errors import LONGEST, BadInput, BadItem


def test_a_message_is_kept_as_it_is():
    said = "a.json: the id of '▁höher' is 3, but here it is 4 – 日本"
    assert str(BadInput(said)) == said
    assert str(pickle.loads(pickle.dumps(BadInput(said)))) == said


def test_a_long_value_is_cut_in_the_middle():
    said = str(BadInput(f"a.json: width is {'9' * 100_000!r}, not a number"))
    assert len(said) <= LONGEST
    assert said.startswith("a.json: width is '999") and said.endswith("999', not a number")
    assert " … " in said


@pytest.mark.parametrize(
    "strange", ["a\nb", "a\r\nb", "a\x1b[31mb", "a\ud800b", "a\u2028b", "a\0b"]
)
def test_a_message_is_one_line_that_can_be_printed(strange):
    said = str(BadInput(f"{strange}: is no model"))
    assert said.splitlines() == [said] and said.isprintable()
    said.encode()
    assert said.endswith("b: is no model")


def test_an_input_that_is_wrong_has_its_number():
    error = BadItem(3, "has no tokens")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "input 3: has no tokens"
    assert (error.number, error.reason) == (3, "has no tokens")
