import numpy as np
import pytest

from regard.ground.errors import BadInput
from regard.search import Beam
from regard.search.rules import LENGTHS, uncovered


@pytest.mark.parametrize(
    ("beam", "formula"),
    [
        (Beam(), "log p / ((5+n)/6)^0.6"),
        (Beam(length="gnmt", alpha=1), "log p / ((5+n)/6)^1"),
        (Beam(length="none"), "log p"),
        (Beam(length="mean"), "log p / n"),
        (Beam(length="power", alpha=0.75), "log p / n^0.75"),
        (Beam(length="mean", coverage=0.2), "log p / n + 0.2 Σ_i log min(Σ_j a_ij, 1)"),
    ],
)
def test_the_formula_in_use_can_be_printed(beam, formula):
    assert beam.formula == formula


@pytest.mark.parametrize(
    ("length", "divisor"), [("none", 1), ("mean", 7), ("gnmt", 2**0.5), ("power", 7**0.5)]
)
def test_divisors_for_seven_tokens(length, divisor):
    assert LENGTHS[length][0](7, 0.5) == pytest.approx(divisor)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0, 2.0])
def test_no_divisor_falls_as_hypotheses_grow(length, alpha):
    n = np.arange(1, 200)
    assert (np.diff(LENGTHS[length][0](n, alpha) * np.ones(199)) >= 0).all()


def test_uncovered_positions_cost_and_absent_ones_do_not():
    assert uncovered(np.array([0.5, 3.0, 1.0, np.nan])) == pytest.approx(np.log(0.5))
    assert uncovered(np.array([0.0, 1.0])) == -np.inf


@pytest.mark.parametrize(
    "options",
    [
        {"size": 0},
        {"best": 0},
        {"best": 3, "finished": 2},
        {"length": "long"},
        {"alpha": -0.1},
        {"coverage": -1.0},
        {"no_repeat": -1},
    ],
)
def test_a_beam_that_makes_no_sense_is_bad_input(options):
    with pytest.raises(BadInput):
        Beam(**options)
