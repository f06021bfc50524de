"""Error messages are one printable line, however long the value they quote."""

import pickle

import numpy as np
import pytest
import torch

from regard.core.errors import (
    LONGEST,
    REASON,
    VALUE,
    ArgumentName,
    BadArgument,
    BadInput,
    BadItem,
    KeyName,
    did_you_mean,
    reason_of,
    shown,
)
from regard.inference.generation_settings import GenerationSettings, as_trained
from regard.text.label_sets import labels_from_config
from regard.training.recipe import read
from regard.training.recipe_files import find


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


def test_a_front_end_writes_the_names_of_keys():
    inner = BadInput((KeyName("max_length"), " is 0"), key=("out", "columns"), file="a.txt", line=3)
    error = BadInput(("model 1: ", inner), remedy=("raise ", KeyName("max_length")))
    assert str(error) == "model 1: a.txt:3: out, columns: max_length is 0; raise max_length"
    flags = error.text(lambda name: "--" + name.replace("_", "-"))
    assert flags == "model 1: a.txt:3: --out, --columns: --max-length is 0; raise --max-length"
    assert inner.names == error.names == ("out", "columns", "max_length")


def test_arguments_are_written_apart_from_keys():
    """A key of a recipe may have the name of an option of the verb that reads it."""
    inner = BadArgument(("is 0, as ", KeyName("precision")), key="max_length")
    error = BadInput((ArgumentName("out"), " x: ", inner), key="precision")
    assert str(error) == "precision: out x: max_length: is 0, as precision"
    written = error.text(argument=lambda name: f"<{name}>")
    assert written == "precision: <out> x: <max_length>: is 0, as <precision>"
    assert error.names == ("precision", "out", "max_length")


class Unfinished(BadInput):
    """Error whose arguments are not its message."""

    def __init__(self, step: int, loss: float):
        super().__init__((KeyName("loss"), f" is {loss}"), key="train")
        self.step = step


def test_an_error_of_another_process_has_its_values():
    error = pickle.loads(pickle.dumps(Unfinished(step=3, loss=0.5)))
    assert type(error) is Unfinished and error.step == 3 and error.names == ("train", "loss")
    assert str(error) == error.text() == "train: loss is 0.5"


def test_an_input_that_is_wrong_has_its_number():
    error = BadItem(3, "has no tokens")
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == "input 3: has no tokens"
    assert (error.number, error.reason) == (3, "has no tokens")


@pytest.mark.parametrize(
    "value", ["two words " * 150, ["a b"] * 500, "\n" * 70, {"key": "so long " * 99}, 10**300]
)
def test_a_wrong_value_is_shown_by_its_two_ends(value):
    said = shown(value)
    assert len(said) <= VALUE and " … " in said and said.isprintable()
    assert said[:2] == repr(value)[:2] and said[-1] == repr(value)[-1]


def test_a_short_value_is_shown_as_it_is():
    assert [shown(one) for one in ("höher", 3, None, np.int64(-1), "a\ud800")] == [
        *("'höher'", "3", "None", "np.int64(-1)", r"'a\ud800'")
    ]
    assert shown(torch.zeros(2, 3)) == "a Tensor of shape (2, 3)"
    assert shown(np.zeros(0)) == "a ndarray of shape (0,)"


def test_what_a_library_says_is_one_line():
    assert reason_of(ValueError("no\n  such\tlayer")) == "no such layer"
    assert len(reason_of(ValueError("word " * 999))) <= REASON


LONG = "several words " * 110


@pytest.mark.parametrize(
    "refuse",
    [
        lambda: as_trained({"length": LONG}),
        lambda: as_trained({"beam": LONG}),
        lambda: GenerationSettings.of({"early_stopping": LONG}, ends=(0,), vocab=9),
        lambda: labels_from_config({"problem_type": LONG}),
        lambda: labels_from_config({"id2label": {"0": LONG}, "label2id": {LONG: 5}}),
        lambda: labels_from_config({"id2label": LONG}),
        lambda: read(find("tour"), [f"model.size={LONG}", f"train.steps={LONG}"]),
    ],
)
def test_a_long_value_with_spaces_is_not_repeated_whole(refuse):
    with pytest.raises(BadInput) as raised:
        refuse()
    assert str(raised.value).count("several") < 40 and len(str(raised.value)) < 900


def test_a_name_that_is_near_is_offered():
    assert did_you_mean("widht", ["width", "depth"]) == "; did you mean 'width'?"
    assert did_you_mean("x", ["width", "depth"]) == "; known: depth, width"
