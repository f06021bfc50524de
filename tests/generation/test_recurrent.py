"""Recurrent decoders in fixed buffers, as CUDA graphs need them, find what eager ones find."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from naive import SEED
from near_ties import assert_same_search, forced_logprobs
from regard import generation
from regard.core.batch import pack
from regard.core.errors import BadInput
from regard.generation import (
    EAGER,
    Beam,
    Constraints,
    Greedy,
    Prompts,
    Sample,
    choose_engine,
    engines,
)
from regard.generation.cuda_graph import CudaGraphEngine
from regard.models.conv import ConvEncoderFacts
from regard.models.embedding import Learned
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import awd_lstm, bahdanau, cho, luong, sutskever
from regard.models.papers.transformer import BASE
from regard.models.trunk import Trunk

VOCAB, CAPACITY, BOS, EOS = 29, 24, 1, 2
SIZES = {"vocab": VOCAB, "width": 8, "embedding": 6}
BAHDANAU = change(bahdanau.LAPTOP, **SIZES, maxout=5)
SUTSKEVER = change(sutskever.LAPTOP, **SIZES)
BLOCKS = change(BASE, vocab=VOCAB, width=8, heads=2, inner=12, depth=1)
CONVOLVED = Trunk(
    replace(BLOCKS.source.embed, position=Learned(CAPACITY)), ConvEncoderFacts(8, 2, dropout=0.0)
)
TRANSLATORS = {
    "Cho": change(cho.LAPTOP, **SIZES, maxout=5),
    "Sutskever": SUTSKEVER,
    "Bahdanau": BAHDANAU,
    "Bahdanau with LSTMs": change(BAHDANAU, cell="lstm", depth=2),
    "Luong": change(luong.LAPTOP, **SIZES),
    "Luong, dot, not fed": change(
        luong.LAPTOP, **SIZES, score="dot", input_feeding=False, residual=False
    ),
    "location": change(luong.LAPTOP, **SIZES, score="location", positions=5),
    "recurrent to blocks": replace(BAHDANAU, target=BLOCKS.target),
    "blocks to recurrent": change(replace(BAHDANAU, source=BLOCKS.source), bridge="last"),
    "convolved to recurrent": change(replace(BAHDANAU, source=CONVOLVED), bridge="mean"),
}
LANGUAGE_MODELS = {
    cell: change(
        awd_lstm.WIKITEXT_2,
        vocab=VOCAB,
        width=8,
        embedding=6,
        last_width=6,
        cell=cell,
        initial="learned",
    ).with_heads(NextTokenHead())
    for cell in ("rnn", "gru", "lstm")
}
SEARCHES = [Greedy(), Beam(3, best=3), Sample(count=2, seed=4)]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
translators = pytest.mark.parametrize("facts", TRANSLATORS.values(), ids=TRANSLATORS)
language_models = pytest.mark.parametrize("facts", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS)
devices = pytest.mark.parametrize("device", DEVICES)
sentences = st.lists(st.integers(1, 9), min_size=1, max_size=6)


@pytest.fixture(autouse=True)
def _whole_products(monkeypatch):
    """TF32 would make two ways to compute the same differ in the third digit."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def built(facts, seed: int = 0, device: str = "cpu"):
    """A model whose distributions are sharp enough to differ."""
    torch.manual_seed(seed)
    model = facts.build().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
        model.output.weight *= 4
    return model.to(device)


def rows(lengths: list[int]) -> list[list[int]]:
    return [[3 + (5 * length + place) % 25 for place in range(length)] for length in lengths]


def n_best(search, model, engine, sources=None, prompts=None, longest: int = 8):
    """The hypotheses of each sentence."""
    device = next(model.parameters()).device
    source = None if sources is None else pack(sources).to(device)
    given = None if prompts is None else Prompts.of(prompts, device)
    bos = BOS if given is None else given.last
    with torch.inference_mode():
        state = generation.open_state(
            model, source, prompts=given, capacity=CAPACITY, engine=engine
        )
        return search(state, Constraints(bos, EOS, longest))


def results(search, model, engine, **given):
    """Tokens and log-probabilities of all hypotheses."""
    hypotheses = [one for row in n_best(search, model, engine, **given) for one in row]
    return [one.tokens for one in hypotheses], [one.logprob for one in hypotheses]


