"""chrF and TER are sacreBLEU's; intervals and paired tests too."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest, Result, _bootstrap_resample, _compute_p_value

from regard.core.errors import BadInput
from regard.metrics.intervals import Interval
from regard.metrics.translation import (
    Comparison,
    MetricScore,
    bleu,
    bleu_metric,
    by_length,
    check_parallel,
    compare,
    limits,
    measured,
)

METRICS = [BLEU, CHRF, TER]
LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def noisy(lines: list[str], rate: float, seed: int) -> list[str]:
    """The same lines with some words replaced."""
    generator = np.random.default_rng(seed)
    return [
        " ".join("wrong" if generator.random() < rate else word for word in line.split())
        for line in lines
    ]


@pytest.fixture(scope="module")
def corpus() -> tuple[list[str], list[list[str]]]:
    generator = np.random.default_rng(1)
    vocabulary = ["Ein", "ein", "Hund", "lief", "über", "die", "Straße", "und", "."]
    truth = [" ".join(generator.choice(vocabulary, size=size)) for size in [*range(4, 16)] * 5]
    return noisy(truth, 0.2, seed=2), [truth, noisy(truth, 0.1, seed=3)]


@pytest.mark.parametrize("reference", METRICS)
def test_scores_and_signatures_are_those_of_sacrebleu(corpus, reference):
    metric = reference()
    theirs = metric.corpus_score(*corpus)
    score = measured(reference(), *corpus)
    assert score == MetricScore(
        theirs.name, pytest.approx(theirs.score), str(metric.get_signature())
    )


@pytest.mark.parametrize("reference", METRICS)
def test_intervals_are_those_of_sacrebleu(corpus, reference):
    metric = reference()
    theirs = metric.corpus_score(*corpus, n_bootstrap=1000)
    score = measured(reference(), *corpus, with_interval=True)
    assert score.interval is not None
    low, high = score.interval
    assert (high - low) / 2 == pytest.approx(theirs._ci, abs=1e-4)
    assert low < score.value < high
    assert score.signature == str(metric.get_signature())
    assert "|bs:1000|seed:12345|" in score.signature
    assert measured(reference(), *corpus, with_interval=True) == score


def test_case_counts_by_default():
    hypotheses, references = ["EIN HUND LIEF WEG"], [["ein hund lief weg"]]
    assert bleu(hypotheses, references).value == 0
    lowered = bleu(hypotheses, references, lowercase=True)
    assert lowered.value == pytest.approx(100)
    assert "case:lc" in lowered.signature


def test_a_score_prints_its_signature_and_interval():
    assert str(MetricScore("BLEU", 46.714, "nrefs:2")) == "BLEU 46.71  nrefs:2"
    with_interval = MetricScore("TER", 30.0, "nrefs:1", Interval(25.111, 35.0))
    assert str(with_interval) == "TER 30.00 [25.11, 35.00]  nrefs:1"


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.22, 0.5])
def test_the_paired_test_is_that_of_sacrebleu_with_differences_centred_by_sign(corpus, rate):
    baseline, references = corpus
    system = noisy(references[0], rate, seed=4)
    result = compare(bleu_metric(), baseline, system, references)
    before, after = (_drawn_by_sacrebleu(lines, references) for lines in (baseline, system))
    difference = abs(result.difference)
    # What sacreBLEU counts, which is not two-sided ...
    apart = np.abs(after - before)
    systems = [("baseline", baseline), ("system", system)]
    expected = _paired(systems, references, "bs")
    assert _compute_p_value(apart - apart.mean(), difference) == expected.p_value
    # ... and what should be counted, with its own formula for the rest.
    apart = after - before
    p_value = _compute_p_value(np.abs(apart - apart.mean()), difference)
    assert result.p_value == pytest.approx(p_value, abs=0.0011)  # float32 draws there
    # Its other test is two-sided, and draws otherwise.
    swapped = _paired(systems, references, "ar").p_value
    # Shares of 1,000 and of 10,000 draws: four standard errors of their difference.
    share = max(swapped, 0.01)
    error = np.sqrt(share * (1 - share) * (1 / 1_000 + 1 / 10_000))
    assert result.p_value == pytest.approx(swapped, abs=4 * error)
    assert result.system.value == pytest.approx(expected.score)
    assert result.baseline == bleu(baseline, references, with_interval=True)
    if rate == 0.5:
        assert result.p_value < 0.01


def _drawn_by_sacrebleu(lines: list[str], references: list[list[str]]) -> np.ndarray:
    metric = BLEU()
    statistics = metric._extract_corpus_statistics(lines, references)
    return np.array([one.score for one in _bootstrap_resample(statistics, metric)[1]])


def _paired(systems: list[tuple[str, list[str]]], references: list[list[str]], kind: str) -> Result:
    _, results = PairedTest(systems, {"BLEU": BLEU()}, references, test_type=kind)()
    return results["BLEU"][1]


def test_a_system_is_not_better_than_itself(corpus):
    hypotheses, references = corpus
    same = compare(bleu_metric(), hypotheses, hypotheses, references)
    assert same.baseline == same.system
    assert same.p_value == 1


def test_scores_of_unlike_signatures_are_not_compared(corpus):
    plain, lowered = bleu(*corpus), bleu(*corpus, lowercase=True)
    with pytest.raises(BadInput, match="different signatures"):
        Comparison(plain, lowered, 0.5)
    with pytest.raises(BadInput, match="different signatures"):
        Comparison(plain, measured(CHRF(), *corpus), 0.5)
    with pytest.raises(BadInput, match="different signatures"):
        Comparison(plain, bleu(corpus[0], corpus[1][:1]), 0.5)
    assert Comparison(plain, plain, 1.0).difference == 0


def test_line_counts_are_checked_by_name():
    check_parallel(["a"], [["b"], ["c"]])
    with pytest.raises(BadInput, match="line counts differ: 2 in out, 3 in ref2; "):
        check_parallel(["a", "b"], [["a", "b"], ["a", "b", "c"]], ["out", "ref1", "ref2"])
    with pytest.raises(BadInput, match="out: no references"):
        check_parallel(["a"], [], ["out"])
    with pytest.raises(BadInput, match="out: no lines"):
        check_parallel([], [[]], ["out", "ref"])
    with pytest.raises(BadInput, match="out: line 2 is 3, not a text"):
        check_parallel(["a", 3], [["a", "b"]], ["out", "ref"])
    with pytest.raises(BadInput, match="1 in the system, 2 in reference 1"):
        compare(bleu_metric(), ["a", "b"], ["a"], [["a", "b"]])


def test_any_metric_of_sacrebleu_can_be_measured(corpus):
    score = measured(CHRF(char_order=3), *corpus)
    assert "nc:3" in score.signature


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
