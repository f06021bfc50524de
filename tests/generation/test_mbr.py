"""Minimum risk against a plain double loop over sacreBLEU's own sentence scores."""

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from regard.core.errors import BadInput
from regard.generation import Beam, Constraints, MinimumRisk, Sample

from .toy import BOS, EOS, Toy, in_batches

LIMITS = Constraints(BOS, EOS, 6)
METRICS = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}
SEEDS = st.integers(0, 100_000)


def decode(tokens):
    return " ".join(["zero", "one", "two", "three", "four"][token] for token in tokens)


def plainly(candidates, samples, utility):
    """(text, mean utility), best first: every candidate with every sample, doubles and all."""
    metric, texts = METRICS[utility], [decode(one.tokens) for one in samples]
    means = {}
    for one in candidates:
        text = decode(one.tokens)
        scores = [metric.sentence_score(text, [other]).score for other in texts]
        means.setdefault(text, sum(scores) / len(scores))
    return sorted(means.items(), key=lambda pair: -pair[1])


@settings(max_examples=25)
@given(SEEDS, st.sampled_from(sorted(METRICS)), st.integers(1, 12), st.integers(1, 4))
def test_it_is_the_plain_double_loop(seed, utility, count, best):
    toy, sample = Toy(seed, vocabulary=5), Sample(count=count, seed=3)
    found = MinimumRisk(sample, utility, best, decode)(toy.open(range(3)), LIMITS)
    for hypotheses, samples in zip(found, sample(toy.open(range(3)), LIMITS), strict=True):
        expected = list(islice(plainly(samples, samples, utility), best))
        scores = [one.score for one in hypotheses]
        assert scores == pytest.approx([value for _, value in expected])
        means = dict(plainly(samples, samples, utility))
        assert scores == pytest.approx([means[decode(one.tokens)] for one in hypotheses])


def test_candidates_may_come_from_another_search():
    toy, sample = Toy(5, vocabulary=5), Sample(count=9)
    lists = Beam(4, best=4)(toy.open(range(3)), LIMITS)
    risk = MinimumRisk(sample, best=4, decode=decode, candidates={7: lists[0], 9: lists[2]})
    found = risk(toy.open(range(3)), LIMITS, ids=[7, 8, 9])
    drawn = sample(toy.open(range(3)), LIMITS, ids=[7, 8, 9])
    for hypotheses, candidates, samples in zip(
        found, [lists[0], drawn[1], lists[2]], drawn, strict=True
    ):
        expected = plainly(candidates, samples, "chrf")[:4]
        assert [one.score for one in hypotheses] == pytest.approx([value for _, value in expected])
        assert {decode(one.tokens) for one in hypotheses} <= {
            decode(one.tokens) for one in candidates
        }


@pytest.mark.parametrize("size", [1, 5, 16])
def test_the_batch_size_changes_nothing(size):
    toy, ids = Toy(2, vocabulary=5), list(range(100, 116))
    risk = MinimumRisk(Sample(count=8, seed=4), best=2, decode=decode)
    together = in_batches(risk, toy, 16, LIMITS, 16, ids=ids)
    assert in_batches(risk, toy, 16, LIMITS, size, ids=ids) == together
    other = replace(risk, sample=Sample(count=8, seed=5))
    assert in_batches(other, toy, 16, LIMITS, 16, ids=ids) != together


def test_the_consensus_beats_the_mode():
    """Three samples say much the same; the one drawn most often says something else."""
    one = Sample(count=5)(Toy(0).open([0]), LIMITS)[0][0]
    words = [(1, 1, 1), (1, 1, 1), (2, 3, 4, 2), (2, 3, 4, 3), (2, 3, 4, 4)]
    samples = [replace(one, tokens=tokens) for tokens in words]
    risk = MinimumRisk(Sample(count=5), decode=decode)
    (chosen,) = risk.ranked(samples, samples)
    assert chosen.tokens[:3] == (2, 3, 4)
    assert "mean sentence chrF over 5 samples" in risk.formula


def test_of_equal_candidates_the_first_is_kept():
    one = Sample()(Toy(0).open([0]), LIMITS)[0][0]
    twice = [replace(one, tokens=(1,), logprob=logprob) for logprob in (-1.0, -2.0)]
    ranked = MinimumRisk(best=5, decode=decode).ranked(twice, [one])
    assert [one.logprob for one in ranked] == [-1]


def test_only_what_makes_sense():
    with pytest.raises(BadInput, match="utility must be one of chrf, bleu"):
        MinimumRisk(utility="ter")
    with pytest.raises(BadInput, match="best"):
        MinimumRisk(best=0)
    with pytest.raises(BadInput, match="compares texts"):
        MinimumRisk()(Toy(0).open([0]), LIMITS)


def test_its_own_decode_is_kept():
    assert MinimumRisk().with_decode(decode).decode is decode
    assert MinimumRisk(decode=decode).with_decode(str).decode is decode
