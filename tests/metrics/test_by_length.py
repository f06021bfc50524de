"""Scores by length: every sentence in one bucket, each bucket a score of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.metrics.bleu import bleu, bleu_metric
from regard.metrics.by_length import by_length, limits

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 6))
def test_buckets_cover_every_length_once(lengths, buckets):
    found = limits(lengths, buckets)
    assert 1 <= len(found) <= buckets
    for length in lengths:
        assert sum(low <= length <= high for low, high in found) == 1
    assert found == sorted(found)


def test_buckets_are_about_as_large():
    assert limits(list(range(100)), 4) == [(0, 24), (25, 49), (50, 74), (75, 99)]
    assert limits([7] * 50 + [9], 5) == [(7, 7), (9, 9)]
    # The middle one of the sixes is the fourth of ten sentences: in the first half.
    assert limits([1] + [6] * 6 + [9] * 3, 2) == [(1, 6), (9, 9)]


def test_there_are_five_buckets_by_default():
    lines = ["a b c d e"] * 20
    found = by_length(bleu_metric("none"), lines, [lines], list(range(20)))
    assert [one.sentences for one in found] == [4] * 5


def test_each_bucket_is_scored_alone():
    references = [["a b c d e", "f g h i j", "a b c d e f g h", "k l m n o p q r"]]
    hypotheses = ["a b c d e", "x x x x x", "a b c d e f g h", "k l m n o p q r"]
    lengths = [5, 5, 8, 8]
    metric = bleu_metric("none")
    short, long = by_length(metric, hypotheses, references, lengths, buckets=2)
    assert (str(short), short.sentences, str(long)) == ("5", 2, "8")
    assert long.score.value == pytest.approx(100)
    whole = bleu(hypotheses[:2], [references[0][:2]], tokenize="none")
    assert short.score.value == pytest.approx(whole.value)
    assert short.score.signature == whole.signature
