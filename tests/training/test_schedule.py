"""Schedules: the warm-up is a straight line, and what follows is the formula."""

import math

import pytest

from regard.training.optim.schedule import SCHEDULES, schedule


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warm_up_is_linear_and_ends_at_the_peak(kind):
    factor = schedule(kind, warmup=10, steps=100)
    assert [factor(step) for step in (1, 5)] == [0.1, 0.5]
    assert factor(10) == 1.0


@pytest.mark.parametrize("kind", SCHEDULES)
def test_without_warm_up_it_starts_at_the_peak(kind):
    assert schedule(kind, warmup=0, steps=100)(1) == pytest.approx(1.0, abs=0.02)


def test_inverse_square_root():
    assert schedule("inverse-sqrt", 100, 1000)(400) == pytest.approx(math.sqrt(100 / 400))


def test_linear_and_cosine_end_at_zero():
    assert schedule("linear", 10, 110)(60) == 0.5
    assert schedule("linear", 10, 110)(110) == 0.0
    assert schedule("cosine", 10, 110)(60) == pytest.approx(0.5)
    assert schedule("cosine", 10, 110)(110) == pytest.approx(0.0)


def test_cosine_is_no_line():
    factor = schedule("cosine", 10, 110)
    wanted = [0.5 * (1 + math.cos(math.pi * share)) for share in (0.1, 0.25, 0.75, 0.9)]
    assert [factor(step) for step in (20, 35, 85, 100)] == pytest.approx(wanted)
    assert factor(35) == pytest.approx(0.853553, abs=1e-6)


def test_constant():
    assert schedule("constant", 3, 100)(99) == 1.0
