"""XLNet's two streams: what each state depends on, by gradient; memory; one compiled graph."""

from dataclasses import replace

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from regard.core.batch import PackedTokens
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.models.facts import change
from regard.models.papers import xlnet
from regard.models.papers.xlnet.two_stream import PermutationLMHead

HEAD = PermutationLMHead.name
ROWS, LENGTH, MEMORY = 2, 8, 3
FACTS = change(xlnet.BASE, vocab=40, width=12, depth=3, heads=3, inner=16)


def model(**changes):
    torch.manual_seed(1)
    module = change(FACTS, **changes).with_heads(PermutationLMHead()).build().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


def batch(seed: int = 2) -> tuple[PackedTokens, torch.Tensor]:
    """Rows with random orders, and all of their tokens, to be predicted."""
    torch.manual_seed(seed)
    orders_T = torch.cat([torch.randperm(LENGTH) for _ in range(ROWS)])
    segments_T = torch.randint(2, (ROWS * LENGTH,))
    even = Layout.rectangle(ROWS, LENGTH)
    layout = replace(even, orders_T=orders_T, segments_T=segments_T)
    return PackedTokens(torch.randint(40, (ROWS * LENGTH,)), layout), torch.arange(ROWS * LENGTH)


@pytest.mark.parametrize("with_memory", [False, True])
def test_states_depend_on_tokens_that_come_earlier_in_the_order(with_memory):
    """A query state on those before it alone, a content state on its own token as well."""
    module, (inputs, every_T) = model(), batch()
    memory = tuple(torch.randn(3, ROWS, MEMORY, 12)) if with_memory else None
    embedded_TD = torch.randn(ROWS * LENGTH, 12, requires_grad=True)
    tape = Tape(edits={"trunk.embed.output": lambda name, x_TD: embedded_TD})
    encoded = module.encode(
        inputs, tape=tape, predicted_N=every_T, **({"state": memory} if with_memory else {})
    )
    order_T, row_T = inputs.layout.orders_T, inputs.layout.rows_T
    for states_TD, itself in ((encoded.queries_ND, False), (encoded.states_TD, True)):
        for at in range(ROWS * LENGTH):
            (gradient_TD,) = torch.autograd.grad(
                states_TD[at].sum() + 0 * embedded_TD.sum(), embedded_TD, retain_graph=True
            )
            seen_T = gradient_TD.abs().sum(-1) > 0
            before_T = (order_T <= order_T[at]) if itself else (order_T < order_T[at])
            assert torch.equal(seen_T, before_T & (row_T == row_T[at]))


def test_every_token_sees_the_memory_of_its_row_in_every_layer_and_in_both_streams():
    module, (inputs, every_T) = model(), batch()
    memory = tuple(torch.randn(3, ROWS, MEMORY, 12, requires_grad=True).unbind())
    encoded = module.encode(inputs, predicted_N=every_T, state=memory)
    for states_TD in (encoded.queries_ND, encoded.states_TD):
        for state_D, row in zip(states_TD, inputs.layout.rows_T, strict=True):
            gradients = torch.autograd.grad(state_D.sum(), memory, retain_graph=True)
            own_B1 = (torch.arange(ROWS) == row)[:, None]
            for gradient_BMD in gradients:
                seen_BM = gradient_BMD.abs().sum(-1) > 0
                assert torch.equal(seen_BM, own_B1.expand(-1, MEMORY))


def test_the_new_memory_has_no_gradient():
    module, (inputs, every_T) = model(), batch()
    memory = tuple(torch.randn(3, ROWS, MEMORY, 12, requires_grad=True).unbind())
    outputs = module(inputs, positions={HEAD: every_T}, state=memory)
    assert outputs.by_head[HEAD].requires_grad and len(outputs.encoded.state) == len(memory)
    assert not any(states_BMD.requires_grad for states_BMD in outputs.encoded.state)


