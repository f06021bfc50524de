import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Exact, Greedy, Sample
from regard.generation.constraints import Repetition, next_of_repeats
from regard.generation.step import SearchBatch

from .toy import BOS, EOS, Toy


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(1, 3), max_size=8), st.integers(1, 4))
def test_a_token_is_a_repeat_when_it_completes_a_run_seen_before(tokens, size):
    runs = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    tail = tokens[len(tokens) - size + 1 :]
    expected = {t for t in range(5) if len(tail) == size - 1 and (*tail, t) in runs}
    following_RK, repeats_RK = next_of_repeats(torch.tensor([tokens], dtype=torch.long), size)
    assert set(following_RK[repeats_RK].tolist()) == expected
    padded_RL = torch.tensor([[-1, -1, *tokens]])
    following_RK, repeats_RK = next_of_repeats(padded_RL, size)
    assert set(following_RK[repeats_RK].tolist()) == expected


def restricted(
    constraints: Constraints, prefixes: list[list[int]] | None = None, written: int = 0
) -> list:
    """What two rows, after ``written`` tokens 1, may write."""
    batch = SearchBatch(Toy(0).open([0, 1]), constraints, prefixes, [0, 1])
    rules = batch.rules(Repetition())
    logprobs_RV = rules.logprobs(
        torch.full((2, 4), -1.0), batch.state.normaliser, torch.arange(2), written
    )
    return [row.isfinite().nonzero()[:, 0].tolist() for row in logprobs_RV]


def test_forbidden_tokens_never_come():
    assert restricted(Constraints(BOS, EOS, 9, forbidden=(1, 3))) == [[0, 2]] * 2


def test_the_end_may_not_come_before_token_number_shortest():
    assert restricted(Constraints(BOS, EOS, 9, shortest=3), written=1) == [[1, 2, 3]] * 2
    assert restricted(Constraints(BOS, EOS, 9, shortest=3), written=2) == [[0, 1, 2, 3]] * 2
    each = Constraints(BOS, EOS, 9, shortest=[3, 4])
    assert restricted(each, written=2) == [[0, 1, 2, 3], [1, 2, 3]]


def test_prefixes_of_different_lengths_overrule_what_is_forbidden():
    constraints, prefixes = Constraints(BOS, EOS, 9, forbidden=(3,)), [[1, 3], [1]]
    assert restricted(constraints, prefixes) == [[1], [1]]
    assert restricted(constraints, prefixes, written=1) == [[3], [0, 1, 2]]
    assert restricted(constraints, prefixes, written=2) == [[0, 1, 2]] * 2


def test_what_must_end_ends_at_its_limit_at_no_cost():
    constraints = Constraints(BOS, EOS, [3, 4], shortest=9, forbidden=(1,), must_end=True)
    assert restricted(constraints, written=1) == [[2, 3]] * 2
    assert restricted(constraints, written=2) == [[0], [2, 3]]
    greedy, sampled, beamed, proven = (
        search(Toy(0).open([0, 1]), constraints) for search in (Greedy(), Sample(), Beam(), Exact())
    )
    for found in (greedy, sampled, beamed, proven):
        for (one,), longest in zip(found, (3, 4), strict=True):
            assert one.finished and len(one.tokens) == longest - 1
            assert one.logprobs[-1] == 0 and sum(one.logprobs) == pytest.approx(one.logprob)


def test_limits_can_be_repeated():
    constraints = Constraints([7, 8], EOS, [3, 4], shortest=2, must_end=True).repeated(2, 3)
    assert constraints == Constraints([7] * 3 + [8] * 3, EOS, [3] * 3 + [4] * 3, 2, must_end=True)


@pytest.mark.parametrize(
    ("constraints", "prefixes"),
    [
        (Constraints(BOS, EOS, 0), None),
        (Constraints(BOS, EOS, [3]), None),
        (Constraints([BOS] * 3, EOS, 3), None),
        (Constraints(BOS, EOS, 3), [[1]]),
        (Constraints(BOS, EOS, [3, 1]), [[1, 1], [1, 1]]),
        (Constraints(BOS, EOS, 3), [[1], [EOS]]),
        (Constraints(BOS, EOS, 2, must_end=True), [[1], [1, 1]]),
    ],
)
def test_limits_that_do_not_fit_the_sentences_are_errors(constraints, prefixes):
    with pytest.raises((ValueError, BadInput)):
        Greedy()(Toy(0).open([0, 1]), constraints, prefixes)
