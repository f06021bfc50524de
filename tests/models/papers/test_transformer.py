"""The Transformer: its sizes, what it ties, what each place may see."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from closeness import GRADIENTS
from regard.core.batch import BatchLimits, PackedTokens, SourceTarget, pack
from regard.models.embedding import Learned
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import count_parameters
from regard.models.papers.transformer import BASE, BIG, LAPTOP, PAPER

VOCAB = 13
SMALL = change(BASE, width=8, heads=2, inner=12, depth=2, vocab=VOCAB)
PRE = change(SMALL, norm="pre", final_norm=True)
SENTENCE = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=4)


def run(model: nn.Module, source: PackedTokens, target: PackedTokens) -> torch.Tensor:
    return model(SourceTarget(source, target)).by_head["next_token"]


def by_formula(facts: EncoderDecoder) -> int:
    """Parameters of a Transformer whose heads share the width."""
    total = 0
    for side in (facts.source, facts.target):
        d, f = side.stack.width, side.stack.inner
        attention, norm = 4 * (d * d + d), 2 * d
        looks = 2 if side.stack.cross else 1
        layer = looks * (attention + norm) + (d * f + f + f * d + d) + norm
        total += side.stack.depth * layer + (norm if side.stack.final_norm else 0)
    tables = {"all": 0, "target": 1, "none": 2}[facts.tie]
    return total + facts.source.embed.vocab * d + tables * facts.target.embed.vocab * d


@pytest.mark.parametrize(
    ("size", "parameters"), [("base", 63_082_496), ("big", 214_245_376), ("laptop", 15_002_624)]
)
def test_published_sizes_have_exactly_so_many_parameters(size, parameters):
    facts = PAPER.sizes[size]
    assert PAPER.parameters(facts) == parameters == by_formula(facts)


def test_the_paper_rounds_its_counts():
    for size, published in PAPER.published.items():
        assert PAPER.parameters(PAPER.sizes[size]) == pytest.approx(published, rel=0.03)


def test_sizes_are_the_papers():
    def numbers(facts):
        stack = facts.source.stack
        return stack.depth, stack.width, stack.inner, stack.heads, stack.dropout

    assert numbers(BASE) == (6, 512, 2_048, 8, 0.1)
    assert numbers(BIG) == (6, 1_024, 4_096, 16, 0.3)
    assert BASE.source.stack.norm == BASE.target.stack.norm == "post"
    assert LAPTOP.source.stack.norm == "pre" and LAPTOP.source.stack.final_norm


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_parameters_are_those_of_torch_and_the_tables(tie):
    facts = change(LAPTOP, tie=tie)
    stack = facts.source.stack
    with torch.device("meta"):
        depths, inner = (stack.depth, stack.depth), stack.inner
        reference = nn.Transformer(stack.width, stack.heads, *depths, inner, batch_first=True)
    tables = {"all": 1, "target": 2, "none": 3}[tie] * facts.source.embed.vocab * stack.width
    assert PAPER.parameters(facts) == count_parameters(reference) + tables == by_formula(facts)


def test_what_is_tied_is_one_tensor():
    def tables(tie: str) -> list[nn.Parameter]:
        model = change(SMALL, tie=tie).build()
        return [model.source.embed.token.weight, model.target.embed.token.weight, model.head.weight]

    source, target, head = tables("all")
    assert source is target is head
    source, target, head = tables("target")
    assert source is not target is head
    assert len(set(map(id, tables("none")))) == 3


def test_each_side_may_have_its_own_size_and_vocabulary():
    sides = {"source.vocab": 5, "source.width": 6, "source.heads": 3, "source.depth": 1}
    facts = change(SMALL, tie="target", **sides)
    model = facts.build().eval()
    logits_TV = run(model, pack([[4, 0], [1]]), pack([[12], [3, 4, 5]]))
    assert logits_TV.shape == (4, VOCAB)
    with pytest.raises(ValueError, match="shapes agree"):
        change(facts, tie="all").build()


def test_ties_are_three():
    with pytest.raises(ValueError, match="no tie is called 'some'"):
        change(SMALL, tie="some").build()


def test_no_weights_are_shared_between_layers():
    model = SMALL.build()
    blocks = [*model.source.blocks, *model.target.blocks]
    owned = [id(one) for block in blocks for one in block.parameters()]
    assert len(owned) == len(set(owned))


@pytest.mark.parametrize(
    "facts", [SMALL, PRE, change(SMALL, key=3, value=5), change(SMALL, position=Learned(6))]
)
@settings(max_examples=6)
@given(pairs=PAIRS)
@torch.no_grad()
def test_a_row_does_not_depend_on_its_batch(facts, pairs):
    model = facts.build().eval()
    sources, targets = zip(*pairs, strict=True)
    target = pack(targets)
    together = target.layout.split(run(model, pack(sources), target))
    for pair, found in zip(pairs, together, strict=True):
        alone = run(model, *(pack([side]) for side in pair))
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("facts", [SMALL, PRE])
def test_rows_that_fill_a_budget_change_nothing(facts):
    model = facts.build().eval()
    sources, targets = [[1, 2, 3], [4], [5, 6]], [[7], [8, 9, 1, 2], [3, 4]]
    limits = BatchLimits(tokens=16, rows=4, longest=5)
    free = run(model, pack(sources), pack(targets))
    filled = run(model, pack(sources, limits), pack(targets, limits))
    assert filled.shape == (16, VOCAB) and filled.isfinite().all()
    torch.testing.assert_close(filled[: len(free)], free)

    towards = torch.randn_like(free)
    wanted = torch.autograd.grad((free * towards).sum(), list(model.parameters()))
    found = torch.autograd.grad((filled[: len(free)] * towards).sum(), list(model.parameters()))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **GRADIENTS)


@torch.no_grad()
def test_no_place_sees_what_is_written_later_and_all_see_the_whole_source():
    model = SMALL.build().eval()
    before = run(model, pack([[1, 2, 3]]), pack([[4, 5, 6, 7]]))
    later = run(model, pack([[1, 2, 3]]), pack([[4, 5, 9, 9]]))
    assert torch.equal(before[:2], later[:2])
    assert not torch.allclose(before[2:], later[2:])
    other = run(model, pack([[1, 2, 9]]), pack([[4, 5, 6, 7]]))
    assert ((before - other).abs().amax(-1) > 1e-4).all()


@torch.no_grad()
def test_the_encoder_sees_both_ways():
    model = SMALL.build().eval()
    before, after = (model.encode(pack([tokens])).states_TD for tokens in ([1, 2, 3], [1, 2, 9]))
    assert ((before - after).abs().amax(-1) > 1e-4).all()


def test_dropout_falls_in_training_only():
    model = SMALL.build()
    batch = pack([[1, 2, 3]]), pack([[4, 5]])
    assert not torch.equal(run(model, *batch), run(model, *batch))
    model.eval()
    assert torch.equal(run(model, *batch), run(model, *batch))


@pytest.mark.parametrize(
    "dropout", ["dropout", "attention_dropout", "inner_dropout"], ids=lambda name: name
)
def test_each_kind_of_dropout_has_an_effect(dropout):
    silent = change(SMALL, dropout=0.0)
    model = change(silent, **{dropout: 0.5}).build()
    batch = pack([[1, 2, 3]]), pack([[4, 5]])
    assert not torch.equal(run(model, *batch), run(model, *batch))


def test_every_norm_uses_eps():
    model = change(PRE, eps=0.5, normed=True).build()
    norms = [one for one in model.modules() if isinstance(one, nn.LayerNorm)]
    assert len(norms) == 2 * (2 + 3) + 2 + 2  # in blocks, at the end, after embeddings
    assert {norm.eps for norm in norms} == {0.5}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_whole_model_may_run_in_another_precision(dtype):
    model = SMALL.build().eval()
    batch = pack([[1, 2, 3], [4]]), pack([[4, 5], [6]])
    single = run(model, *batch)
    other = run(model.to(dtype), *batch)
    assert other.dtype == dtype
    tolerance = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(other.float(), single, rtol=tolerance, atol=tolerance)


@pytest.mark.gpu
@torch.no_grad()
def test_on_cuda_logits_are_those_of_the_cpu():
    model = change(SMALL, width=32, inner=64).build().eval()
    sources, targets = [[1, 2, 3], [4], [5, 6]], [[7], [8, 9, 1, 2], [3, 4]]
    wanted = run(model, pack(sources), pack(targets))
    model.cuda()
    for limits in (None, BatchLimits(tokens=16, rows=4, longest=5)):
        sides = [pack(side, limits).to("cuda") for side in (sources, targets)]
        found = run(model, *sides)[: len(wanted)].cpu()
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
        half = run(deepcopy(model).bfloat16(), *sides)[: len(wanted)].float().cpu()
        assert (half - wanted).norm() / wanted.norm() < 5e-2
