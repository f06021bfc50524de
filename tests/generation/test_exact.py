import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, Exact, Hypothesis, rescore
from regard.generation.exact import search_errors

from .toy import BOS, EOS, Toy, allowed, every, exhaustive, in_batches, penalty

LENGTHS = st.sampled_from(["none", "mean", "gnmt", "power"])
SEEDS = st.integers(0, 100_000)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.floats(0, 2), st.integers(2, 4), st.integers(1, 5))
def test_it_finds_what_enumeration_finds(seed, length, alpha, vocabulary, longest):
    toy, exact = Toy(seed, vocabulary), Exact(length, alpha)
    for sentence, (one,) in enumerate(exact(toy.open(range(3)), Constraints(BOS, EOS, longest))):
        score, tokens = exhaustive(toy, sentence, longest, length, alpha)[0]
        assert (one.tokens, one.finished) == (tokens, True)
        assert one.score == pytest.approx(score, abs=1e-4)
        assert one.logprob == pytest.approx(toy.logprob(sentence, (*tokens, EOS)), abs=1e-5)
        assert len(one.logprobs) == len(tokens) + 1


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_limits_prefixes_and_no_repeat_are_obeyed(data):
    toy, length = Toy(data.draw(SEEDS), vocabulary=4), data.draw(LENGTHS)
    no_repeat = data.draw(st.integers(0, 3))
    longest = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    prefixes = [data.draw(st.lists(st.integers(1, 3), max_size=limit)) for limit in longest]
    shortest, forbidden = data.draw(st.integers(0, 4)), data.draw(st.sampled_from([(), (1,)]))
    constraints = Constraints(BOS, EOS, longest, shortest, forbidden)
    results = Exact(length, 0.6, no_repeat)(toy.open(range(len(longest))), constraints, prefixes)
    for sentence, found in enumerate(results):
        scores = {
            all_[:-1]: toy.logprob(sentence, all_) / penalty(length, len(all_), 0.6)
            for all_ in every(toy.vocabulary, longest[sentence])
            if all(
                allowed(all_[:at], token, constraints, prefixes[sentence], no_repeat)
                for at, token in enumerate(all_)
            )
        }
        assert bool(found) == bool(scores)
        if found:
            assert found[0].tokens == max(scores, key=scores.__getitem__)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.integers(1, 3))
def test_what_is_known_saves_work_and_changes_nothing(seed, length, size):
    toy, constraints, ids = Toy(seed, vocabulary=4), Constraints(BOS, EOS, 5), [7, 3, 5]
    beam = Beam(size, length="none")(toy.open(range(3)), constraints)
    known = {one: found[0] for one, found in zip(ids, beam, strict=True)}
    states = toy.open(range(3)), toy.open(range(3))
    without = Exact(length)(states[0], constraints)
    informed = Exact(length, known=known)(states[1], constraints, None, ids)
    assert [one.tokens for (one,) in informed] == [one.tokens for (one,) in without]
    for (one,), (other,) in zip(informed, without, strict=True):
        assert one.score == pytest.approx(other.score)
    assert sum(states[1].entered) <= sum(states[0].entered)


@settings(max_examples=60, deadline=None)
@given(SEEDS, LENGTHS, st.integers(1, 40))
def test_it_answers_exactly_or_not_at_all(seed, length, max_active):
    toy, constraints = Toy(seed, vocabulary=4), Constraints(BOS, EOS, 5)
    state = toy.open(range(3))
    narrow = Exact(length, max_active=max_active)(state, constraints)
    wide = Exact(length)(toy.open(range(3)), constraints)
    assert all(one in ([], other) for one, other in zip(narrow, wide, strict=True))
    assert max(state.entered) <= 3 * max_active


def test_it_gives_up_on_what_is_too_wide_and_on_nothing_else():
    class Sentences(Toy):
        def logprobs(self, sentence, prefix):
            chances = [0.01, 0.33, 0.33, 0.33] if sentence else [0.97, 0.01, 0.01, 0.01]
            return np.log(np.array(chances, dtype=np.float32))

    results = Exact(max_active=8)(Sentences(0).open([0, 1]), Constraints(BOS, EOS, 6))
    assert [len(found) for found in results] == [1, 0]
    assert results[0][0].tokens == ()


