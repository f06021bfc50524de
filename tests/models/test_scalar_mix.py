"""Mixtures of layers: the formula, and in models of every kind."""

import numpy as np
import pytest
import torch

from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.facts import change
from regard.models.features import Features, ScalarMix
from regard.models.heads import NextTokenHead
from regard.models.label_heads import LabelHead, MLMHead, TokenLabelHead
from regard.models.papers import awd_lstm, bert, elmo, lin, xlnet
from regard.models.pools import ConcatPool, FirstToken, LastToken

SIZES = {"width": 8, "heads": 2, "inner": 8, "depth": 2, "vocab": 20}
ELMO = {"width": 4, "cells": 6, "filters": ((1, 4), (2, 8)), "longest": 8, "dropout": 0.0}
AWD_LSTM = change(awd_lstm.WIKITEXT_2, width=9, embedding=6, last_width=6, vocab=20)
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
    torch.testing.assert_close(outputs.encoded.states_TD, states.mean(0))
    sum(one.sum() for one in outputs.by_head.values()).backward()
    assert model.mix.logits.grad.abs().sum() > 0 and model.mix.scale.grad.abs() > 0


def test_layers_of_other_sizes_than_the_embedding_are_refused():
    with pytest.raises(BadInput, match="must have the same size"):
        change(lin.LAPTOP, width=4, embedding=6, mix=True)
    with pytest.raises(BadInput, match=r"must have the same size, not 6, 9, 9, 6"):
        change(AWD_LSTM, mix=True)
    with pytest.raises(BadInput, match="layers of different sizes cannot be mixed"):
        Features(AWD_LSTM.trunk, pieces=3)


@pytest.mark.parametrize(("layer", "size"), [*enumerate((6, 9, 9, 6))])
def test_pool_and_heads_have_the_size_of_the_layer_that_they_read(layer, size):
    heads = LabelHead(3), TokenLabelHead(2), MLMHead(tied=False), NextTokenHead(tied=False)
    facts = change(AWD_LSTM, pool=ConcatPool(), layer=layer, output_heads=heads)
    inputs = pack_rows([TokenRow(np.arange(5), [0] * 5)])
    outputs = facts.build().eval()(inputs)
    assert (facts.width_read, facts.pooled_width) == (size, 3 * size)
    assert outputs.encoded.states_TD.shape == (5, size) and outputs.pooled_BD.shape == (1, 3 * size)
    shapes = [one.shape for one in outputs.by_head.values()]
    assert shapes == [(1, 3), (5, 2), (5, 20), (5, 20)]
    last = change(facts, layer=None)
    per_token = sum(head.macs(facts.trunk, size) for head in heads[1:])
    assert facts.training_flops([(5,)]) - last.training_flops([(5,)]) == 3 * 2 * (
        5 * (per_token - sum(head.macs(facts.trunk, facts.trunk.width) for head in heads[1:]))
        + 3 * 3 * (size - 6)
    )


def test_token_vectors_are_tied_to_states_of_their_size_only():
    facts = change(AWD_LSTM, layer=1, output_heads=(NextTokenHead(),))
    with pytest.raises(ValueError, match="only if their shapes agree"):
        facts.build()


@pytest.mark.parametrize("read", [{"mix": True}, {"layer": 1}], ids=str)
def test_features_beside_the_last_states_need_heads_that_read_these(read):
    words = change(lin.LAPTOP, width=4, embedding=16, vocab=20, depth=1, direction="forward")
    given = change(elmo.SMALL, **ELMO).trunk
    facts = change(words, features=Features(given, at="output"), embedding=4)
    with pytest.raises(BadInput, match=f"{next(iter(read))} cannot be used with features"):
        change(facts, **read)


@pytest.mark.parametrize("facts", MODELS.values(), ids=MODELS)
def test_heads_can_read_one_layer(facts):
    facts = change(facts, layer=1, output_heads=(TokenLabelHead(2),))
    model, shape = facts.build().eval(), facts.trunk.embed.ids_per_token
    inputs = pack_rows([TokenRow(torch.full((n, *shape), 5).numpy(), [0] * n) for n in (3, 1)])
    tape = Tape("trunk.blocks.0.output")
    outputs = model(inputs, tape=tape)
    assert torch.equal(outputs.encoded.states_TD, tape.records["trunk.blocks.0.output"])
    assert torch.equal(
        outputs.by_head["token_label"], model.heads["token_label"](outputs.encoded.states_TD)
    )


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match="layer must be from 0"):
        change(bert.TINY, layer=7)
    with pytest.raises(BadInput, match="one layer, or a mixture"):
        change(bert.TINY, layer=1, mix=True)
