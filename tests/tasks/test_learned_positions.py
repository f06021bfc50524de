"""Translators that learned a vector for each position: they read and write so far, and say so."""

from dataclasses import replace

import pytest

from regard.api import Model
from regard.core.errors import BadInput
from regard.generation import Beam, Greedy, Sample
from regard.generation.cuda_graph import CudaGraphEngine
from small_positions import PLACES, placed


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("search", [Beam(2), Greedy(), Sample(count=2), Beam(2, no_repeat=1)])
@pytest.mark.parametrize("precision", [None, "fp32"])
def test_writing_ends_where_the_learned_positions_end(search, precision, device):
    model = placed(at_target=5, device=device)
    model = Model(model._loaded, precision)
    for found in model.translate([[5] * PLACES, [6, 7]] * 3, search):
        assert {len(one.hypothesis.tokens) for one in found} == {5}
        assert {one.ended for one in found} == {"positions"}
    ((short, *_),) = model.translate([[6, 7]], search, max_new_tokens=3)
    assert len(short.hypothesis.tokens) == 3 and short.ended == "length"
    (within,) = model.translate(["ada"], search, prefixes=["ada"])
    assert len(within[0].hypothesis.tokens) == 5


def test_a_static_kv_cache_is_no_longer_than_the_source_positions():
    model = placed(at_source=5)
    roomy = replace(model.translator, engine=CudaGraphEngine())
    found, expected = (one.translate([[5] * 5])[0][0].hypothesis for one in (roomy, model))
    assert found.tokens == expected.tokens
    assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-4)


def test_what_is_longer_than_the_learned_positions_is_reported():
    model, long = placed(at_target=6), "ada bit cow dog elf fox gnu hen ibis jay kid lion"
    longest = rf"tokens, but the model has {PLACES} positions: shorten it$"
    for do in (model.translate, model.encode, model.embed):
        with pytest.raises(BadInput, match=f"^input 2: .* {longest}"):
            do(["ada", long])
        with pytest.raises(BadInput, match=f"^input 2: 13 {longest}"):
            do([[5], [5] * 13])
    for do in (model.score, model.logits):
        with pytest.raises(BadInput, match=f"^input 1: 13 {longest}"):
            do([([5] * 13, [5])])
        with pytest.raises(BadInput, match=r"^input 1: 7 tokens, but the model has 6 positions"):
            do([([5], [5] * 6)])
        assert len(do([([5] * 12, [5] * 5)])[0]) == 6
    with pytest.raises(BadInput, match=r"positions: shorten it$"):
        next(iter(model.align([(long, "ada")])))
    with pytest.raises(BadInput, match=r"positions: shorten it$"):
        model.look(long, "ada")
    with pytest.raises(BadInput, match="a prefix of"):
        model.translate(["ada"], prefixes=[long])


@pytest.mark.parametrize(
    ("message", "memory"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("std::bad_alloc", True),
        ("expected a tensor that was allocated on the host", False),
    ],
)
def test_memory_that_does_not_suffice_is_reported(message, memory):
    fault = RuntimeError(message)

    class Greedier(Greedy):
        def __call__(self, *_):
            raise fault

    with pytest.raises(BadInput if memory else RuntimeError) as raised:
        placed().translate(["dog"], Greedier())
    if memory:
        assert str(raised.value).startswith("not enough memory to search 1 sentences")
        assert raised.value.__cause__ is fault
    else:
        assert raised.value is fault
