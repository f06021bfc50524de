"""Mixtures of layers: the formula, and in models of every kind."""

import pytest
import torch

from regard.ground.batch import TokenRow, pack_rows
from regard.ground.errors import BadInput
from regard.ground.tape import Tape
from regard.models.facts import FirstToken, LabelHead, LastToken, TokenLabelHead, change
from regard.models.papers import bert, elmo, lin, xlnet
from regard.parts.scalar_mix import ScalarMix

SIZES = {"width": 8, "heads": 2, "inner": 8, "depth": 2, "vocab": 20}
ELMO = {"width": 4, "cells": 6, "filters": ((1, 4), (2, 8)), "longest": 8, "dropout": 0.0}
MODELS = {
    "BERT": change(bert.TINY, **SIZES, pool=FirstToken()),
    "XLNet": change(xlnet.BASE, **SIZES, pool=LastToken()),
    "ELMo": change(elmo.SMALL, **ELMO, pool=LastToken()),
    "LSTM": change(lin.LAPTOP, width=4, embedding=8, vocab=20),
}


def test_the_formula():
    mix, layers = ScalarMix(3), list(torch.randn(3, 5, 4))
    torch.testing.assert_close(mix(layers), torch.stack(layers).mean(0))
    with torch.no_grad():
        mix.logits.copy_(torch.tensor([0.5, -1.0, 2.0]))
        mix.scale.fill_(3.0)
    shares = torch.tensor([0.5, -1.0, 2.0]).softmax(0)
    expected = 3 * sum(share * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(mix(layers), expected)


@pytest.mark.parametrize("facts", MODELS.values(), ids=MODELS)
def test_any_model_can_mix_its_layers(facts):
    facts = change(facts, mix=True, output_heads=(LabelHead(3), TokenLabelHead(2)))
    model, shape = facts.build().eval(), facts.trunk.embed.ids_per_token
    inputs = pack_rows([TokenRow(torch.full((n, *shape), 5).numpy(), [0] * n) for n in (3, 1)])
    tape = Tape("*output")
    outputs = model(inputs, tape=tape)
    layers = ["embed.output", "blocks.0.output", "blocks.1.output"][: facts.trunk.stack.depth + 1]
    states = torch.stack([tape.records[f"trunk.{name}"] for name in layers])
    torch.testing.assert_close(outputs.states_TD, states.mean(0))
    sum(one.sum() for one in outputs.by_head.values()).backward()
    assert model.mix.logits.grad.abs().sum() > 0 and model.mix.scale.grad.abs() > 0


def test_layers_of_other_sizes_than_the_embedding_are_refused():
    with pytest.raises(BadInput, match="differ in size"):
        change(lin.LAPTOP, width=4, embedding=6, mix=True)


@pytest.mark.parametrize("facts", MODELS.values(), ids=MODELS)
def test_heads_can_read_one_layer(facts):
    facts = change(facts, layer=1, output_heads=(TokenLabelHead(2),))
    model, shape = facts.build().eval(), facts.trunk.embed.ids_per_token
    inputs = pack_rows([TokenRow(torch.full((n, *shape), 5).numpy(), [0] * n) for n in (3, 1)])
    tape = Tape("trunk.blocks.0.output")
    outputs = model(inputs, tape=tape)
    assert torch.equal(outputs.states_TD, tape.records["trunk.blocks.0.output"])
    assert torch.equal(
        outputs.by_head["token_label"], model.heads["token_label"](outputs.states_TD)
    )


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match="layer 7 asked for"):
        change(bert.TINY, layer=7)
    with pytest.raises(BadInput, match="one layer, or a mixture"):
        change(bert.TINY, layer=1, mix=True)
