"""Paired tests: against sacreBLEU and scipy, on every metric."""

import random

import numpy as np
import pytest
import scipy.stats
from sacrebleu.metrics import CHRF
from sacrebleu.significance import PairedTest

from regard.core.errors import BadInput
from regard.metrics import intervals
from regard.metrics.answers import answer_scores
from regard.metrics.classification import classification_scores, several_scores, top_score
from regard.metrics.entities import entity_scores
from regard.metrics.intervals import (
    ExampleStatistics,
    mcnemar_p_value,
    paired_tests,
    randomisation_p_value,
)
from regard.metrics.regression import regression_scores
from regard.metrics.translation import bleu_metric, compare, measured

TEXT = "the old man reads a long book in his small garden while it rains"
WORDS = TEXT.split()
LABELS = ["yes", "no", "maybe"]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """The lines with some words replaced."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice(WORDS) if draw.random() < share else word for word in line.split())
        for line in lines
    ]


def noisy_labels(labels: list[str], share: float, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [draw.choice(LABELS) if draw.random() < share else label for label in labels]


DRAW = random.Random(0)
REFERENCES = [" ".join(DRAW.choices(WORDS, k=DRAW.randint(5, 14))) for _ in range(80)]
FIRST, SECOND = noisy(REFERENCES, 0.30, 1), noisy(REFERENCES, 0.21, 2)
GOLDS = DRAW.choices(LABELS, k=120)
ANSWERS = [noisy_labels(GOLDS, share, seed) for seed, share in enumerate((0.5, 0.35))]
NUMBERS = np.random.default_rng(0).normal(size=(3, 90))
ESTIMATES = [NUMBERS[0] + NUMBERS[1], NUMBERS[0] + 0.7 * NUMBERS[2]]
SEVERAL = [[{label, *LABELS[: len(label) % 3]} for label in labels] for labels in (GOLDS, *ANSWERS)]
TAGS = [[[f"B-{label}", "O", f"I-{label}"] for label in labels] for labels in (GOLDS, *ANSWERS)]
RANKED = [[[label, *LABELS] for label in labels] for labels in ANSWERS]
SCORES = {
    "translation": [
        [measured(metric, lines, [REFERENCES]) for metric in (bleu_metric(), CHRF())]
        for lines in (FIRST, SECOND)
    ],
    "classes": [classification_scores(GOLDS, own, positive="yes") for own in ANSWERS],
    "several": [several_scores(SEVERAL[0], own) for own in SEVERAL[1:]],
    "top": [[top_score(GOLDS, ranked)] for ranked in RANKED],
    "entities": [entity_scores(TAGS[0], own) for own in TAGS[1:]],
    "answers": [answer_scores([[line] for line in REFERENCES], own) for own in (FIRST, SECOND)],
    "numbers": [regression_scores(NUMBERS[0], own) for own in ESTIMATES],
}
PAIRS = [
    pytest.param(*both, id=f"{name}-{both[0].name}")
    for name, systems in SCORES.items()
    for both in zip(*systems, strict=True)
]
RIGHT_OR_WRONG = {"accuracy", "top-5", "exact match"}


@pytest.fixture
def few_trials(monkeypatch):
    monkeypatch.setattr(intervals.randomisation_p_value, "__defaults__", (200,))


@pytest.mark.thinned
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_metric_is_computed_from_its_statistics(first, second, few_trials):
    tests = paired_tests(first.statistics, second.statistics)
    assert tests.difference == pytest.approx(second.value - first.value)
    assert tests.interval.low <= tests.interval.high
    assert 0 < tests.bootstrap <= 1 and 0 < tests.randomisation <= 1
    assert (tests.mcnemar is not None) == (first.name in RIGHT_OR_WRONG)


@pytest.mark.thinned
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_equal_systems_do_not_differ(first, second, few_trials):
    tests = paired_tests(second.statistics, second.statistics)
    assert (tests.difference, *tests.interval) == (0, 0, 0)
    assert tests.bootstrap == tests.randomisation == 1 and tests.mcnemar in (None, 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_randomisation_agrees_with_sacrebleu(number):
    metric = (bleu_metric(), CHRF())[number]
    systems = [("first", FIRST), ("second", SECOND)]
    _, results = PairedTest(systems, {"metric": metric}, [REFERENCES], "ar")()
    first, second = (of_system[number] for of_system in SCORES["translation"])
    ours = paired_tests(first.statistics, second.statistics).randomisation
    *_, (_, result) = results.values()
    assert ours == pytest.approx(result.p_value, abs=5e-4)
    assert 0.002 < ours < 0.9  # neither is at a limit


def test_the_bootstrap_is_the_one_of_two_translations():
    expected = compare(bleu_metric(), FIRST, SECOND, [REFERENCES])
    first, second = (of_system[0] for of_system in SCORES["translation"])
    assert paired_tests(first.statistics, second.statistics).bootstrap == expected.p_value


def test_randomisation_agrees_with_scipy():
    first, second = (of_system[0].statistics for of_system in SCORES["numbers"])
    ours = randomisation_p_value(first.rows, second.rows, first.measure, 4000)

    def difference(one, other):
        return np.corrcoef(NUMBERS[0], one)[0, 1] - np.corrcoef(NUMBERS[0], other)[0, 1]

    theirs = scipy.stats.permutation_test(
        ESTIMATES, difference, permutation_type="samples", n_resamples=2000, rng=1
    )
    # Both are means of so many draws: four standard errors of their difference.
    error = np.sqrt(theirs.pvalue * (1 - theirs.pvalue) * (1 / 4000 + 1 / 2000))
    assert ours == pytest.approx(theirs.pvalue, abs=4 * error)


@pytest.mark.parametrize("trials", [9, 99])
def test_the_difference_that_was_found_is_one_of_the_trials(trials):
    """p is (n + 1) / (N + 1), never 0 (Phipson & Smyth, 2010): here no swap has n."""
    first, second = np.zeros((60, 1)), np.ones((60, 1))
    measure = ExampleStatistics.of_sums(first, lambda sums: sums[0]).measure
    assert randomisation_p_value(first, second, measure, trials) == 1 / (trials + 1)


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (1, 0), (3, 9), (40, 41), (0, 60)])
def test_mcnemar_agrees_with_a_binomial_test(only_first, only_second):
    first_N = np.array([True] * only_first + [False] * only_second + [True, False] * 5)
    second_N = np.array([False] * only_first + [True] * only_second + [True, False] * 5)
    total = only_first + only_second
    expected = scipy.stats.binomtest(only_first, total).pvalue if total else 1.0
    assert mcnemar_p_value(first_N, second_N) == pytest.approx(expected)


def test_true_hypotheses_are_rejected_as_often_as_claimed():
    """Two systems whose errors are independent and equally frequent."""
    generator = np.random.default_rng(3)
    rejected = 0
    for _ in range(200):
        rows = generator.integers(2, size=(2, 60, 1)).astype(np.float64)
        measure = ExampleStatistics.of_sums(rows[0], lambda sums: sums[0]).measure
        rejected += randomisation_p_value(rows[0], rows[1], measure, 200) <= 0.05
    assert rejected / 200 < 0.09


def test_swaps_in_parts_are_swaps(monkeypatch):
    whole = [*intervals._swaps(7, 20)]
    monkeypatch.setattr(intervals, "SWAPS", 30)
    parts = [*intervals._swaps(7, 20)]
    assert len(whole) == len(parts) == 20 and {len(stay) for stay in parts} == {7}


def test_other_numbers_of_examples_are_refused():
    first, second = (of_system[0].statistics for of_system in SCORES["numbers"])
    shorter = ExampleStatistics(second.rows[:-1], second.measure)
    with pytest.raises(BadInput, match="90 and 89 examples"):
        paired_tests(first, shorter)
