import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.generation import Beam, Constraints, Greedy, Sample, score

from .toy import BOS, EOS, Toy

LIMITS = Constraints(BOS, EOS, 1, forbidden=(1,))  # only its markers are read


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.lists(st.lists(st.integers(1, 3), max_size=5), max_size=5))
def test_every_token_and_the_end_get_their_log_probability(seed, targets):
    toy = Toy(seed)
    state = toy.open(range(len(targets)))
    results = score(state, targets, LIMITS)
    assert len(results) == len(targets)
    for sentence, (found, target) in enumerate(zip(results, targets, strict=True)):
        written = (*target, EOS)
        assert found == [toy.logprobs(sentence, written[:at])[t] for at, t in enumerate(written)]
    assert sum(state.entered) == sum(len(target) + 1 for target in targets)


def test_agrees_with_the_search_that_wrote_the_target():
    toy = Toy(2)
    results = Beam(3)(toy.open(range(6)), Constraints(BOS, EOS, 20))
    best = [found[0] for found in results]
    scored = score(toy.open(range(6)), [one.tokens for one in best], LIMITS)
    assert [tuple(row) for row in scored] == [one.logprobs for one in best]


def test_every_sentence_needs_a_target():
    with pytest.raises(ValueError):
        score(Toy(0).open([0, 1]), [[1]], LIMITS)


@pytest.mark.parametrize(
    "run",
    [
        Greedy(),
        Beam(2),
        Sample(),
        Sample(top_p=0.5),
        lambda state, constraints: score(state, [[1]], constraints),
    ],
)
def test_a_model_that_broke_is_not_taken_for_a_dead_end(run):
    class Broken(Toy):
        def logprobs(self, sentence, prefix):
            return np.full(4, np.nan, dtype=np.float32)

    with pytest.raises(FloatingPointError):
        run(Broken(0).open([0]), Constraints(BOS, EOS, 3))
