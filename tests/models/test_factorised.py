"""Factorised embeddings: vectors smaller than the states, and a projection between them."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.models.embedding import Learned
from regard.models.facts import change, from_json, to_json
from regard.models.label_heads import MLMHead
from regard.models.paper import count_parameters
from regard.models.papers import KINDS, bert, lin, transformer
from regard.models.positions import Sinusoid
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk

VOCAB, WIDTH, SIZE, LONGEST = 30, 16, 6, 10
SMALL = change(bert.TINY, vocab=VOCAB, width=WIDTH, inner=24, longest=LONGEST, init_std=0.3)
FACTORISED = change(SMALL, embedding_size=SIZE)
BATCH = pack_rows([TokenRow([3, 4, 5, 6], [0, 0, 1, 1]), TokenRow([7], [0])])


def test_vectors_are_added_and_normed_before_the_projection():
    embed = FACTORISED.build().eval().trunk.embed
    assert embed.token.weight.shape == (VOCAB, SIZE)
    assert embed.position.weight.shape == (LONGEST, SIZE)
    assert embed.segment.weight.shape == (2, SIZE)
    sums = (
        embed.token(BATCH.tokens_T)
        + embed.position.weight[torch.tensor([0, 1, 2, 3, 0])]
        + embed.segment(torch.tensor([0, 0, 1, 1, 0]))
    )
    normed = nn.functional.layer_norm(sums, (SIZE,), embed.norm.weight, embed.norm.bias, 1e-12)
    expected = nn.functional.linear(normed, embed.projection.weight, embed.projection.bias)
    torch.testing.assert_close(embed(BATCH.tokens_T, BATCH.layout), expected)


def test_the_tape_sees_what_the_stack_reads():
    tape = Tape("*.embed.output")
    FACTORISED.build()(BATCH, tape=tape)
    assert tape.records["trunk.embed.output"].shape == (5, WIDTH)


def test_dropout_falls_on_vectors_before_the_projection():
    embed = change(FACTORISED, dropout=0.5).build().train().trunk.embed
    seen = []
    embed.projection.register_forward_hook(lambda module, given, out: seen.append(given[0]))
    embed(BATCH.tokens_T, BATCH.layout)
    assert 0 < (seen[0] == 0).sum() < seen[0].numel()


def test_parameters_are_those_of_smaller_tables_and_a_projection():
    tables = VOCAB + LONGEST + 2 + 2  # tokens, positions, segments, norm
    saved = tables * (WIDTH - SIZE) - (SIZE * WIDTH + WIDTH)
    assert count_parameters(FACTORISED.build()) == count_parameters(SMALL.build()) - saved


@pytest.mark.parametrize("tied", [True, False])
def test_the_masked_lm_head_works_on_the_size_of_the_vectors(tied):
    model = FACTORISED.with_heads(MLMHead(tied=tied)).build().eval()
    head, states_ND = model.heads["mlm"], torch.randn(3, WIDTH)
    assert (head.out.weight is model.trunk.embed.token.weight) == tied
    assert head.dense.weight.shape == (SIZE, WIDTH) and head.out.weight.shape == (VOCAB, SIZE)
    expected = nn.Sequential(head.dense, nn.GELU(), head.norm, head.out)(states_ND)
    torch.testing.assert_close(head(states_ND), expected)
    headless = count_parameters(FACTORISED.build())
    own = SIZE * WIDTH + SIZE + 2 * SIZE + VOCAB + (0 if tied else SIZE * VOCAB)
    assert count_parameters(model) == headless + own


def test_training_flops_are_three_times_what_torch_counts_forward():
    facts = FACTORISED.with_heads(MLMHead())
    rows = pack_rows([TokenRow([5] * 9, [0] * 9), TokenRow([6] * 9, [1] * 9)])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        facts.build()(rows, tape=Tape("*.weights"))
    forward = facts.training_flops([(9,), (9,)]) / 3
    assert forward == pytest.approx(counter.get_total_flops(), rel=1e-6)


@pytest.mark.parametrize("size", [1, WIDTH, 2 * WIDTH])
def test_any_size_has_a_projection(size):
    """Also the width itself: another matrix than none."""
    projection = change(SMALL, embedding_size=size).build().trunk.embed.projection
    assert projection.weight.shape == (WIDTH, size)


def test_recurrent_trunks_and_sinusoids_have_them_too():
    facts = change(lin.LAPTOP, vocab=VOCAB, width=8, embedding=5, embedding_size=4)
    model = facts.build()
    assert model.trunk.embed.projection.weight.shape == (5, 4)
    assert model(BATCH).encoded.states_TD.shape == (5, 16)
    scaled = Trunk(Tokens(VOCAB, Sinusoid(), scaled=True, embedding_size=4), SMALL.trunk.stack)
    assert scaled.build().embed.scale == 2


def test_without_it_nothing_changes():
    assert SMALL.trunk.embed.embedding_size is None
    assert not any("projection" in name for name in SMALL.build().state_dict())
    written = to_json(Tokens(5, Learned(3)))
    del written["embedding_size"]  # an older file
    assert from_json(written, KINDS, "config.json") == Tokens(5, Learned(3))


def test_bad_sizes_are_refused():
    with pytest.raises(BadInput, match="embedding_size must be at least 1, not 0"):
        change(SMALL, embedding_size=0)
    with pytest.raises(ValueError, match="tie: the output and target embeddings have other shapes"):
        change(transformer.BASE, vocab=VOCAB, width=8, embedding_size=4).build()
