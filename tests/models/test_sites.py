"""Attention sites are all the attention that a model has, with the shapes that they name."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.attention_site import AttentionSite, require_cross_attention
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change, paths
from regard.models.papers import (
    LINEAGE,
    bahdanau,
    bert,
    bidaf,
    clark,
    cove,
    esim,
    lin,
    luong,
    sutskever,
    transformer,
)
from regard.models.pools import AttentionPool

SMALL = {
    "width": 8,
    "heads": 2,
    "kv_heads": None,
    "inner": 8,
    "depth": 2,
    "vocab": 20,
    "embedding": 8,
    "cells": 8,
}
OWN = {
    "cove:mt-lstm": {"target.width": 16},
    "cove:classifier": {"trunk.stack.embedding": 24},
    **{f"ma:{size}": {"embedding": 38} for size in ("base", "laptop")},
    **{f"{key}:base": {"embedding": 108} for key in ("bidaf", "clark")},
    **{f"{key}:laptop": {"embedding": 58} for key in ("bidaf", "clark")},
    **{f"he:{size}": {"indicator": 4} for size in ("base", "laptop")},
    **{f"lee:{size}": {"embedding": 158} for size in ("base", "elmo", "laptop")},
}


def small(name, facts):
    known = {path.split(".")[-1] for path, _ in paths(facts)}
    sizes = {fact: size for fact, size in SMALL.items() if fact in known}
    return change(facts, **sizes | OWN.get(name, {}))


FACTS = {
    name: small(name, facts)
    for name, facts in (
        (f"{paper.key}:{size}", facts) for paper in LINEAGE for size, facts in paper.sizes.items()
    )
}
FACTS["bert, attention pool"] = replace(FACTS["bert:tiny"], pool=AttentionPool())
FACTS["transformer to rnn"] = EncoderDecoder(
    FACTS["transformer:base"].source, FACTS["luong:laptop"].target, tie="none"
)


@pytest.mark.thinned
@pytest.mark.parametrize("facts", FACTS.values(), ids=list(FACTS))
@torch.no_grad()
def test_sites_are_all_attention_of_a_model_and_have_its_shapes(facts):
    tape, sides = Tape("*.weights"), {side: getattr(facts, side) for side in facts.sides}
    shapes = {side: trunk.ids_per_token for side, trunk in sides.items()}
    read = {side: 1 if len(shapes[side]) == 3 else 3 + (side == "target") for side in shapes}
    rows = {side: [np.full((n, *shapes[side]), 5) for n in (read[side], 1)] for side in shapes}
    longest = {side: sides[side].embed.vectors(read[side]) for side in shapes}
    packed = (pack_rows([TokenRow(ids, [0] * len(ids)) for ids in rows[side]]) for side in rows)
    facts.build().eval()(facts.inputs(*packed), tape=tape)
    listed = {}
    for site in facts.attention_sites:
        queries = {"pool": 1}.get(site.query_side, longest[site.side])
        for name, heads in zip(site.weights, site.heads, strict=True):
            listed[name] = (2, heads, queries, longest[site.key_side])
    assert {name: tuple(value.shape) for name, value in tape.records.items()} == listed


def names(facts):
    return [site.name for site in facts.attention_sites]


def test_sites_have_the_names_of_their_maps():
    assert names(transformer.BASE) == ["cross", "encoder", "decoder"]
    assert names(bahdanau.LAPTOP) == ["cross"]
    assert names(bert.BASE) == ["encoder"]
    assert names(lin.BASE) == ["pool"]
    assert names(esim.BASE) == ["alignment"]
    assert names(cove.BCN) == ["alignment", "pool"]
    assert names(bidaf.BASE) == ["alignment", "summary"]
    assert names(clark.BASE) == ["alignment", "summary", "encoder"]
    assert names(FACTS["bert, attention pool"]) == ["pool", "encoder"]
    assert names(lin.LAST) == names(sutskever.LAPTOP) == []


def test_a_site_counts_layers_and_heads():
    cross = require_cross_attention(transformer.BASE.cross_attention)
    assert (cross.layers, cross.heads, cross.side, cross.key_side) == (
        6,
        (8,) * 6,
        "target",
        "source",
    )
    assert cross.weights[-1] == "target.blocks.5.cross.weights"
    assert luong.LAPTOP.cross_attention == AttentionSite("target", "cross", (1,), "target.cross")


def test_a_model_without_cross_attention_is_refused():
    for facts in (sutskever.LAPTOP, bert.BASE):
        with pytest.raises(BadInput, match="has no attention to a source"):
            require_cross_attention(facts.cross_attention)
