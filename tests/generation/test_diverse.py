from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Diverse, Hypothesis
from regard.generation.diverse import round_robin

from .toy import BOS, EOS, AttentionState, Toy, allowed, in_batches, penalty

SEEDS = st.integers(0, 100_000)
LENGTHS = st.sampled_from(["none", "mean", "gnmt", "power"])


def plain_groups(toy, sentence, diverse, constraints, longest, prefix=()):
    """For each group all that finishes or is cut, (score, tokens, finished), best first.

    One sentence, lists and loops; a hypothesis is (log p, what it owes, tokens).
    """
    beam = diverse.beam
    alive = [[(0.0, 0.0, ())] for _ in range(diverse.groups)]
    ended, cut = [[[] for _ in alive] for _ in "ab"]

    def score(total, written):
        return total / penalty(beam.length, max(len(written), 1), beam.alpha)

    for n in range(1, longest + 1):
        taken = Counter()
        for group, hypotheses in enumerate(alive):
            candidates = []
            for total, owed, written in hypotheses:
                logprobs = toy.logprobs(sentence, written)
                candidates += [
                    (
                        total + float(logprobs[token]),
                        owed + diverse.strength * taken[token],
                        (*written, token),
                    )
                    for token in range(toy.vocabulary)
                    if allowed(written, token, constraints, prefix, beam.no_repeat)
                ]
            candidates.sort(key=lambda one: -(one[0] - one[1]))
            over = [one for one in candidates[: beam.size] if one[2][-1] == EOS]
            going = [one for one in candidates if one[2][-1] != EOS][: beam.size]
            taken.update([written[-1] for _, _, written in over + going])
            ended[group] += [(score(total, w), w[:-1], True) for total, _, w in over]
            alive[group] = going if len(ended[group]) < beam.enough else []
            if n == longest:
                cut[group] = [(score(total, w), w, False) for total, _, w in alive[group]]
    order = {"key": lambda found: -found[0]}
    return [sorted(e, **order) + sorted(c, **order) for e, c in zip(ended, cut, strict=True)]


