import numpy as np
import pytest
import torch

from regard.core.errors import BadInput
from regard.generation import Constraints, Sample

from .toy import BOS, EOS, Toy, in_batches

CHANCES = [0.05, 0.4, 0.1, 0.3, 0.15]
GRID = (torch.arange(2_000, dtype=torch.float64) + 0.5) / 2_000


def shares(sample: Sample, chances: list[float] = CHANCES) -> list[float]:
    """How much of [0, 1) leads to each token."""
    logprobs_RV = torch.tensor([chances]).log().expand(len(GRID), -1)
    tokens = sample.choose(logprobs_RV, GRID)
    return (torch.bincount(tokens, minlength=len(chances)) / len(GRID)).tolist()


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (Sample(), CHANCES),
        (Sample(top_k=1), [0, 1, 0, 0, 0]),
        (Sample(top_k=2), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sample(top_k=99), CHANCES),
        (Sample(top_p=0.39), [0, 1, 0, 0, 0]),
        (Sample(top_p=0.69), [0, 4 / 7, 0, 3 / 7, 0]),
        (Sample(top_p=0.71), [0, 8 / 17, 0, 6 / 17, 3 / 17]),
        (Sample(top_k=2, top_p=0.5), [0, 1, 0, 0, 0]),  # 4/7 of what top_k left
        (Sample(temperature=0.5), [c**2 / sum(c**2 for c in CHANCES) for c in CHANCES]),
        (Sample(temperature=0.5, top_k=2), [0, 16 / 25, 0, 9 / 25, 0]),
        (Sample(temperature=1e-300), [0, 1, 0, 0, 0]),
    ],
)
def test_tokens_get_their_exact_share(sample, expected):
    found = shares(sample)
    assert found == pytest.approx(expected, abs=1.1e-3)
    assert [share > 0 for share in found] == [chance > 0 for chance in expected]


@pytest.mark.parametrize("sample", [Sample(top_k=2), Sample(top_p=0.5)])
def test_of_equally_probable_tokens_the_lower_ids_stay(sample):
    assert shares(sample, [0.25] * 4) == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize("sample", [Sample(), Sample(top_p=0.999), Sample(top_k=4)])
def test_tokens_without_a_chance_are_never_drawn(sample):
    logprobs_RV = torch.tensor([[0.0, 0.5, 0.5, 0.0]]).log().expand(2, -1)
    draws_R = torch.tensor([0.0, np.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert sample.choose(logprobs_RV, draws_R).tolist() == [1, 2]


def test_draws_follow_the_distribution():
    toy = Toy(3, vocabulary=5)
    (found,) = Sample(count=4_000)(toy.open([0]), Constraints(BOS, EOS, 2))
    words = [(one.tokens + (EOS,) * one.finished)[:2] for one in found]
    counts = np.zeros((5, 5))
    for word in words:
        counts[word[0], word[-1] if len(word) > 1 else 0] += 1
    expected = np.zeros((5, 5))
    for first in range(5):
        chance = np.exp(toy.logprobs(0, (first,))) if first != EOS else np.eye(5)[0]
        expected[first] = 4_000 * np.exp(toy.logprobs(0, ())[first]) * chance
    likely = expected > 5
    surprise = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    assert surprise < 2 * likely.sum()  # chi-square: its mean is the number of cells less one


def test_scores_are_the_model_s_own_and_the_most_probable_comes_first():
    toy, constraints = Toy(4, vocabulary=4), Constraints(BOS, EOS, 5)
    sample = Sample(temperature=3.0, top_k=3, count=6)
    for sentence, found in enumerate(sample(toy.open(range(5)), constraints)):
        assert len(found) == 6
        assert found == sorted(found, key=lambda one: -one.score)
        for one in found:
            written = (*one.tokens, EOS) if one.finished else one.tokens
            assert one.logprob == pytest.approx(toy.logprob(sentence, written), abs=1e-5)
            assert one.score == one.logprob


@pytest.mark.parametrize("size", [1, 7])
def test_the_batch_size_changes_nothing_when_sentences_keep_their_ids(size):
    toy, constraints, ids = Toy(5, vocabulary=4), Constraints(BOS, EOS, 6), range(100, 164)
    sample = Sample(count=3, top_p=0.95, seed=11)
    together = in_batches(sample, toy, 64, constraints, 64, ids=ids)
    assert in_batches(sample, toy, 64, constraints, size, ids=ids) == together


def test_seed_id_and_number_each_change_the_draws_and_a_longer_limit_does_not():
    sample = Sample(seed=1)
    first = sample.uniforms(5, 0, 8)
    others = [Sample(seed=2).uniforms(5, 0, 8), sample.uniforms(6, 0, 8), sample.uniforms(5, 1, 8)]
    assert all(set(first).isdisjoint(other) for other in others)
    assert (sample.uniforms(5, 0, 20)[:8] == first).all()


def test_prefixes_are_kept_and_a_dead_end_stays_unfinished():
    toy, constraints = Toy(4, vocabulary=4), Constraints(BOS, EOS, 4, forbidden=(0, 1, 2, 3))
    for found in Sample(count=2, top_p=0.9)(toy.open([0, 1]), constraints, [[3, 1], [2]]):
        assert {one.finished for one in found} == {False}
    assert [one.tokens for one in found] == [(2,), (2,)]


def test_rows_of_ended_draws_leave():
    toy = Toy(3, vocabulary=3)
    state = toy.open(range(6))
    results = Sample(count=4)(state, Constraints(BOS, EOS, 9))
    lengths = np.array([len(one.logprobs) for found in results for one in found])
    assert state.entered == [(lengths >= n).sum() for n in range(1, lengths.max() + 1)]


def test_no_sentences_no_steps():
    assert Sample(count=2)(Toy(0).open([]), Constraints(BOS, EOS, 3)) == []


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 1e-320},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"count": 0},
        {"seed": -1},
    ],
)
def test_a_sample_that_makes_no_sense_is_bad_input(options):
    with pytest.raises(BadInput):
        Sample(**options)


def test_ids_must_name_every_sentence():
    with pytest.raises(ValueError):
        Sample()(Toy(0).open([0, 1]), Constraints(BOS, EOS, 3), ids=[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("sample", [Sample(count=2), Sample(top_k=3), Sample(top_p=0.8)])
def test_the_device_changes_nothing(sample):
    toy, constraints = Toy(7, vocabulary=5), Constraints(BOS, EOS, 6)
    assert sample(toy.open(range(9), "cuda"), constraints) == sample(
        toy.open(range(9)), constraints
    )
