"""Classifiers over any encoder, from its last state or an attention pool (Lin et al., 2017)."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.core.batch import pack
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.layers.recurrent.rnn_attention import SCORES
from regard.models.conv import ConvEncoderFacts
from regard.models.facts import change
from regard.models.label_heads import LabelHead
from regard.models.papers import paper, transformer
from regard.models.papers.lin import BASE, LAPTOP, LAST
from regard.models.pools import AttentionPool, LastToken
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

SMALL = change(LAPTOP, vocab=20, width=6, embedding=5, dropout=0.0).with_heads(LabelHead(3))
STACK = change(transformer.LAPTOP, vocab=20, width=8, inner=16, heads=2, depth=2, dropout=0.0)
TRUNK = replace(SMALL, trunk=STACK.source)
KINDS = {
    "both ways": SMALL,
    "forward": change(SMALL, direction="forward"),
    "rnn, deep": change(SMALL, cell="rnn", depth=2),
    "last": change(SMALL, pool=LastToken()),
    "transformer": TRUNK,
    "transformer, last": replace(TRUNK, pool=LastToken()),
    "convolved": replace(SMALL, trunk=Trunk(SMALL.trunk.embed, ConvEncoderFacts(6, 2))),
}
each_kind = pytest.mark.parametrize("facts", KINDS.values(), ids=list(KINDS))
ROWS = [[3, 4, 5, 6], [7], [8, 9, 10, 11, 12, 13, 14]]


def run(model, rows, tape=None):
    return model(pack(rows), **({"tape": tape} if tape else {})).by_head["label"]


@each_kind
def test_a_text_is_judged_alike_in_any_company(facts):
    model = facts.build().eval()
    together = run(model, ROWS)
    assert together.shape == (3, 3)
    for row, alone in zip(ROWS, together, strict=True):
        torch.testing.assert_close(run(model, [row])[0], alone, atol=1e-6, rtol=1e-5)


@each_kind
def test_a_text_without_tokens_is_judged_too(facts):
    assert run(facts.build().eval(), [[], [3]]).isfinite().all()


@pytest.mark.parametrize("score", SCORES)
def test_any_score_can_be_chosen(score):
    facts = change(SMALL, score=score, positions=9)
    model = facts.build()
    run(model, ROWS).sum().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in model.parameters())


def test_without_pooling_the_last_state_judges():
    model = change(SMALL, pool=LastToken(), direction="forward").build().eval()
    tape = Tape("pool.output", "trunk.output")
    run(model, ROWS, tape)
    states = pack(ROWS).layout.split(tape.records["trunk.output"])
    torch.testing.assert_close(
        tape.records["pool.output"], torch.stack([one[-1] for one in states])
    )


def test_recording_and_editing_what_it_looks_at():
    model = SMALL.build().eval()
    tape = Tape("pool.weights", "heads.label.logits")
    logits = run(model, ROWS, tape)
    torch.testing.assert_close(logits, run(model, ROWS))
    assert tape.records["pool.weights"].shape == (3, 1, 1, 7)

    def only_first(name, weights):
        return torch.zeros_like(weights).index_fill(-1, torch.tensor([0]), 1.0)

    edited = Tape("pool.output", "trunk.output", edits={"pool.weights": only_first})
    run(model, ROWS, edited)
    states = pack(ROWS).layout.split(edited.records["trunk.output"])
    torch.testing.assert_close(
        edited.records["pool.output"], torch.stack([one[0] for one in states])
    )


@each_kind
def test_cost_is_three_times_what_torch_counts_forward(facts):
    facts = facts if facts.pool == LastToken() else change(facts, score="additive")
    model = facts.build().double()
    with FlopCounterMode(display=False) as counter:
        run(model, [[3] * 9, [4] * 9], Tape("*.weights"))
    forward = facts.training_flops([(9,), (9,)]) / 3
    assert forward == pytest.approx(counter.get_total_flops(), rel=0.02)


def test_it_is_in_the_lineage():
    assert paper("lin").sizes == {"base": BASE, "laptop": LAPTOP, "last": LAST}
    assert change(LAST, pool=LAPTOP.pool) == LAPTOP


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: AttentionPool(score="dott"), "no score is called 'dott'; did you mean 'dot'"),
        (lambda: AttentionPool(query="zero"), "no query is called 'zero'; did you mean 'zeros'"),
        (lambda: change(SMALL, outputs=0), "outputs must be at least 1"),
        (lambda: TrunkWithHeads(STACK.target), "only for the target of an encoder-decoder"),
    ],
)
def test_facts_that_make_no_sense_are_refused(wrong, said):
    with pytest.raises(BadInput, match=said):
        wrong()