def compared(toy, diverse, constraints, longest, prefixes):
    """Check the results of all sentences against the plain ones."""
    best, beam = diverse.beam.best, diverse.beam
    results = diverse(toy.open(range(len(longest))), constraints, prefixes)
    for sentence, found in enumerate(results):
        groups = plain_groups(
            toy, sentence, diverse, constraints, longest[sentence], prefixes[sentence]
        )
        whole = [[Hypothesis(t, 0.0, s, (), f) for s, t, f in one[:best]] for one in groups]
        expected = round_robin(whole, best, beam.sort_key)
        assert [(one.tokens, one.finished) for one in found] == [
            (one.tokens, one.finished) for one in expected
        ]
        assert [one.score for one in found] == pytest.approx(
            [one.score for one in expected], abs=1e-4
        )
        for one in found:
            written = (*one.tokens, EOS) if one.finished else one.tokens
            assert one.logprob == pytest.approx(toy.logprob(sentence, written), abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_equals_the_plain_one(data):
    toy = Toy(data.draw(SEEDS), vocabulary=data.draw(st.integers(3, 5)))
    best = data.draw(st.integers(1, 4))
    beam = Beam(
        size=data.draw(st.integers(1, 3)),
        best=best,
        length=data.draw(LENGTHS),
        alpha=data.draw(st.floats(0, 1.5)),
        no_repeat=data.draw(st.integers(0, 3)),
        early=False,
    )
    diverse = Diverse(beam, data.draw(st.integers(1, 4)), data.draw(st.floats(0, 3)))
    longest = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    prefixes = [data.draw(st.lists(st.integers(1, 2), max_size=1)) for _ in longest]
    constraints = Constraints(BOS, EOS, longest, data.draw(st.integers(0, 2)))
    compared(toy, diverse, constraints, longest, prefixes)


@pytest.mark.parametrize("seed", range(10))
def test_penalties_of_all_steps_add_up(seed):
    """Five steps of three hypotheses a group: what was owed in the first decides in the last."""
    diverse = Diverse(Beam(3, best=4, length="none", early=False), groups=3, strength=1.0)
    longest, toy = [5, 5], Toy(seed, vocabulary=5)
    compared(toy, diverse, Constraints(BOS, EOS, longest, shortest=4), longest, [(), ()])


@settings(max_examples=60, deadline=None)
@given(
    SEEDS,
    LENGTHS,
    st.sampled_from([(1, 0.0), (1, 2.5), (3, 0.0)]),
    st.sampled_from([None, 0.0, 0.4]),
    st.sampled_from(["default", "transformers", "transformers-early", "transformers-never"]),
)
def test_one_group_is_the_beam_and_so_are_many_that_do_not_mind(
    seed, length, groups, coverage, stop
):
    toy, constraints = Toy(seed, vocabulary=4), Constraints(BOS, EOS, [6, 3, 5])
    beam = Beam(3, best=3, length=length, coverage=coverage, stop=stop)
    states = [AttentionState(toy, [(sentence, ()) for sentence in range(3)], "cpu") for _ in "ab"]
    assert Diverse(beam, *groups)(states[0], constraints) == beam(states[1], constraints)


@pytest.mark.thinned
@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("coverage", [None, 0.3])
def test_the_batch_size_changes_nothing(size, coverage):
    toy, constraints = Toy(5, vocabulary=5), Constraints(BOS, EOS, 6)
    diverse = Diverse(Beam(2, best=4, coverage=coverage), groups=3)
    prefixes = [[1, 2, 3][: sentence % 4] for sentence in range(32)]
    together = in_batches(diverse, toy, 32, constraints, 32, prefixes=prefixes)
    assert in_batches(diverse, toy, 32, constraints, size, prefixes=prefixes) == together


def test_the_first_group_is_undisturbed_and_the_best_are_distinct():
    toy, constraints, beam = Toy(8, vocabulary=6), Constraints(BOS, EOS, 8), Beam(2, best=4)
    alone = beam(toy.open(range(20)), constraints)
    together = Diverse(beam, 4, 1.0)(toy.open(range(20)), constraints)
    for found, (first, *_) in zip(together, alone, strict=True):
        assert first in found
        assert len({one.tokens for one in found}) == len(found) == 4
        assert found == sorted(found, key=beam.sort_key)


def test_strength_makes_lists_more_diverse():
    """Distinct bigrams among all of a list of four, and distinct beginnings."""
    toy, constraints = Toy(9, vocabulary=8), Constraints(BOS, EOS, 9, shortest=5)

    def distinct(strength):
        diverse = Diverse(Beam(1, best=4, length="none"), 4, strength)
        found = diverse(toy.open(range(60)), constraints)
        runs = [
            [pair for one in best for pair in zip(one.tokens, one.tokens[1:], strict=False)]
            for best in found
        ]
        first = [len({one.tokens[0] for one in best}) for best in found]
        return sum(len(set(one)) for one in runs) / sum(map(len, runs)), sum(first) / len(first)

    shares, firsts = zip(*(distinct(strength) for strength in (0.1, 0.5, 2.0)), strict=True)
    assert shares[0] < shares[1] < shares[2]
    assert firsts[0] < firsts[1] < firsts[2] <= 4


def test_groups_give_in_turn():
    def named(*scores, finished=True):
        return [Hypothesis((round(-10 * s),), s, s, (s,), finished) for s in scores]

    beam = Beam(best=9)
    groups = [named(-0.1, -0.2, -0.3), named(-0.1, -0.5), named(-0.4, finished=False)]

    def given(best):
        return [one.score for one in round_robin(groups, best, beam.sort_key)]

    assert given(1) == [-0.1]
    assert given(2) == [-0.1, -0.5]
    assert given(3) == [-0.1, -0.5, -0.4]
    assert given(4) == [-0.1, -0.2, -0.5, -0.4]
    assert given(9) == [-0.1, -0.2, -0.3, -0.5, -0.4]


def test_values_that_make_no_sense_are_bad_input():
    for wrong in ({"groups": 0}, {"strength": -1.0}, {"strength": float("nan")}):
        with pytest.raises(BadInput):
            replace(Diverse(Beam()), **wrong)
    assert Diverse(Beam(length="mean")).formula == "log p / n"
    assert Diverse(Beam(coverage=0)).needs_attention and not Diverse(Beam()).needs_attention
    assert Diverse(Beam())(Toy(0).open([]), Constraints(BOS, EOS, 3)) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_device_changes_nothing():
    toy, constraints = Toy(7, vocabulary=5), Constraints(BOS, EOS, 6, must_end=True)
    diverse, pairs = Diverse(Beam(2, 4, coverage=0.2)), [(sentence, ()) for sentence in range(4)]
    states = AttentionState(toy, pairs, "cuda"), AttentionState(toy, pairs, "cpu")
    assert diverse(states[0], constraints) == diverse(states[1], constraints)
