"""Induction (Olsson et al., 2022): the rule on made-up runs, and the verb on tiny ones."""

import json

import numpy as np
import pytest

from regard.findings.induction_heads import InContextGain, gains, judge, rise
from regard.inside.heads.head_formation import Formation
from verb import run


def formation(*scores: float, every: int = 10) -> Formation:
    records = [
        {
            "step": every * number,
            "loss": 1.0,
            "seconds": 0.1,
            "heads": [{"site": "decoder", "layer": 1, "head": 0, "induction": score}],
        }
        for number, score in enumerate(scores)
    ]
    return Formation.of_records("run", records, "heads.jsonl")


SUDDEN = formation(*[0.03] * 8, 0.6, *[0.8] * 12)
SLOW = formation(*np.linspace(0, 0.8, 21))
MOST = InContextGain(3.0, 1.0, 0.67, (0.6, 0.7))


def bounds(low: float, high: float) -> InContextGain:
    from regard.metrics.intervals import Interval

    return MOST._replace(removed=(low + high) / 2, interval=Interval(low, high))


@pytest.mark.parametrize(
    ("formed", "one_layer", "gain", "outcome"),
    [
        (SUDDEN, 0.1, bounds(0.6, 0.7), "reproduced"),
        (SLOW, 0.1, bounds(0.6, 0.7), "not reproduced"),
        (SUDDEN, 0.7, bounds(0.6, 0.7), "not reproduced"),
        (SUDDEN, 0.1, bounds(0.2, 0.4), "not reproduced"),
        (SUDDEN, 0.1, bounds(0.4, 0.6), "cannot be shown"),
        (formation(0.0, 0.1), 0.1, None, "not reproduced"),
    ],
)
def test_the_rule(formed, one_layer, gain, outcome):
    assert judge(formed, formed.appearances("induction"), one_layer, gain).outcome == outcome


def test_the_rise_is_from_a_quarter_to_half():
    (sudden,), (slow,) = (each.appearances("induction") for each in (SUDDEN, SLOW))
    assert sudden.step == 80 and rise(SUDDEN, sudden) == 10
    assert slow.step == 100 and rise(SLOW, slow) == 60


def test_the_lost_share_is_of_the_gain_of_all_texts():
    gain = InContextGain.of(np.array([4.0, 2.0]), np.array([1.0, 0.5]))
    assert (gain.whole, gain.without_heads, gain.removed) == (3.0, 0.75, 0.75)
    assert gain.interval == (0.75, 0.75)


class Scorer:
    """A model whose loss falls by 1 with each token."""

    def score(self, texts):
        return [[-float(8 - at) for at in range(8)] for _ in texts]


def test_the_gain_is_between_the_first_and_the_last_quarter():
    assert gains(Scorer(), ["a", "b"]).tolist() == [6.0, 6.0]


@pytest.mark.slow
def test_tiny_runs_are_not_enough(tmp_path):
    steps = ("--set", "train.steps=2", "--set", "train.evaluate_every=1")
    for recipe in ("induction", "induction-one-layer"):
        run(
            "train",
            recipe,
            "--data",
            tmp_path,
            "--out",
            tmp_path / recipe,
            "--watch",
            "heads",
            *steps,
        )
    deep, shallow = tmp_path / "induction", tmp_path / "induction-one-layer"
    options = ("--model", deep / "model", "--recipe", "induction", "--json")
    done = run("check", "induction", *options, "--data", deep, "--data", shallow, code=1)
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "not reproduced" and len(verdict["figures"]) == 3
    done = run("check", "induction", *options, "--data", shallow, "--data", deep, code=1)
    assert "two layers or more, and one" in json.loads(done.stdout)["reason"]
