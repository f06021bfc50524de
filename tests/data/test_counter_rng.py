"""Draws by place look random, and are the same on every machine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.counter_rng import below, binomial, bits, streams, uniform

MANY = np.arange(40_000)


def test_draws_do_not_depend_on_the_machine():
    stream = streams((1, 2), np.arange(2))
    assert stream.tolist() == [984_952_577_801_131_692, 1_041_870_869_260_409_011]
    assert bits(stream, 3).tolist() == [4_399_719_087_604_937_980, 2_083_285_021_716_189_400]
    assert below(1_000, stream, np.array([4, 5])).tolist() == [494, 462]


@given(st.integers(0, 2**70), st.integers(0, 10**9), st.integers(0, 10**6))
def test_a_draw_does_not_depend_on_its_neighbours(seed, number, counter):
    numbers = np.array([number + 1, number, 7])
    together = bits(streams((seed, 0), numbers), counter)
    assert bits(streams((seed, 0), np.array([number])), np.array([counter]))[0] == together[1]


@pytest.mark.parametrize("of", ["keys", "numbers", "counters"])
def test_draws_are_even_and_unrelated(of):
    if of == "keys":
        drawn = np.concatenate([uniform(streams((0, e), np.arange(1)), 0) for e in range(5_000)])
    elif of == "numbers":
        drawn = uniform(streams((3, 1), MANY), 5)
    else:
        drawn = uniform(streams((3, 1), np.arange(1)), MANY)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert len(np.unique(drawn)) == len(drawn)
    counts = np.histogram(drawn, 100, (0, 1))[0]
    expected = len(drawn) / 100
    assert ((counts - expected) ** 2 / expected).sum() < 149  # 99 degrees of freedom, p = 0.001
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4 / len(drawn) ** 0.5


def test_whole_numbers_lie_below_their_limit():
    stream = streams((0,), MANY)
    assert set(below(3, stream, 0).tolist()) == {0, 1, 2}
    assert not below(np.zeros(len(MANY), np.int64), stream, 0).any()


@pytest.mark.parametrize("tosses", [0, 1, 5, 64, 65, 200])
def test_heads_are_binomial(tosses):
    count = binomial(np.full(len(MANY), tosses), streams((tosses,), MANY))
    assert count.min(initial=0) >= 0 and count.max() <= tosses
    assert abs(count.mean() - tosses / 2) <= 4 * (tosses / 4 / len(MANY)) ** 0.5
    assert count.var() == pytest.approx(tosses / 4, rel=0.04)


def test_tosses_of_different_number_share_a_stream():
    stream = streams((9,), np.arange(6))
    few = np.array([0, 3, 64, 70, 128, 300])
    alone = [int(binomial(few[i : i + 1], stream[i : i + 1])[0]) for i in range(6)]
    assert binomial(few, stream).tolist() == alone
