"""``regard evaluate`` compares a score with the one its recipe expects."""

import math

import pytest

from regard.cli.scores import check_expected
from regard.metrics.translation import MetricScore
from regard.training.recipe_files import ExpectConfig
from verb import run


def expects(metric: str, value: float, tolerance: float = 0.5) -> bool:
    """Whether ``value`` is as good as an expected 40, by that measure."""
    expect = ExpectConfig(metric=metric, score=40, tolerance=tolerance, source="a test")
    others = [MetricScore(name, 40.0, "") for name in ("BLEU", "chrF2", "TER") if name != metric]
    return check_expected(expect, [*others, MetricScore(metric, value, "")], quiet=True)


@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_more_is_better_and_less_must_be_within_the_tolerance(metric):
    assert [expects(metric, value) for value in (90, 41, 40, 39.75, 39.5)] == [True] * 5
    assert [expects(metric, value) for value in (39.375, 39, 36, 0, math.nan)] == [False] * 5
    assert expects(metric, 40, tolerance=0) and not expects(metric, 39.99, tolerance=0)


def test_less_is_better_in_ter():
    assert [expects("TER", value) for value in (0, 39, 40, 40.25, 40.5)] == [True] * 5
    assert [expects("TER", value) for value in (40.625, 41, 44, 120, math.nan)] == [False] * 5
    assert expects("TER", 40, tolerance=0) and not expects("TER", 40.01, tolerance=0)


def test_a_translator_is_not_evaluated_as_a_classifier(small_run, tmp_path):
    (tmp_path / "test.tsv").write_text("dog cow\towl\nrat hen\tpig\n")
    (tmp_path / "a.toml").write_text(
        'like = "sst2-pooled"\nexpect = false\n[data]\n'
        'train = { reader = "tsv", file = "test.tsv", options = { texts = [0], label = 1 } }\n'
        "dev = { held_out = 1 }\n"
        'test = { reader = "tsv", file = "test.tsv", options = { texts = [0], label = 1 } }\n'
    )
    model = small_run / "run" / "model"
    done = run("evaluate", model, tmp_path / "a.toml", "--data", tmp_path, code=2)
    assert done.stderr == "regard: this model was not trained for task 'classify'\n"
