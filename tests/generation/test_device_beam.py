"""A device beam decides what a host beam decides, with everything on the device."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from naive import SEED
from regard import generation
from regard.core.batch import pack
from regard.generation import EAGER, candidates
from regard.generation.beam import Beam
from regard.generation.constraints import Constraints
from regard.generation.cuda_graph import POOL_SIZE, CudaGraphEngine
from regard.generation.device_beam import DeviceBeam
from regard.generation.greedy import Greedy
from regard.generation.sample import Sample
from regard.generation.step import SearchBatch
from regard.models.facts import change
from regard.models.papers.transformer import BASE

from .toy import Toy

FACTS = change(BASE, width=16, heads=2, inner=12, depth=2, vocab=40)
BOS, EOS, PAD = 1, 2, 0
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def model(seed: int, sharp: float, device: str) -> nn.Module:
    """A random translator whose distributions are ``sharp``, so that it ends now and then."""
    torch.manual_seed(seed)
    one = change(FACTS, tie="none", head_bias=True).build().eval()
    with torch.no_grad():
        one.head.weight *= sharp
        one.head.bias[EOS] += 1.0
    return one.to(device)


def sources(draw_lengths: list[int]) -> list[list[int]]:
    return [[3 + (7 * n + i) % 37 for i in range(n)] for n in draw_lengths]


def found(search, translator, ids, constraints, engine):
    packed = pack(ids).to(next(translator.parameters()).device)
    with torch.inference_mode():
        state = generation.open_state(translator, packed, capacity=16, engine=engine)
        return search(state, constraints)


def assert_same(on_device, wanted):
    assert len(on_device) == len(wanted)
    for ours, theirs in zip(on_device, wanted, strict=True):
        assert [(one.tokens, one.finished) for one in ours] == [
            (one.tokens, one.finished) for one in theirs
        ]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
            assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


SEARCHES = [
    Greedy(),
    Beam(1),
    Beam(3, length="mean"),
    Beam(4, best=4, early=False),
    Beam(2, best=3, length="none", finished=5),
    Beam(5, best=2, length="power", alpha=1.2),
    Beam(1, length="power", alpha=1.0, stop="transformers"),
    Beam(4, best=3, length="power", alpha=1.0, stop="transformers"),
    Beam(3, best=3, length="power", alpha=-0.5, stop="transformers-never"),
    Beam(3, length="power", alpha=0.7, stop="transformers-early"),
    Greedy(repetition_penalty=1.5),
    Beam(1, repetition_penalty=1.5),
    Beam(3, best=2, repetition_penalty=1.3),
    Sample(count=2),
    Sample(temperature=0.7, top_k=5, seed=3),
    Sample(top_p=0.8, count=3, repetition_penalty=2.0),
]


@pytest.mark.thinned
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@settings(max_examples=8, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=9),
    longest=st.integers(1, 12),
    sharp=st.sampled_from([1.0, 4.0, 12.0]),
    must_end=st.booleans(),
    shortest=st.integers(0, 5),
    renormalise=st.booleans(),
    seed=SEED,
)
def test_the_device_finds_what_the_host_finds(
    device, search, lengths, longest, sharp, must_end, shortest, renormalise, seed
):
    translator = model(seed, sharp, device)
    ids = sources(lengths)
    constraints = Constraints(
        BOS,
        EOS,
        [min(longest, n + 3) for n in lengths],
        shortest,
        forbidden=(PAD, BOS),
        must_end=must_end,
        renormalise=renormalise,
    )
    wanted = found(search, translator, ids, constraints, EAGER)
    assert_same(found(search, translator, ids, constraints, CudaGraphEngine()), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_decoders_are_used_again_batch_after_batch(device):
    translator, engine = model(1, 6.0, device), CudaGraphEngine()
    for number in range(6):
        ids = sources([1 + (number + i) % 5 for i in range(3 + number)])
        constraints = Constraints(BOS, EOS, 12, forbidden=(PAD, BOS))
        wanted = found(Beam(3, best=2), translator, ids, constraints, EAGER)
        assert_same(found(Beam(3, best=2), translator, ids, constraints, engine), wanted)
    sentences = [len(decoder.lengths_B) for decoder in engine.decoders.values()]
    assert sentences == [4, 8]  # for 3 and 4, for 5 to 8


@pytest.mark.parametrize("device", DEVICES)
def test_decoders_belong_to_their_module(device):
    engine, constraints = CudaGraphEngine(), Constraints(BOS, EOS, 12, forbidden=(PAD, BOS))
    first, second = model(1, 6.0, device), model(2, 6.0, device)
    for _ in range(2):
        for translator in (first, second):
            for _ in range(4):  # more often than it takes to capture
                on_device = found(Beam(3, best=2), translator, sources([2, 4]), constraints, engine)
            assert_same(
                on_device, found(Beam(3, best=2), translator, sources([2, 4]), constraints, EAGER)
            )
    assert len(engine.decoders) == 2


def test_decoders_belong_to_their_precision():
    engine, constraints, translator = (
        CudaGraphEngine(),
        Constraints(BOS, EOS, 12),
        model(1, 6.0, "cpu"),
    )
    for dtype in (torch.float32, torch.float64, torch.float32):
        found(Beam(3), translator.to(dtype), sources([2, 4]), constraints, engine)
    assert [len(engine.decoders), *{decoder.model for decoder in engine.decoders.values()}] == [
        2,
        translator,
    ]


def test_what_only_the_host_does_is_done_there():
    translator, engine = model(1, 6.0, "cpu"), CudaGraphEngine()
    constraints = Constraints(BOS, EOS, 8)
    found(Beam(2, no_repeat=2), translator, sources([2, 3]), constraints, engine)
    found(Sample(no_repeat=2), translator, sources([2, 3]), constraints, engine)
    assert not engine.decoders


def test_one_decoder_serves_all_seeds():
    translator, engine = model(1, 1.0, "cpu"), CudaGraphEngine()
    constraints = Constraints(BOS, EOS, 8, forbidden=(PAD, BOS))
    drawn = [
        found(Sample(seed=seed), translator, sources([2, 3]), constraints, engine)[0][0].tokens
        for seed in range(4)
    ]
    assert len(set(drawn)) > 1 and len(engine.decoders) == 1


def test_a_pool_keeps_so_many_decoders():
    translator, engine = model(1, 6.0, "cpu"), CudaGraphEngine()
    for size in range(1, 3 + POOL_SIZE):
        found(Beam(size), translator, sources([2]), Constraints(BOS, EOS, 4), engine)
    assert len(engine.decoders) == POOL_SIZE


def test_a_frozen_engine_has_the_smallest_decoder_that_is_large_enough():
    translator, engine = model(1, 6.0, "cpu"), CudaGraphEngine()
    constraints = Constraints(BOS, EOS, 12, forbidden=(PAD, BOS))
    for rows in (2, 8):
        found(Beam(3, best=2), translator, sources([2] * rows), constraints, engine)
    engine.freeze()
    small, large = engine.decoders.values()
    for lengths, beam in (([1, 4], 3), ([3, 2, 5], 3), ([2] * 9, 3), ([2, 2], 2)):
        calls = small.step.calls, large.step.calls
        wanted = found(Beam(beam, best=2), translator, sources(lengths), constraints, EAGER)
        on_device = found(Beam(beam, best=2), translator, sources(lengths), constraints, engine)
        assert_same(on_device, wanted)
        ran = [small.step.calls > calls[0], large.step.calls > calls[1]]
        fits = beam == 3
        assert ran == [fits and len(lengths) <= 2, fits and 2 < len(lengths) <= 8]
    assert len(engine.decoders) == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_what_cannot_be_continued_is_unfinished(device, search):
    """At once, or where a word is followed by no other."""
    translator, engine = model(3, 4.0, device), CudaGraphEngine()
    for allowed, shortest in [((), 0), ((7,), 3), ((EOS,), 2), ((5, 9, EOS), 6)]:
        forbidden = tuple(token for token in range(40) if token not in allowed)
        constraints = Constraints(BOS, EOS, 5, shortest, forbidden=forbidden)
        wanted = found(search, translator, sources([2, 4, 1]), constraints, EAGER)
        assert_same(found(search, translator, sources([2, 4, 1]), constraints, engine), wanted)
        if not {*allowed} - {EOS}:
            assert {(one.tokens, one.finished) for best in wanted for one in best} == {((), False)}


@pytest.mark.parametrize("device", DEVICES)
def test_graphs_do_not_depend_on_the_values_of_a_batch(device):
    translator, engine, ids = model(1, 6.0, device), CudaGraphEngine(), sources([2, 5, 3])
    for alpha, forbidden in [(0.0, (PAD, BOS)), (0.6, (PAD, BOS, 7, 8)), (2.0, ()), (0.6, (9,))]:
        constraints = Constraints(BOS, EOS, 12, forbidden=forbidden)
        for search in (Beam(3, best=3, alpha=alpha), Sample(count=2)):
            wanted = found(search, translator, ids, constraints, EAGER)
            assert_same(found(search, translator, ids, constraints, engine), wanted)
    assert len(engine.decoders) == 2


def test_a_broken_model_is_reported():
    translator = model(1, 1.0, "cpu")
    with torch.no_grad():
        translator.head.bias.fill_(torch.nan)
    for search in (Beam(2), Greedy(), Sample()):
        with pytest.raises(FloatingPointError, match="not numbers"):
            found(search, translator, sources([2]), Constraints(BOS, EOS, 4), CudaGraphEngine())


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize("stop", ["default", "transformers"])
def test_a_step_reads_no_value(stop, penalty, monkeypatch):
    """Fake tensors have none: an operator that needs one on the host fails."""
    monkeypatch.setattr(candidates, "_lean", candidates._lean.__wrapped__)
    beam = Beam(3, best=2, stop=stop, repetition_penalty=penalty)
    constraints = Constraints(BOS, EOS, 12, 3, forbidden=(PAD,), must_end=True, other_eos=(7,))
    with FakeTensorMode():
        selector = DeviceBeam(beam, constraints, 4, 16, 40, torch.device("cpu"))
        selector.start(beam, SearchBatch(Toy(0).open(range(4)), constraints, None, range(4)))
        for _ in range(3):
            tokens_R, rows_R = selector.select(torch.zeros(12, 40))
    assert tokens_R.shape == rows_R.shape == (12,) and tokens_R.dtype == torch.long
