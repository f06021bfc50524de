import pytest
import torch

from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, Tape
from regard.models.edits import forced_row, without_head


def test_a_silent_tape_hands_values_through():
    value = torch.ones(2)
    assert NULL_TAPE.under("blocks").under(3)("weights", value) is value
    assert not NULL_TAPE.wants("scores", "weights")


def test_what_matches_is_recorded_under_its_full_name():
    tape = Tape("blocks.*.weights", "output")
    value = torch.ones(2)
    assert tape.under("blocks").under(3)("weights", value) is value
    tape.under("blocks").under(3)("scores", value)
    tape("output", value)
    assert set(tape.records) == {"blocks.3.weights", "output"}
    assert tape.records["blocks.3.weights"] is value


def test_places_do_not_leak_between_branches():
    tape = Tape("*")
    source, target = tape.under("source"), tape.under("target")
    source("x", torch.zeros(1))
    target.under(0)("x", torch.ones(1))
    assert set(tape.records) == {"source.x", "target.0.x"}
    assert source.records is tape.records


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.weights", {"a.0.weights", "a.1.weights", "b.0.weights"}),
        ("a.?.weights", {"a.0.weights", "a.1.weights"}),
        ("a.[1-9].*", {"a.1.weights"}),
        ("weights", set()),
        ("A.0.weights", set()),
        ("a.0.weights", {"a.0.weights"}),
    ],
)
def test_patterns_are_those_of_the_shell(pattern, names):
    tape = Tape(pattern)
    for place, number in (("a", 0), ("a", 1), ("b", 0)):
        inner = tape.under(place).under(number)
        assert inner.wants("weights") == (f"{place}.{number}.weights" in names)
        inner("weights", torch.zeros(1))
    assert set(tape.records) == names


def test_edits_come_in_order_and_before_the_recording():
    edits = {"x": lambda name, value: value + 1, "?": lambda name, value: value * 10}
    tape = Tape("x", edits=edits)
    assert tape("x", torch.tensor(2.0)) == 30
    assert tape.records["x"] == 30
    assert tape("y", torch.tensor(2.0)) == 20
    assert tape("long", torch.tensor(2.0)) == 2
    assert set(tape.records) == {"x"}


def test_an_edit_gets_the_full_name():
    names = []
    tape = Tape(edits={"*": lambda name, value: names.append(name) or value})
    tape.under("blocks").under(1)("weights", torch.zeros(1))
    assert names == ["blocks.1.weights"]


def test_a_tape_wants_what_it_records_and_what_it_edits_there():
    tape = Tape("*.1.weights", edits={"*.2.scores": without_head(0)}).under("blocks")
    wanted = [(tape.under(i).wants("scores"), tape.under(i).wants("weights")) for i in range(3)]
    assert wanted == [(False, False), (False, True), (True, False)]
    assert tape.under(1).wants("scores", "weights")


def test_a_head_is_switched_off_and_the_others_are_left_alone():
    weights_BHLS = torch.rand(2, 3, 4, 5)
    before = weights_BHLS.clone()
    edited = without_head(1)("weights", weights_BHLS)
    assert (edited[:, 1] == 0).all()
    assert torch.equal(edited[:, [0, 2]], before[:, [0, 2]])
    assert torch.equal(weights_BHLS, before)


def test_a_row_is_forced_onto_one_key():
    weights_BHLS = torch.rand(2, 3, 4, 5)
    before = weights_BHLS.clone()
    edited = forced_row(head=2, query=1, key=4)("weights", weights_BHLS)
    assert edited[:, 2, 1].tolist() == [[0, 0, 0, 0, 1]] * 2
    same = torch.ones(3, 4, dtype=torch.bool)
    same[2, 1] = False
    assert torch.equal(edited[:, same], before[:, same])
    assert torch.equal(weights_BHLS, before)


@pytest.mark.parametrize("name", ["source.embed.output", "blocks.0.attention.scores", "weights"])
@pytest.mark.parametrize("edit", [without_head(0), forced_row(0, 0, 0)])
def test_heads_are_edited_in_attention_weights_only(name, edit):
    value = torch.rand(2, 3) if name == "weights" else torch.rand(1, 2, 3, 3)
    with pytest.raises(BadInput, match="these are not attention weights"):
        Tape(edits={"*": edit})(name, value)


@pytest.mark.parametrize("edit", [without_head(2), without_head(-1), without_head("x")])
def test_a_head_that_is_not_there_is_refused(edit):
    with pytest.raises(BadInput, match="weights: a head must be"):
        Tape(edits={"*": edit})("weights", torch.rand(1, 2, 3, 3))


@pytest.mark.parametrize("result", [None, 1.0, torch.rand(1)])
def test_an_edit_gives_a_tensor_of_the_same_shape(result):
    with pytest.raises(BadInput, match=r"the edit of states returned .*, not a tensor of \(2, 3\)"):
        Tape(edits={"states": lambda name, value: result})("states", torch.rand(2, 3))


@pytest.mark.parametrize("given", [((5,), {}), ((), {"states": 5}), ((), {5: without_head(0)})])
def test_patterns_are_texts_and_edits_are_functions(given):
    patterns, edits = given
    with pytest.raises(BadInput):
        Tape(*patterns, edits=edits)
