"""A race decides what a beam decides: the same hypotheses, with everything on the device."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from naive import SEED
from regard.ground.batch import pack
from regard.models.facts import change
from regard.models.papers.transformer import BASE, Transformer
from regard.models.room import House
from regard.search.beam import Beam
from regard.search.constraints import Constraints
from regard.search.greedy import Greedy

FACTS = change(BASE, width=16, heads=2, inner=12, depth=2, vocab=40)
BOS, EOS, PAD = 1, 2, 0
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def model(seed: int, sharp: float, device: str) -> Transformer:
    """A random translator whose distributions are ``sharp``, so that it ends now and then."""
    torch.manual_seed(seed)
    one = Transformer(change(FACTS, tie="none", head_bias=True)).eval()
    with torch.no_grad():
        one.head.weight *= sharp
        one.head.bias[EOS] += 1.0
    return one.to(device)


def sources(draw_lengths: list[int]) -> list[list[int]]:
    return [[3 + (7 * n + i) % 37 for i in range(n)] for n in draw_lengths]


def found(search, translator, ids, constraints, house):
    packed = pack(ids).to(next(translator.parameters()).device)
    with torch.inference_mode():
        state = translator.open(packed.tokens_T, packed.layout, 16, house=house)
        return search(state, constraints)


def assert_same(raced, wanted):
    assert len(raced) == len(wanted)
    for ours, theirs in zip(raced, wanted, strict=True):
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
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("search", SEARCHES, ids=str)
@settings(max_examples=12, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=9),
    longest=st.integers(1, 12),
    sharp=st.sampled_from([1.0, 4.0, 12.0]),
    must_end=st.booleans(),
    renormalise=st.booleans(),
    seed=SEED,
)
def test_a_race_finds_what_the_search_finds(
    device, search, lengths, longest, sharp, must_end, renormalise, seed
):
    translator = model(seed, sharp, device)
    ids = sources(lengths)
    constraints = Constraints(
        BOS,
        EOS,
        [min(longest, n + 3) for n in lengths],
        forbidden=(PAD, BOS),
        must_end=must_end,
        renormalise=renormalise,
    )
    wanted = found(search, translator, ids, constraints, None)
    assert_same(found(search, translator, ids, constraints, House()), wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_a_room_serves_batch_after_batch(device):
    translator, house = model(1, 6.0, device), House()
    for number in range(6):
        ids = sources([1 + (number + i) % 5 for i in range(3 + number)])
        constraints = Constraints(BOS, EOS, 12, forbidden=(PAD, BOS))
        wanted = found(Beam(3, best=2), translator, ids, constraints, None)
        assert_same(found(Beam(3, best=2), translator, ids, constraints, house), wanted)
    assert len(house.rooms) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_a_room_belongs_to_the_module_it_was_made_for(device):
    house, constraints = House(), Constraints(BOS, EOS, 12, forbidden=(PAD, BOS))
    first, second = model(1, 6.0, device), model(2, 6.0, device)
    for _ in range(2):
        for translator in (first, second):
            for _ in range(4):  # more often than it takes to capture
                raced = found(Beam(3, best=2), translator, sources([2, 4]), constraints, house)
            assert_same(
                raced, found(Beam(3, best=2), translator, sources([2, 4]), constraints, None)
            )
    assert len(house.rooms) == 2


def test_a_room_belongs_to_the_precision_it_was_made_for():
    house, constraints, translator = House(), Constraints(BOS, EOS, 12), model(1, 6.0, "cpu")
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        found(Beam(3), translator.to(dtype), sources([2, 4]), constraints, house)
    assert [len(house.rooms), *{room.model for room in house.rooms.values()}] == [2, translator]


def test_what_only_the_host_does_is_done_there():
    translator, house = model(1, 6.0, "cpu"), House()
    constraints = Constraints(BOS, EOS, 8)
    found(Beam(2, no_repeat=2), translator, sources([2, 3]), constraints, house)
    found(Beam(2), translator, sources([2]), Constraints(BOS, EOS, 8, shortest=3), house)
    assert not house.rooms


def test_a_house_keeps_so_many_rooms():
    translator, house = model(1, 6.0, "cpu"), House()
    for size in range(1, 20):
        found(Beam(size), translator, sources([2]), Constraints(BOS, EOS, 4), house)
    assert len(house.rooms) == 16


def test_a_broken_model_is_said():
    translator = model(1, 1.0, "cpu")
    with torch.no_grad():
        translator.head.bias.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="not numbers"):
        found(Beam(2), translator, sources([2]), Constraints(BOS, EOS, 4), House())
