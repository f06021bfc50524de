"""Schedules: the warm-up is a straight line, and what follows is the formula."""

import math

import pytest

from regard.training.optim.schedule import (
    SCHEDULES,
    constant,
    cosine,
    inverse_sqrt,
    linear,
    slanted,
)
from regard.training.recipe.tables import OptimiserConfig


@pytest.mark.parametrize("build", SCHEDULES.values())
def test_warm_up_is_linear_and_ends_at_the_peak(build):
    factor = build(warmup=10, steps=100)
    lowest = {slanted: 1 / 32}.get(build, 0.0)
    line = [lowest + share * (1 - lowest) for share in (0.1, 0.5)]
    assert [factor(step) for step in (1, 5)] == pytest.approx(line)
    assert factor(10) == 1.0


@pytest.mark.parametrize("build", SCHEDULES.values())
def test_without_warm_up_it_starts_at_the_peak(build):
    assert build(warmup=0, steps=100)(1) == pytest.approx(1.0, abs=0.02)


def test_inverse_square_root():
    assert inverse_sqrt(100, 1000)(400) == pytest.approx(math.sqrt(100 / 400))


def test_linear_and_cosine_end_at_zero():
    assert linear(10, 110)(60) == 0.5
    assert linear(10, 110)(110) == 0.0
    assert cosine(10, 110)(60) == pytest.approx(0.5)
    assert cosine(10, 110)(110) == pytest.approx(0.0)


def test_cosine_is_no_line():
    factor = cosine(10, 110)
    wanted = [0.5 * (1 + math.cos(math.pi * share)) for share in (0.1, 0.25, 0.75, 0.9)]
    assert [factor(step) for step in (20, 35, 85, 100)] == pytest.approx(wanted)
    assert factor(35) == pytest.approx(0.853553, abs=1e-6)


def test_constant():
    assert constant(3, 100)(99) == 1.0


def test_slanted_triangles():
    """Howard & Ruder's equation 3 with its symbols: T, cut_frac, ratio."""
    steps, cut_frac, ratio = 200, 0.1, 32
    cut = int(steps * cut_frac)
    factor = slanted(cut, steps)
    for step in range(1, steps + 1):
        share = step / cut if step < cut else 1 - (step - cut) / (cut * (1 / cut_frac - 1))
        assert factor(step) == pytest.approx((1 + share * (ratio - 1)) / ratio)
    assert factor(cut) == 1 and factor(steps) == pytest.approx(1 / 32)
    assert OptimiserConfig(rate=0.1, warmup=cut_frac).warmup_steps(steps) == cut
    assert OptimiserConfig(rate=0.1, warmup=30).warmup_steps(steps) == 30
    assert slanted(0, 10)(1) <= 1 and slanted(5, 10)(99) == 1 / 32