def assert_same(search, model, engine, **given):
    def run(engine):
        return n_best(search, model, engine, **given)

    assert_same_search(run, engine, model, **given)


@pytest.mark.thinned
@devices
@translators
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@settings(max_examples=3, deadline=None)
@given(batches=st.lists(sentences, min_size=1, max_size=3), seed=SEED)
def test_translations_are_those_of_eager_steps(facts, search, device, batches, seed):
    """Also of later batches, in buffers that hold what earlier ones left."""
    model, engine = built(facts, seed, device), CudaGraphEngine()
    for lengths in batches:
        assert_same(search, model, engine, sources=rows(lengths))
    assert engine.decoders  # they did run in fixed buffers


@pytest.mark.thinned
@devices
@pytest.mark.parametrize("name", ["Sutskever", "Bahdanau", "Luong", "recurrent to blocks"])
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_prompts_of_translations_are_read(name, search, device):
    model, engine = built(TRANSLATORS[name], device=device), CudaGraphEngine()
    for prompts in ([[1, 5, 6], [1], [3, 4]], [[1], [4, 5, 6, 7], [9]], [[1], [1], [1]]):
        assert_same(search, model, engine, sources=rows([4, 1, 3]), prompts=prompts)


@pytest.mark.thinned
@devices
@language_models
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_continuations_are_those_of_eager_steps(facts, search, device):
    model, engine = built(facts, device=device), CudaGraphEngine()
    for prompts in ([[1, 5, 6], [1], [3, 4]], [[7], [8]], [[9, 9, 9, 9], [1, 2], [3], [4]]) * 2:
        assert_same(search, model, engine, prompts=prompts)
    assert engine.decoders


@devices
@pytest.mark.parametrize("name", ["Bahdanau", "Luong", "Sutskever"])
def test_buffers_stay_where_they_are(name, device):
    """A replayed graph reads and writes the addresses that it was captured with."""
    model, engine = built(TRANSLATORS[name], device=device), CudaGraphEngine()
    places = set()
    for lengths in ([3, 2, 4], [1, 5, 5], [2, 2, 2], [6, 1, 3], [4, 4, 1]):
        assert_same(Beam(2), model, engine, sources=rows(lengths))
        (decoder,) = engine.decoders.values()
        held = [*decoder.cache.current.tensors, *decoder.cache.of_source]
        places.add(tuple(tensor.data_ptr() for tensor in held))
    assert len(places) == 1
    graphs = [call.graph for call in (decoder.step, decoder.encode)]
    assert all((graph is not None) == (device == "cuda") for graph in graphs)


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_batch_gives_the_same_again_when_it_is_captured(search, dtype, device):
    model, engine = built(BAHDANAU, device=device).to(dtype), CudaGraphEngine()
    first, *later = (results(search, model, engine, sources=rows([5, 1, 3])) for _ in range(5))
    for tokens, logprobs in later:
        assert tokens == first[0]
        assert logprobs == pytest.approx(first[1], abs=1e-2)


