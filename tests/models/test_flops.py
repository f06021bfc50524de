"""Training cost, held against a count of the products that really happen."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.core.batch import PackedTokens
from regard.core.device import uninitialised
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.models.conv import ConvEncoderFacts
from regard.models.facts import change
from regard.models.papers import LINEAGE, bahdanau, cho, luong, sutskever
from regard.models.papers.transformer import BASE
from regard.models.trunk import Trunk
from regard.objectives.seq2seq import Seq2Seq

FACTS = change(BASE, vocab=40, width=16, inner=48, heads=2, depth=3, dropout=0.0)


@pytest.mark.parametrize("changes", [{}, {"key": 4, "value": 12}, {"source.depth": 1}])
def test_it_is_three_times_what_torch_counts_forward(changes):
    facts = change(FACTS, **changes)
    objective = Seq2Seq(1, 2)
    pairs = [([5] * 9, [6] * 7), ([5] * 9, [6] * 7)]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        # torch cannot see into its own fused kernel, so the definition is counted
        objective(facts.build(), objective.collate(pairs), Tape("*.weights"))
    lengths = [objective.length(pair) for pair in pairs]
    full_causal = 2 * sum(t * t for _, t in lengths) / 2 * facts.target.stack.depth * _both(facts)
    forward = facts.training_flops(lengths) / 3 + full_causal  # torch counts the masked half too
    assert forward == pytest.approx(counter.get_total_flops(), rel=1e-6)


def _both(facts):
    stack = facts.target.stack
    key = stack.width // stack.heads if stack.key is None else stack.key
    return stack.heads * (key + (key if stack.value is None else stack.value))


SIZES = {"vocab": 40, "width": 16, "embedding": 12, "dropout": 0.0}
TWO = {**SIZES, "depth": 2}
RECURRENT = {
    "cho": change(cho.BASE, **SIZES, maxout=6),
    "sutskever": change(sutskever.BASE, **TWO),
    "bahdanau": change(bahdanau.BASE, **SIZES, maxout=6, inner=10),
    "bahdanau, deep": change(bahdanau.BASE, **TWO, maxout=6, cell="lstm"),
    "luong": change(luong.BASE, **TWO),
    "luong at once": change(luong.BASE, **TWO, input_feeding=False),
    "luong, dot": change(luong.BASE, **TWO, score="dot"),
    "luong, location": change(luong.BASE, **TWO, score="location", positions=20),
    "convolved": replace(
        FACTS, source=Trunk(FACTS.source.embed, ConvEncoderFacts(16, 2)), tie="target"
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("facts", list(RECURRENT.values()), ids=list(RECURRENT))
def test_recurrent_models_too(facts):
    """Rows of one length: nothing is padded."""
    objective = Seq2Seq(1, 2)
    pairs = [([5] * 9, [6] * 7), ([5] * 9, [6] * 7)]
    model = facts.build().double()  # in float an LSTM is one operation, of unknown cost
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        objective(model, objective.collate(pairs), Tape("*.weights"))
    lengths = [objective.length(pair) for pair in pairs]
    own = sum(t * t for _, t in lengths) * facts.target.stack.macs(facts.source.stack).own_pair
    forward = facts.training_flops(lengths) / 3 + own  # torch counts the masked half too
    assert forward == pytest.approx(counter.get_total_flops(), rel=0.02)


SIZES_OF_TRANSFORMERS = {
    f"{paper.name} {size}": change(facts, depth=2)
    for paper in LINEAGE
    for size, facts in paper.sizes.items()
    if facts.encoder.stack.traceable and facts.encoder.stack.attends
}


@pytest.mark.slow
@pytest.mark.parametrize("facts", SIZES_OF_TRANSFORMERS.values(), ids=SIZES_OF_TRANSFORMERS)
def test_every_size_of_a_transformer_costs_what_torch_counts_on_meta_tensors(facts):
    with uninitialised("meta"):
        model = facts.build()
    counts = dict(zip(facts.sides, (7, 5), strict=False))
    if facts.encoder.embed.reads_images:
        counts = {"trunk": 1}
    with torch.device("meta"), FlopCounterMode(display=False) as counter, torch.no_grad():
        sides = (_zeros(getattr(facts, side), count) for side, count in counts.items())
        model(facts.inputs(*sides), tape=Tape("*.weights"))
    decoder = getattr(facts, facts.sides[-1])
    own_pair = decoder.stack.causal and decoder.macs(facts.encoder).own_pair
    masked_half = own_pair * counts[facts.sides[-1]] ** 2  # torch counts it too
    forward = facts.training_flops([(*counts.values(),)]) / 3 + masked_half
    embed, width = facts.encoder.embed, facts.encoder.stack.input_width
    prefix_as_patches = 2 * (embed.prefix_tokens or 0) * embed.macs(width)
    assert counter.get_total_flops() == forward - prefix_as_patches


def _zeros(trunk, count):
    layout = Layout.ragged([count], "meta")
    layout = replace(layout, segments_T=torch.zeros(count, dtype=torch.long, device="meta"))
    shape, dtype = (count, *trunk.ids_per_token), torch.long if trunk.embed.vocab else torch.float
    return PackedTokens(torch.zeros(shape, dtype=dtype, device="meta"), layout)
