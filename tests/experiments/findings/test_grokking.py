"""Grokking (Nanda et al., 2023): the rule on made-up logs, and frequencies of vectors."""

import json

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.experiments.findings.finding import CheckInputs
from regard.experiments.findings.grokking import GrokkingSteps, judge, measure
from regard.inside.number_spectrum import NumberSpectrum, number_vectors, watch_numbers
from small_gpt import small_gpt2


def log(*points: tuple[float, float]) -> list[dict]:
    """Events of a run: training loss and dev accuracy at every hundredth step."""
    events = []
    for number, (nll, accuracy) in enumerate(points, start=1):
        events.append({"event": "train", "step": 100 * number, "nll": nll})
        events.append({"event": "dev", "step": 100 * number, "accuracy": accuracy})
    return events


LATE = log((2.0, 1.0), (0.05, 2.0), (0.01, 2.0), (0.01, 60.0), (0.01, 99.0))


@pytest.mark.parametrize(
    ("events", "share", "outcome"),
    [
        (LATE, 0.9, "reproduced"),
        (LATE, 0.3, "not reproduced"),
        (LATE[:-2], 0.9, "not reproduced"),  # never solved
        (log((2.0, 1.0), (0.05, 70.0), (0.0, 99.0), (0.0, 99.0)), 0.9, "not reproduced"),
        (log((2.0, 1.0), (0.05, 2.0), (0.0, 99.0)), 0.9, "not reproduced"),  # too soon
        (log((2.0, 1.0), (1.0, 99.0)), 0.9, "not reproduced"),
    ],
)
def test_the_rule(events, share, outcome):
    assert judge(GrokkingSteps.of_log(events), share).outcome == outcome


def test_steps_of_a_log():
    assert GrokkingSteps.of_log(LATE) == (200, 500, 2.0, 99.0)


def test_a_run_without_reports_on_numbers(tmp_path):
    (tmp_path / "watch").mkdir()
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in LATE))
    (tmp_path / "watch" / "numbers.jsonl").write_text("")
    with pytest.raises(BadInput, match="has no report yet"):
        measure(CheckInputs("model", (tmp_path,)))


def test_a_spectrum_finds_the_frequencies_of_rotations():
    angles = 2 * np.pi * np.outer(np.arange(113), [3, 17, 40]) / 113
    vectors = np.concatenate([np.cos(angles), 2 * np.sin(angles)], axis=1) + 7
    spectrum = NumberSpectrum.of(vectors)
    assert {*spectrum.top[:3]} == {3, 17, 40} and spectrum.top_share == pytest.approx(1)
    assert spectrum.shares[[2, 16, 39]] == pytest.approx(1 / 3)
    draw = np.random.default_rng(0)
    shuffled = NumberSpectrum.of(draw.permutation(vectors))
    assert shuffled.top_share < 0.5 and len(shuffled.shares) == 56


def test_vectors_are_those_of_the_tokens_of_numbers():
    model = small_gpt2()
    vectors = number_vectors(model)
    ids = [model.tokenizer.words.encode(str(number)) for number in range(len(vectors) + 1)]
    weights = model.module.trunk.embed.token.weight.detach()
    assert len(vectors) == 10 and len(ids[10]) > 1
    assert np.array_equal(vectors, weights[[each[0] for each in ids[:10]]].numpy())
    report = watch_numbers(model, [])
    assert report["numbers"] == 10 and len(report["top"]) == 5


def test_a_vocabulary_without_numbers_is_refused():
    model = small_gpt2()
    model.tokenizer.words.encode = lambda text: [1, 2]
    with pytest.raises(BadInput, match="has not the numbers"):
        number_vectors(model)
