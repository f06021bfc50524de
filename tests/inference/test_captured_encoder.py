"""An encoder in fixed shapes gives the states of the encoder itself."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.batch import TokenRow, pack_rows
from regard.core.tape import Tape
from regard.generation import cuda_graph
from regard.inference import captured_encoder
from regard.inference.captured_encoder import CapturedStack, capture_encoder
from regard.models.facts import change
from regard.models.papers import bert

VOCAB = 40
SIZES = {"width": 16, "inner": 32, "depth": 2, "heads": 2, "longest": 100, "vocab": VOCAB}


def small_bert():
    torch.manual_seed(0)
    return change(bert.BASE, init_std=0.5, **SIZES).build().eval()


@pytest.fixture(scope="module")
def modules():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(captured_encoder, "TOKENS", (64, 128))
        module = small_bert()
        return module, capture_encoder(module)


def batch_of(lengths, seed=0):
    draw = np.random.default_rng(seed)
    rows = [TokenRow(draw.integers(0, VOCAB, n), draw.integers(0, 2, n)) for n in lengths]
    return pack_rows(rows)


def check_states(modules, lengths, seed=0):
    module, captured = modules
    batch = batch_of(lengths, seed)
    with torch.no_grad():
        ours, wanted = captured.encode(batch), module.encode(batch)
    torch.testing.assert_close(ours.states_TD, wanted.states_TD, rtol=1e-4, atol=1e-5)
    assert ours.layout is batch.layout


@pytest.mark.parametrize("lengths", [[1], [4, 9, 60], [60, 60], [99, 20], [99, 99]])
def test_states_are_those_of_the_encoder(modules, lengths):
    check_states(modules, lengths)


@pytest.mark.slow
@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=16), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_states_do_not_depend_on_the_padding(modules, lengths, seed):
    check_states(modules, lengths, seed)


def test_the_smallest_shape_that_fits_runs(modules):
    stack = modules[1].trunk
    assert isinstance(stack, CapturedStack)
    shapes = [(limits.tokens, limits.longest) for limits in stack.graphs]
    assert shapes == [(64, 64), (128, 64), (128, 100)]
    cases = {(3, 4): 0, (60, 60): 1, (70,): 2, (5,) * 17: None, (99, 99): None}
    for lengths, expected in cases.items():
        graphs = [*stack.graphs.values()]
        calls = [graph.run.calls for graph in graphs]
        with torch.no_grad():
            modules[1].encode(batch_of(lengths))
        ran = [graph.run.calls > calls[number] for number, graph in enumerate(graphs)]
        assert ran == [number == expected for number in range(3)]


def test_a_tape_sees_every_value(modules):
    tape = Tape("trunk.blocks.0.output")
    with torch.no_grad():
        modules[1].encode(batch_of([3, 4]), tape=tape)
    assert tape.records["trunk.blocks.0.output"].shape == (7, 16)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_is_captured_after_the_warm_up(monkeypatch, dtype):
    captures, capture = [], cuda_graph.capture

    def counted(*given):
        captures.append(given)
        return capture(*given)

    monkeypatch.setattr(cuda_graph, "capture", counted)
    module = small_bert().to("cuda", dtype)
    captured = capture_encoder(module)
    assert len(captures) == len(captured.trunk.graphs)
    for seed, lengths in enumerate([[3], [5] * 40, [99, 1, 7], [60] * 60]):
        batch = batch_of(lengths, seed).to("cuda")
        with torch.no_grad():
            ours, wanted = captured.encode(batch), module.encode(batch)
        close = 1e-3 if dtype == torch.float32 else 0.1
        torch.testing.assert_close(ours.states_TD, wanted.states_TD, rtol=close, atol=close)
    assert len(captures) == len(captured.trunk.graphs)