def test_a_tight_bound_enters_few_prefixes():
    toy, constraints = Toy(3, vocabulary=8), Constraints(BOS, EOS, 12)
    state = toy.open([0])
    ((found,),) = Exact()(state, constraints)
    assert sum(state.entered) < 400
    ((beam,),) = Beam(2_000, length="none")(toy.open([0]), constraints)
    assert found.tokens == beam.tokens


def test_nothing_that_finishes_is_no_answer():
    assert Exact()(Toy(0).open([0]), Constraints(BOS, EOS, 3, forbidden=(EOS,))) == [[]]
    unfinished = Hypothesis((1, 2, 3), -0.1, -0.1, (-0.1, 0.0, 0.0), finished=False)
    exact = Exact(known={0: unfinished})
    assert exact(Toy(0).open([0]), Constraints(BOS, EOS, 3))[0][0].finished
    assert Exact()(Toy(0).open([]), Constraints(BOS, EOS, 3)) == []


@pytest.mark.parametrize("size", [1, 7])
def test_the_batch_size_changes_nothing(size):
    toy, constraints = Toy(5, vocabulary=4), Constraints(BOS, EOS, 6)
    exact = Exact("gnmt", max_active=4)
    together = in_batches(exact, toy, 32, constraints, 32)
    assert {len(found) for found in together} == {0, 1}
    assert in_batches(exact, toy, 32, constraints, size) == together


def test_search_errors_are_counted_where_the_optimum_is_proven():
    toy, constraints = Toy(11, vocabulary=5), Constraints(BOS, EOS, 6)
    beam = [found[0] for found in Beam(1, length="none")(toy.open(range(40)), constraints)]
    optima = Exact(known=dict(enumerate(beam)), max_active=20)(toy.open(range(40)), constraints)
    errors = search_errors(beam, optima)
    pairs = [(one, best[0]) for one, best in zip(beam, optima, strict=True) if best]
    wrong = [(one, best) for one, best in pairs if not one.finished or best.score > one.score]
    assert 0 < errors.missed == len(wrong) < errors.proven == len(pairs)
    gaps = [best.score - one.score for one, best in wrong if one.finished]
    assert errors.gap == pytest.approx(np.mean(gaps))
    assert errors.empty == sum(best.tokens == () for _, best in pairs) > 0


def test_no_errors_no_gap():
    one = Hypothesis((1,), -1.0, -1.0, (-0.5, -0.5), finished=True)
    rounded = Hypothesis((1,), -0.9999, -0.9999, (-0.5, -0.4999), finished=True)
    equal = Hypothesis((2,), -1.0, -1.0, (-0.5, -0.5), finished=True)
    errors = search_errors([one] * 4, [[one], [], [rounded], [equal]])
    assert (errors.proven, errors.missed, errors.empty, errors.gap) == (3, 0, 0, 0.0)


def test_the_rule_is_printed_and_rescoring_agrees_with_it():
    exact = Exact("power", 0.5)
    assert exact.formula == Beam(length="power", alpha=0.5).formula == "log p / n^0.5"
    ((found,),) = exact(Toy(1).open([0]), Constraints(BOS, EOS, 4))
    assert rescore([found], "power", 0.5) == [found]


@pytest.mark.parametrize(
    "options", [{"length": "long"}, {"alpha": -1.0}, {"no_repeat": -1}, {"max_active": 0}]
)
def test_an_exact_search_that_makes_no_sense_is_bad_input(options):
    with pytest.raises(BadInput):
        Exact(**options)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_device_changes_nothing():
    toy, constraints = Toy(7, vocabulary=5), Constraints(BOS, EOS, 6, shortest=2, forbidden=(3,))
    exact, prefixes = Exact("gnmt", no_repeat=2, max_active=20), [[1], [], [2, 1], []]
    states = [toy.open(range(4), device) for device in ("cuda", "cpu")]
    assert exact(states[0], constraints, prefixes) == exact(states[1], constraints, prefixes)
