"""Decoding goes on when a capture fails, or when garbage is collected while it is under way."""

import gc

import pytest
import torch

from near_ties import assert_same_search
from regard import generation
from regard.core.batch import pack
from regard.generation import Beam, Constraints, Greedy, cuda_graph
from regard.generation.cuda_graph import WARM_UP, CudaGraphEngine, GraphedCall, GraphedDecoder
from regard.models.facts import change
from regard.models.papers import bahdanau
from regard.models.papers.transformer import BASE

VOCAB, BOS, EOS = 29, 1, 2
FACTS = {
    "Bahdanau": change(bahdanau.LAPTOP, vocab=VOCAB, width=8, embedding=6, maxout=5),
    "Transformer": change(BASE, vocab=VOCAB, width=8, heads=2, inner=12, depth=1),
}
FACTS["relative"] = change(FACTS["Transformer"], **{"target.position": "relative"})
SOURCES = [[5, 9, 4], [7, 8]]
models = pytest.mark.parametrize("name", FACTS)


@pytest.fixture(autouse=True)
def _whole_products(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def built(name: str, device: str = "cpu"):
    torch.manual_seed(0)
    model = FACTS[name].build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        model.output.weight *= 4
    return model.to(device)


def assert_same(search, model, engine):
    def run(engine):
        source = pack(SOURCES).to(next(model.parameters()).device)
        with torch.inference_mode():
            state = generation.open_state(model, source, capacity=16, engine=engine)
            return search(state, Constraints(BOS, EOS, longest=10))

    assert_same_search(run, engine, model, sources=SOURCES)


def test_a_call_whose_capture_fails_stays_eager(monkeypatch):
    calls, captures = [], []
    monkeypatch.setattr(cuda_graph, "capture", lambda *given: captures.append(given))
    call = GraphedCall(lambda: calls.append(1), torch.device("cuda"), "a step")
    for number in range(1, WARM_UP + 4):
        call()
        assert len(calls) == number
    assert len(captures) == 1 and captures[0][2] == "a step" and call.graph is None


def test_what_a_failed_capture_has_cached_is_not_read(monkeypatch):
    """It may end when a layout holds a mask that was never computed."""
    model, engine, failed = built("relative"), CudaGraphEngine(), []
    assert_same(Beam(2), model, engine)
    (decoder,) = engine.decoders.values()

    def fail(function, device, name, pool):
        keys = decoder.cache.keys
        vars(keys)["real_BL"] = torch.zeros_like(keys.real_BL)
        failed.append(name)

    monkeypatch.setattr(cuda_graph, "capture", fail)
    decoder.step.captures = True
    assert_same(Beam(2), model, engine)
    assert failed == ["a decoding step"]


def before_captured_steps(monkeypatch, action):
    """Call ``action`` in every step that is recorded."""
    step = GraphedDecoder._step

    def acted(decoder):
        step(decoder)
        if torch.cuda.is_current_stream_capturing():
            action()

    monkeypatch.setattr(GraphedDecoder, "_step", acted)


def refused_call():
    torch.cuda.synchronize()


@pytest.mark.gpu
@models
def test_garbage_collected_while_a_step_is_captured(name, monkeypatch):
    """An engine with graphs is garbage, and is collected at the worst moment."""
    model, older = built(name, "cuda"), CudaGraphEngine()
    for _ in range(4):
        assert_same(Greedy(), model, older)
    holder = [older]
    assert all(decoder.step.graph is not None for decoder in older.decoders.values())
    del older

    def collect():
        holder.clear()
        gc.collect()

    before_captured_steps(monkeypatch, collect)
    engine = CudaGraphEngine()
    for _ in range(4):
        assert_same(Beam(2), model, engine)
    (decoder,) = engine.decoders.values()
    assert not holder and decoder.step.graph is not None and decoder.encode.graph is not None


@pytest.mark.gpu
@models
def test_a_capture_that_fails_once_is_tried_again(name, monkeypatch):
    model, engine, failures = built(name, "cuda"), CudaGraphEngine(), []

    def fail_once():
        if not failures:
            failures.append(1)
            refused_call()

    before_captured_steps(monkeypatch, fail_once)
    for _ in range(4):
        assert_same(Beam(2), model, engine)
    (decoder,) = engine.decoders.values()
    assert failures and decoder.step.graph is not None


@pytest.mark.gpu
@models
def test_a_capture_that_always_fails_leaves_eager_steps(name, monkeypatch):
    model, engine = built(name, "cuda"), CudaGraphEngine()
    before_captured_steps(monkeypatch, refused_call)
    with pytest.warns(RuntimeWarning, match="of a decoding step could not be captured") as warned:
        for _ in range(4):
            assert_same(Beam(2), model, engine)
    (decoder,) = engine.decoders.values()
    assert decoder.step.graph is None and decoder.encode.graph is not None
    assert len([one for one in warned if issubclass(one.category, RuntimeWarning)]) == 1
