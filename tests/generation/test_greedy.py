import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation import Constraints, Greedy, Hypothesis

from .toy import BOS, EOS, Toy, ToyState, allowed, in_batches


def plain_greedy(toy: Toy, sentence: int, constraints: Constraints, longest: int, prefix=()):
    written: tuple[int, ...] = ()
    while len(written) < longest and EOS not in written:
        logprobs = toy.logprobs(sentence, written)
        open_ = [t for t in range(toy.vocabulary) if allowed(written, t, constraints, prefix, 0)]
        if not open_:
            break
        written = (*written, max(open_, key=lambda token: logprobs[token]))
    return written


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_takes_the_most_probable_token_each_time(data):
    toy = Toy(data.draw(st.integers(0, 10_000)), vocabulary=data.draw(st.integers(2, 5)))
    longest = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    words = st.integers(1, toy.vocabulary - 1)
    prefixes = [data.draw(st.lists(words, max_size=limit)) for limit in longest]
    shortest, forbidden = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([(), (1,)]))
    constraints = Constraints(BOS, EOS, longest, shortest, forbidden)
    results = Greedy()(toy.open(range(len(longest))), constraints, prefixes)
    for sentence, (found,) in enumerate(results):
        written = plain_greedy(toy, sentence, constraints, longest[sentence], prefixes[sentence])
        assert found.finished == (written[-1:] == (EOS,))
        assert found.tokens == written[: len(written) - found.finished]
        assert found.logprob == pytest.approx(toy.logprob(sentence, written), abs=1e-5)
        assert len(found.logprobs) == len(written)
        assert found.logprob == found.score == pytest.approx(math.fsum(found.logprobs))


def test_finished_rows_leave_the_batch():
    toy = Toy(3, vocabulary=3)
    state = toy.open(range(20))
    results = Greedy()(state, Constraints(BOS, EOS, [3, 9] * 10))
    lengths = np.array([len(found.logprobs) for (found,) in results])
    assert len(set(lengths)) > 2
    assert state.entered == [(lengths >= n).sum() for n in range(1, lengths.max() + 1)]


@pytest.mark.parametrize("size", [1, 7])
def test_the_batch_size_changes_nothing(size):
    toy, constraints = Toy(5, vocabulary=4), Constraints(BOS, EOS, 6)
    assert in_batches(Greedy(), toy, 64, constraints, size) == in_batches(
        Greedy(), toy, 64, constraints, 64
    )


def test_of_equally_probable_tokens_the_lower_id_is_taken():
    class Even(Toy):
        def logprobs(self, sentence, prefix):
            return np.full(4, math.log(0.25), dtype=np.float32)

    ((found,),) = Greedy()(Even(0).open([0]), Constraints(BOS, EOS, 3, shortest=3))
    assert found.tokens == (1, 1) and found.finished


def test_nothing_allowed_leaves_an_empty_unfinished_hypothesis():
    constraints = Constraints(BOS, EOS, 3, forbidden=(0, 1, 2, 3))
    empty = Hypothesis(tokens=(), logprob=0.0, score=0.0, logprobs=(), finished=False)
    assert Greedy()(Toy(0).open([0, 1]), constraints) == [[empty], [empty]]


def test_no_sentences_no_steps():
    state = Toy(0).open([])
    assert Greedy()(state, Constraints(BOS, EOS, 3)) == []
    assert state.entered == []


def test_each_sentence_may_be_fed_its_own_first_token():
    fed = []

    class Noted(ToyState):
        def step(self, tokens_R):
            fed.append(tokens_R.tolist())
            return super().step(torch.full_like(tokens_R, BOS) if not self.fed else tokens_R)

    Greedy()(Noted(Toy(0), [(0, ()), (1, ())], "cpu"), Constraints([7, 8], EOS, 2))
    assert fed[0] == [7, 8]