def test_in_both_streams_every_token_sees_the_memory_of_its_row():
    """In each layer: all of that layer's memory, and none of another row."""
    module, (inputs, every_T) = model(), batch()
    memory = tuple(torch.randn(ROWS, MEMORY, 12, requires_grad=True) for _ in range(3))
    tape = Tape("trunk.blocks.?.output", "trunk.blocks.?.query_output")
    module.encode(inputs, tape=tape, predicted_N=every_T, state=memory)
    assert len(tape.records) == 2 * len(memory)
    for name, states_TD in tape.records.items():
        of_layer_BMD = memory[int(name.split(".")[2])]
        for at, row in enumerate(inputs.layout.rows_T):
            gradient_BMD = torch.autograd.grad(
                states_TD[at].sum(), of_layer_BMD, retain_graph=True
            )[0]
            seen_BM = gradient_BMD.abs().sum(-1) > 0
            assert torch.equal(seen_BM, (torch.arange(ROWS) == row)[:, None].expand(-1, MEMORY))


@torch.no_grad()
def test_predicting_does_not_change_the_content_stream():
    module, (inputs, every_T) = model(), batch()
    states_TD = module(inputs).encoded.states_TD
    for chosen_N in (every_T, every_T[::4], every_T[:0]):
        both = module(inputs, positions={HEAD: chosen_N})
        torch.testing.assert_close(both.encoded.states_TD, states_TD)
    some_TV = module(inputs, positions={HEAD: every_T[::4]}).by_head[HEAD]
    all_TV = module(inputs, positions={HEAD: every_T}).by_head[HEAD]
    torch.testing.assert_close(some_TV, all_TV[::4])


def test_every_parameter_has_a_gradient_where_nothing_is_predicted():
    """As processes that share gradients need it."""
    module, (inputs, _) = model(), batch()
    module(inputs).by_head[HEAD].sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and parameter.grad.any() == ("query" not in name), name


def test_rows_have_equal_numbers_of_predicted_tokens():
    module, (inputs, every_T) = model(), batch()
    with pytest.raises(ValueError, match="5 predicted tokens cannot be divided among 2 rows"):
        module(inputs, positions={HEAD: every_T[:5]})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_one_graph_serves_all_batches_and_agrees():
    module, counter = model(), CompileCounter()
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    memory = module.trunk.new_memory(ROWS, MEMORY)
    for seed in (3, 4):
        inputs, every_T = batch(seed)
        given = {"positions": {HEAD: every_T[::2]}, "state": memory}
        found, expected = compiled(inputs, **given), module(inputs, **given)
        logits = expected.by_head[HEAD]  # compiled, there is padding beyond the vocabulary
        torch.testing.assert_close(found.by_head[HEAD][..., : logits.shape[-1]], logits)
        memory = tuple(one.detach() for one in expected.encoded.state)
    assert counter.frame_count == 1


def test_new_weights_are_drawn_from_the_papers_distribution():
    torch.manual_seed(0)
    module = change(FACTS, width=96, inner=64, depth=1).build()
    score = module.trunk.blocks[0].attention.score
    vectors = (score.content_bias, score.distance_bias, score.segment, score.distance.weight)
    for weights in (*vectors, module.trunk.query_embed.weight, module.trunk.embed.token.weight):
        error = (2 * weights.numel()) ** -0.5  # of the deviation of so many draws, relatively
        assert weights.std().item() == pytest.approx(0.02, rel=4 * error)
        assert weights.mean().item() == pytest.approx(0, abs=4 * 0.02 * weights.numel() ** -0.5)


@torch.no_grad()
def test_attention_weights_of_both_streams_are_recorded():
    module, (inputs, every_T) = model(), batch()
    tape = Tape("trunk.blocks.*.weights")
    module(inputs, positions={HEAD: every_T}, tape=tape)
    names = [
        f"trunk.blocks.{n}.{one}.weights"
        for n in range(3)
        for one in ("attention", "query_attention")
    ]
    assert sorted(tape.records) == sorted(names)
    site = FACTS.trunk.stack.self_attention("trunk")
    assert [*site.weights] == [name for name in names if "query" not in name]