class WithoutWaiting(TorchDispatchMode):
    """Fails where an operator would make the host wait for a GPU, which no capture allows."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, kwargs = function.overloadpacket.__name__, kwargs or {}
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "equal")
        if name == "repeat_interleave" and function._overloadname != "self_int":
            assert kwargs.get("output_size") is not None
        if name == "index":
            assert not any(one is not None and one.dtype == torch.bool for one in args[1])
        return function(*args, **kwargs)


@pytest.mark.parametrize(
    "facts", [*TRANSLATORS.values(), LANGUAGE_MODELS["lstm"]], ids=[*TRANSLATORS, "language model"]
)
def test_steps_and_encoding_never_wait_for_the_device(facts, monkeypatch):
    model, engine = built(facts), CudaGraphEngine()
    given = (
        {"sources": rows([3, 2])} if facts in TRANSLATORS.values() else {"prompts": [[1, 4], [1]]}
    )
    results(Beam(2), model, engine, **given)
    (decoder,) = engine.decoders.values()
    monkeypatch.setattr(Tensor, "tolist", lambda tensor: pytest.fail("the host waits for lengths"))
    captured = [decoder.step.function, *([decoder.encode.function] if "sources" in given else [])]
    with torch.inference_mode(), WithoutWaiting():
        for function in captured:
            function()


def test_waiting_is_noticed(monkeypatch):
    """An encoder of plain cells asks for the lengths of its rows."""
    model, engine = built(change(SUTSKEVER, cell="rnn")), CudaGraphEngine()
    results(Beam(2), model, engine, sources=rows([3, 2]))
    (decoder,) = engine.decoders.values()
    monkeypatch.setattr(Tensor, "tolist", lambda tensor: pytest.fail("the host waits for lengths"))
    with pytest.raises(pytest.fail.Exception, match="waits"), torch.inference_mode():
        decoder.encode.function()


class OnCuda:
    """What ``choose_engine`` asks of a model, on another device."""

    def __init__(self, model):
        self.capturable = model.capturable

    def parameters(self):
        return iter([type("Parameter", (), {"device": torch.device("cuda"), "is_cuda": True})()])


@translators
def test_graphs_are_the_engine_of_translators_on_a_gpu(facts, monkeypatch):
    monkeypatch.setattr(engines, "has_bf16", lambda device: True)
    model = OnCuda(built(facts))
    assert choose_engine([model]) == ("bf16", "cuda-graph")
    assert choose_engine([model], engine="torch") == ("bf16", "torch")
    assert isinstance(generation.default_engine(model), CudaGraphEngine)


def test_encoders_that_need_lengths_on_the_host_are_not_captured(monkeypatch):
    """Padding does not freeze plain cells, so their rows are ordered by length."""
    monkeypatch.setattr(engines, "has_bf16", lambda device: True)
    plain = OnCuda(built(change(SUTSKEVER, cell="rnn")))
    assert choose_engine([plain]) == ("bf16", "torch")
    assert generation.default_engine(plain) is EAGER
    with pytest.raises(BadInput, match="cuda-graph: this model cannot be captured; choose torch"):
        choose_engine([plain], engine="cuda-graph")


class Altered(CudaGraphEngine):
    """An engine whose output weights differ from those of eager steps."""

    def __init__(self, factor_V: Tensor):
        super().__init__()
        self.factor_V = factor_V

    def open(self, model, source, prompts, capacity):
        other = deepcopy(model)
        with torch.no_grad():
            other.output.weight *= self.factor_V[:, None]
        return super().open(other, source, prompts, capacity)


@pytest.mark.parametrize("search", [Greedy(), Beam(3, best=3)], ids=str)
def test_a_near_tie_is_no_error(search):
    """Two tokens are equal in eager steps, and in the engine the second is a little better."""
    model, given = built(SUTSKEVER), {"sources": rows([3, 2])}
    with torch.no_grad():
        model.output.weight[26] = model.output.weight[25]
    factor_V = torch.ones(VOCAB)
    factor_V[26] += 3e-7
    engine = Altered(factor_V)
    assert results(search, model, engine, **given)[0] != results(search, model, EAGER, **given)[0]
    assert_same(search, model, engine, **given)
    factor_V[26] += 3e-3
    with pytest.raises(pytest.fail.Exception, match="no near tie"):
        assert_same(search, model, engine, **given)


@pytest.mark.parametrize("given", [{}, {"prompts": [[1, 7], [4]]}], ids=["source", "prompts"])
def test_a_difference_that_is_no_tie_is_described(given):
    model, engine = built(SUTSKEVER), Altered(torch.linspace(-1, 1, VOCAB))
    with pytest.raises(pytest.fail.Exception, match="no near tie") as failure:
        assert_same(Beam(3, best=3), model, engine, sources=rows([3, 2]), **given)
    assert "part at step" in str(failure.value) and "in float64 -" in str(failure.value)


def test_forced_logprobs_are_those_of_the_search():
    model, source = built(BAHDANAU), rows([4])
    ((best,),) = n_best(Greedy(), model, EAGER, sources=source)
    tokens = (*best.tokens, *([EOS] if best.finished else []))
    forced = forced_logprobs(model, source[0], [BOS], tokens)
    assert forced == pytest.approx(best.logprobs, abs=1e-5)
