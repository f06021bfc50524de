import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Hypothesis, rescore
from regard.generation.beam_rules import LENGTHS, coverage_term, logprob_to_beat

from .toy import BOS, EOS, AttentionState, Toy


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


@pytest.mark.parametrize("length", LENGTHS)
def test_no_length_allowed_beats_what_is_to_be_beaten(length):
    bar, longest = -2.0, 9
    needed = logprob_to_beat(bar, longest, length, 0.7)
    scores = needed / (LENGTHS[length][0](np.arange(1, longest + 1), 0.7) * np.ones(longest))
    assert scores.max() == pytest.approx(bar)


@pytest.mark.parametrize("length", LENGTHS)
def test_stored_hypotheses_are_ranked_as_if_searched_under_the_rule(length):
    """All there are come back from a beam that wide, so only the ranking is left to differ."""
    toy, constraints = Toy(3, vocabulary=3), Constraints(BOS, EOS, 4)
    stored = Beam(100, best=100, length="none")(toy.open(range(3)), constraints)
    ranked = Beam(100, best=100, length=length, alpha=1.3)(toy.open(range(3)), constraints)
    assert [rescore(found, length, 1.3) for found in stored] == ranked


def test_rescoring_keeps_the_unfinished_last_and_equals_in_order():
    ended = Hypothesis((1,), -4.0, 0.0, (-2.0, -2.0), finished=True)
    longer = Hypothesis((1, 2, 3), -4.0, 0.0, (-1.0,) * 4, finished=True)
    open_ = Hypothesis((1, 2), -0.2, 0.0, (-0.1, -0.1), finished=False)
    assert [one.tokens for one in rescore([open_, ended, longer], "none", 0)] == [
        (1,),
        (1, 2, 3),
        (1, 2),
    ]
    assert [one.score for one in rescore([open_, ended, longer], "mean", 0)] == [-1, -2, -0.1]
    assert rescore([], "mean", 1) == []
    with pytest.raises(BadInput):
        rescore([ended], "long", 1)


def test_uncovered_positions_cost_and_absent_ones_do_not():
    assert coverage_term(np.array([0.5, 3.0, 1.0, np.nan])) == pytest.approx(np.log(0.5))
    never_looked_at = coverage_term(np.array([0.0, 1.0]))
    assert np.isfinite(never_looked_at) and never_looked_at < coverage_term(np.array([1e-30]))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("coverage", [0.0, 0.7])
def test_stored_coverage_ranks_as_if_searched_with_it(length, coverage):
    toy, constraints = Toy(3, vocabulary=3), Constraints(BOS, EOS, 4)
    states = [AttentionState(toy, [(sentence, ()) for sentence in range(3)], "cpu") for _ in "ab"]
    stored = Beam(100, best=100, length="none", coverage=0.0)(states[0], constraints)
    ranked = Beam(100, best=100, length=length, alpha=1.3, coverage=coverage)(
        states[1], constraints
    )
    assert [rescore(found, length, 1.3, coverage) for found in stored] == ranked
    assert all(one.score == one.logprob and one.coverage <= 0 for one in stored[1])
    assert any(one.coverage < 0 for one in stored[1])


def test_coverage_that_was_not_stored_cannot_rank():
    toy, constraints = Toy(3), Constraints(BOS, EOS, 4)
    ((found,),) = Beam()(toy.open([0]), constraints)
    assert found.coverage is None
    assert rescore([found], "mean", 1)
    with pytest.raises(BadInput, match="with a coverage term"):
        rescore([found], "mean", 1, coverage=0.1)


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
