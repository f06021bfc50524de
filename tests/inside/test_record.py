"""Records: values of one input with labels, and nothing else of the model changes."""

import numpy as np
import pytest
import torch

from regard import BadInput, Tape
from small_bert import model as small_encoder

TEXT = "the old cat came"


@pytest.fixture(scope="module")
def model():
    return small_encoder("words")


def test_values_are_those_of_a_tape(model):
    (record,) = model.record(
        [TEXT], values=["weights", "queries", "head_outputs", "states", "logits"]
    )
    tape = Tape("*")
    model.logits([TEXT], tape=tape)
    for name, value in record.values.items():
        there = tape.records[name].float().numpy()
        np.testing.assert_allclose(value, there[0] if name.endswith("weights") else there)
    tokens, heads = len(record.keys["trunk"].subwords), model.facts.trunk.stack.heads
    assert record["trunk.blocks.1.attention.weights"].shape == (heads, tokens, tokens)
    assert record["trunk.blocks.0.attention.queries"].shape[:2] == (tokens, heads)
    assert record["trunk.blocks.0.attention.head_outputs"].shape[:2] == (tokens, heads)


def test_head_outputs_are_weighted_values(model):
    (record,) = model.record([TEXT], values=["weights", "values", "head_outputs"])
    path = "trunk.blocks.1.attention"
    mixed = np.einsum("hls,shk->lhk", record[f"{path}.weights"], record[f"{path}.values"])
    np.testing.assert_allclose(mixed, record[f"{path}.head_outputs"], atol=1e-6)


def test_only_the_layers_asked_for_are_recorded(model):
    (record,) = model.record([TEXT], layers=[-1], values=["weights", "states"])
    assert set(record.values) == {"trunk.blocks.1.attention.weights", "trunk.blocks.1.output"}
    encoder = record.attention("encoder")
    assert [len(layer) for layer in encoder.layers] == [0, model.facts.trunk.stack.heads]
    first, last = (encoder.map().select(layer=number) for number in (None, 1))
    np.testing.assert_array_equal(first, last)
    with pytest.raises(BadInput, match="no such head"):
        encoder.map().select(layer=0)


def test_the_difference_to_a_plain_run_is_stated(model):
    (record,) = model.record([TEXT])
    assert record.difference < 1e-5
    assert f"difference {record.difference:.1e}" in repr(record)


def test_gradients_flow_through_a_tape(model):
    tape = Tape("trunk.blocks.0.attention.head_outputs")
    outputs = model.inspected.run([model.inspected.read(TEXT)], tape)
    (value,) = tape.records.values()
    (gradient,) = torch.autograd.grad(outputs.encoded.states_TD.sum(), value)
    assert gradient.shape == value.shape and gradient.abs().sum() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [2]}, "layers must be at most 1, not 2"),
        ({"layers": ["a"]}, "layers must be a whole number"),
        ({"values": ["weight"]}, "values: 'weight' is not one of scores, weights"),
        ({"values": ["cross_outputs"]}, "values: this model has no cross_outputs"),
    ],
)
def test_what_cannot_be_recorded_is_refused(model, options, message):
    with pytest.raises(BadInput, match=message):
        model.record([TEXT], **options)


def test_values_that_were_not_recorded_are_named(model):
    (record,) = model.record([TEXT], layers=[0], values=["states"])
    with pytest.raises(BadInput, match=r"weights of the encoder attention were not recorded"):
        record.attention()
    with pytest.raises(BadInput, match=r"there are: trunk\.blocks\.0\.output"):
        record["trunk.blocks.1.output"]
