import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Greedy

from .toy import BOS, EOS, AttentionState, Toy, Tree, exhaustive, in_batches, plain_beam, small_tree

LENGTHS = st.sampled_from(["none", "mean", "gnmt", "power"])
SEEDS = st.integers(0, 100_000)


def close(found, expected):
    """The same hypotheses in the same order, with the same scores."""
    assert [(one.tokens, one.finished) for one in found] == [tuple(e[1:]) for e in expected]
    assert [one.score for one in found] == pytest.approx([e[0] for e in expected], abs=1e-4)


def test_greedy_search_loses_to_a_beam_of_two_on_a_small_tree():
    constraints = Constraints(BOS, EOS, 3)
    ((greedy,),) = Greedy()(small_tree().open([0]), constraints)
    ((beam,),) = Beam(size=2, length="none")(small_tree().open([0]), constraints)
    assert greedy.tokens == (1,) and math.exp(greedy.logprob) == pytest.approx(0.20)
    assert beam.tokens == (2,) and math.exp(beam.logprob) == pytest.approx(0.36)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.floats(0, 2), st.integers(2, 4), st.integers(1, 4), st.integers(1, 5))
def test_a_beam_of_full_width_is_exhaustive(seed, length, alpha, vocabulary, longest, best):
    toy = Toy(seed, vocabulary)
    beam = Beam(vocabulary**longest, best, length, alpha)
    results = beam(toy.open([0, 1, 2]), Constraints(BOS, EOS, longest))
    for sentence, found in enumerate(results):
        expected = exhaustive(toy, sentence, longest, length, alpha)[:best]
        ended = [one for one in found if one.finished]
        close(ended, [(*pair, True) for pair in expected])
        for one in ended:
            assert one.logprob == pytest.approx(toy.logprob(sentence, (*one.tokens, EOS)), abs=1e-5)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_beam_equals_the_plain_one(data):
    toy = Toy(data.draw(SEEDS), vocabulary=data.draw(st.integers(2, 5)))
    size, best = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    beam = Beam(
        size=size,
        best=best,
        length=data.draw(LENGTHS),
        alpha=data.draw(st.floats(0, 1.5)),
        coverage=data.draw(st.sampled_from([0.0, 0.4])),
        finished=data.draw(st.none() | st.integers(best, best + 3)),
        no_repeat=data.draw(st.integers(0, 3)),
        early=False,
    )
    longest = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    words = st.integers(1, toy.vocabulary - 1)
    prefixes = [data.draw(st.lists(words, max_size=limit)) for limit in longest]
    shortest, forbidden = data.draw(st.integers(0, 4)), data.draw(st.sampled_from([(), (1,)]))
    constraints = Constraints(BOS, EOS, longest, shortest, forbidden)
    state = AttentionState(toy, [(sentence, ()) for sentence in range(len(longest))], "cpu")
    for sentence, found in enumerate(beam(state, constraints, prefixes)):
        limit, prefix = longest[sentence], prefixes[sentence]
        close(found, plain_beam(toy, sentence, beam, constraints, limit, prefix))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(2, 5), st.integers(1, 6))
def test_a_beam_of_one_without_length_rule_is_greedy(seed, vocabulary, longest):
    toy, constraints = Toy(seed, vocabulary), Constraints(BOS, EOS, longest)
    beam = Beam(size=1, length="none")
    assert beam(toy.open(range(4)), constraints) == Greedy()(toy.open(range(4)), constraints)


@settings(max_examples=80, deadline=None)
@given(
    SEEDS,
    LENGTHS,
    st.floats(0, 2),
    st.sampled_from([0.0, 0.5]),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([None, 100]),
)
def test_stopping_early_never_changes_the_answer(
    seed, length, alpha, coverage, size, best, finished
):
    toy, constraints = Toy(seed, vocabulary=3), Constraints(BOS, EOS, [4, 8, 6])
    early = Beam(size, best, length, alpha, coverage, finished)
    patient = Beam(size, best, length, alpha, coverage, finished, early=False)
    pairs = [(sentence, ()) for sentence in range(3)]
    states = AttentionState(toy, pairs, "cpu"), AttentionState(toy, pairs, "cpu")
    assert early(states[0], constraints) == patient(states[1], constraints)
    assert sum(states[0].entered) <= sum(states[1].entered)


@pytest.mark.parametrize("longest", [8, 100])
def test_a_reward_for_short_ones_does_not_end_a_search_early(longest):
    """As transformers 5 has it with early_stopping="never" and a length_penalty below 0.

    Two hypotheses are finished: (log 0.3) / 1 and (log 0.2) / 2^-0.3. That of 1 1 can still be
    better than the second if it ends soon, though not if it had the longest length.
    """
    tree = {(): (0.3, 0.5, 0.2), (1,): (0.4, 0.598, 0.002), (1, 1): (0.99, 0.005, 0.005)}
    tree[2,] = (0.001, 0.001, 0.998)
    toy, constraints = Tree(0, 3, {}, tree), Constraints(BOS, EOS, longest)
    beam = Beam(2, 2, "power", -0.3, stop="transformers-never")
    ((best, second),) = beam(toy.open([0]), constraints)
    assert (best.tokens, second.tokens) == ((), (1, 1))
    assert best.score == pytest.approx(math.log(0.3))
    assert second.score == pytest.approx(math.log(0.5 * 0.598 * 0.99) * 3**0.3, abs=1e-6)
    assert second.score > math.log(0.5 * 0.4) * 2**0.3


