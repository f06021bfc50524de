"""Batches of one budget are one graph, however their rows fall."""

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from regard.core.batch import BatchLimits, PackedTokens, SourceTarget, TokenRow, pack, pack_rows
from regard.core.machine import has
from regard.models.facts import change
from regard.models.label_heads import TokenLabelHead
from regard.models.papers import bert
from regard.models.papers.transformer import BASE

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
FACTS = change(BASE, width=64, heads=4, inner=128, depth=2, vocab=50, dropout=0.0)
BUDGET = BatchLimits(tokens=64, rows=8, longest=16)
needs_compiler = pytest.mark.skipif(not has("compiler"), reason="needs a C++ compiler")
BATCHES = [([3, 1, 16, 7], [2, 12, 5, 1]), ([16, 16, 16, 16], [1, 1, 1, 1]), ([1], [16])]


def batch(lengths: list[int]) -> PackedTokens:
    return pack([torch.randint(0, 50, (length,)).tolist() for length in lengths], BUDGET)


def run(model: nn.Module, source: PackedTokens, target: PackedTokens) -> Tensor:
    return model(SourceTarget(source, target)).by_head["next_token"]


@pytest.fixture(autouse=True)
def _from_the_start():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_one_graph_serves_all_batches_of_a_budget():
    model, counter = FACTS.build(), CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for lengths in BATCHES:
        sides = [batch(side) for side in lengths]
        wanted = run(model, *sides)
        torch.testing.assert_close(run(compiled, *sides), wanted)
    assert counter.frame_count == 1


@pytest.mark.gpu
def test_one_kernel_graph_serves_all_batches_on_cuda():
    model = FACTS.build().cuda().bfloat16()
    compiled = torch.compile(model, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    for number, lengths in enumerate(BATCHES):
        sides = [batch(side).to("cuda") for side in lengths]
        stance = "fail_on_recompile" if number else "default"
        with torch.compiler.set_stance(stance):
            found = run(compiled, *sides)
            found.float().square().sum().backward()
        wanted = run(model, *sides)
        error = (found.float() - wanted.float()).norm() / wanted.float().norm()
        assert error < 2e-2
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def gradients(called: nn.Module, model: nn.Module, *sides: PackedTokens) -> dict[str, Tensor]:
    """Of a loss in which no row, token or logit counts as another does; ``called`` is the model."""
    model.zero_grad()
    logits_TV = run(called, *sides)
    weights = torch.linspace(-1, 1, logits_TV.numel(), device=logits_TV.device)
    (logits_TV.float() * weights.view_as(logits_TV)).sum().backward()
    return {name: one.grad.clone() for name, one in model.named_parameters()}


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=needs_compiler)])
@pytest.mark.slow
def test_compiled_gradients_are_the_eager_ones(backend):
    """As the compiler derives them, and as the kernels that it writes compute them."""
    model = change(FACTS, width=16, heads=2, inner=24, depth=1).build()
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    for lengths in BATCHES:
        sides = [batch(side) for side in lengths]
        wanted, found = (gradients(one, model, *sides) for one in (model, compiled))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        assert all(one.any() for one in wanted.values())


@pytest.mark.slow
def test_a_mixture_of_layers_is_part_of_the_graph():
    facts = change(bert.TINY, width=16, heads=2, inner=16, depth=2, vocab=50, mix=True, pool=None)
    model, counter = facts.with_heads(TokenLabelHead(3)).build().eval(), CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for lengths in ([3, 1, 16, 7], [1]):
        rows = [TokenRow(torch.randint(0, 50, (n,)).numpy(), [0] * n) for n in lengths]
        inputs = pack_rows(rows, BUDGET)
        wanted = model(inputs).by_head["token_label"]
        torch.testing.assert_close(compiled(inputs).by_head["token_label"], wanted)
    assert counter.frame_count == 1