def test_stopping_early_saves_steps():
    toy, constraints = Toy(1, vocabulary=4), Constraints(BOS, EOS, 30)
    states = toy.open(range(8)), toy.open(range(8))
    Beam(4, length="none", finished=100)(states[0], constraints)
    Beam(4, length="none", finished=100, early=False)(states[1], constraints)
    assert sum(states[0].entered) < sum(states[1].entered) / 2


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_the_best_are_sorted_and_distinct_and_obey(seed, length, size, best, no_repeat):
    toy, constraints = Toy(seed, vocabulary=4), Constraints(BOS, EOS, 6, shortest=2)
    prefixes = [[1, 3], [], [2, 2, 1]]
    beam = Beam(size, best, length, no_repeat=no_repeat)
    for found, prefix in zip(
        beam(toy.open(range(3)), constraints, prefixes), prefixes, strict=True
    ):
        assert 1 <= len(found) <= best
        assert found == sorted(found, key=lambda one: (not one.finished, -one.score))
        assert len({(one.tokens, one.finished) for one in found}) == len(found)
        for one in found:
            shared = min(len(prefix), len(one.tokens))
            assert list(one.tokens[:shared]) == prefix[:shared]
            assert len(one.logprobs) == len(one.tokens) + one.finished
            if one.finished:
                assert len(one.tokens) >= max(len(prefix), 1)
            free = one.tokens[max(len(prefix) - no_repeat + 1, 0) :] if no_repeat else ()
            runs = [free[i : i + no_repeat] for i in range(len(free) - no_repeat + 1)]
            assert not no_repeat or len(set(runs)) == len(runs)


def test_a_sentence_is_over_at_enough_finished_hypotheses():
    toy, constraints = Toy(2, vocabulary=3), Constraints(BOS, EOS, 12)
    steps = []
    for finished in (1, 3, 100):
        state = toy.open([0])
        Beam(3, 1, finished=finished, early=False)(state, constraints)
        steps.append(len(state.entered))
    assert steps[0] < steps[1] < steps[2] == 12


def test_unfinished_hypotheses_only_fill_places_left():
    toy, constraints = Toy(0, vocabulary=3), Constraints(BOS, EOS, 2)
    ((*found,),) = Beam(size=9, best=9, length="none")(toy.open([0]), constraints)
    assert [one.finished for one in found] == [True] * 3 + [False] * 4
    ((*found,),) = Beam(size=9, best=3, length="none")(toy.open([0]), constraints)
    assert all(one.finished for one in found)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("coverage", [0.0, 0.3])
def test_the_batch_size_changes_nothing(size, coverage):
    toy = Toy(5, vocabulary=4)
    beam, constraints = Beam(4, best=3, coverage=coverage), Constraints(BOS, EOS, 6)
    prefixes = [[1, 2, 3][: sentence % 4] for sentence in range(64)]
    together = in_batches(beam, toy, 64, constraints, 64, prefixes=prefixes)
    assert in_batches(beam, toy, 64, constraints, size, prefixes=prefixes) == together


def test_rows_start_single_and_leave_with_their_sentence():
    toy, constraints = Toy(4, vocabulary=4), Constraints(BOS, EOS, 12)
    alone = np.zeros((16, 12), dtype=int)
    for sentence in range(16):
        state = toy.open([sentence])
        Beam(3)(state, constraints)
        alone[sentence, : len(state.entered)] = state.entered
    state = toy.open(range(16))
    Beam(3)(state, constraints)
    assert state.entered[0] == 16
    assert len(set(state.entered)) > 3
    assert state.entered == [rows for rows in alone.sum(0) if rows]


def test_ties_go_to_the_earlier_hypothesis_and_the_lower_token():
    class Even(Toy):
        def logprobs(self, sentence, prefix):
            return np.full(4, math.log(0.25), dtype=np.float32)

    beam, constraints = Beam(size=4, best=4, length="none"), Constraints(BOS, EOS, 3, shortest=3)
    for count in (1, 5):
        for found in beam(Even(0).open(range(count)), constraints):
            assert [one.tokens for one in found] == [(1, 1), (1, 1, 1), (1, 1, 2), (1, 1, 3)]


def test_a_prefix_counts_in_the_score():
    toy, constraints = Toy(6, vocabulary=4), Constraints(BOS, EOS, 6)
    ((found,),) = Beam(4)(toy.open([0]), constraints, [[3, 2]])
    assert found.tokens[:2] == (3, 2)
    assert found.logprob == pytest.approx(toy.logprob(0, (*found.tokens, EOS)), abs=1e-5)
    n = len(found.tokens) + 1
    assert found.score == pytest.approx(found.logprob / ((5 + n) / 6) ** 0.6)


def test_coverage_needs_a_state_that_says_where_it_looked():
    with pytest.raises(BadInput, match="attention"):
        Beam(coverage=0.2)(Toy(0).open([0]), Constraints(BOS, EOS, 3))


def test_nothing_allowed_leaves_an_empty_unfinished_hypothesis():
    constraints = Constraints(BOS, EOS, 3, forbidden=(0, 1, 2, 3))
    ((found,),) = Beam(length="mean")(Toy(0).open([0]), constraints)
    assert found.tokens == () and not found.finished and found.score == 0


def test_no_sentences_no_steps():
    state = Toy(0).open([])
    assert Beam()(state, Constraints(BOS, EOS, 3)) == []
    assert state.entered == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_device_changes_nothing():
    toy, constraints = Toy(7, vocabulary=5), Constraints(BOS, EOS, 6, shortest=2, forbidden=(3,))
    beam, prefixes = Beam(4, best=3, no_repeat=2, coverage=0.2), [[1], [], [2, 1], []]
    pairs = [(sentence, ()) for sentence in range(4)]
    states = AttentionState(toy, pairs, "cuda"), AttentionState(toy, pairs, "cpu")
    assert beam(states[0], constraints, prefixes) == beam(states[1], constraints, prefixes)
