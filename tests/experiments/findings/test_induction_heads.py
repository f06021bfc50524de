"""Induction (Olsson et al., 2022): the rule on made-up runs, and the verb on tiny ones."""

import json

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.experiments.findings.finding import CannotShow
from regard.experiments.findings.induction_heads import (
    InContextGain,
    choices_of,
    control_note,
    dev_texts,
    edits_of,
    gains,
    judge,
    require_comparable,
    rise,
    sudden_heads,
)
from regard.experiments.findings.watched_run import WatchedRun, saved_step
from regard.inside.heads.head_formation import Formation
from regard.metrics.intervals import Interval
from regard.training.checkpoint import Checkpoints, RunProgress
from small_bert import model as small_bert
from small_gpt import small_gpt2
from verb import run


def records(*scores: float | tuple[float, ...], every: int = 10, layer: int = 1) -> list[dict]:
    """Reports whose heads have these scores."""
    rows = [score if isinstance(score, tuple) else (score,) for score in scores]
    return [
        {
            "step": every * number,
            "loss": 1.0,
            "seconds": 0.1,
            "heads": [
                {"site": "decoder", "layer": layer, "head": head, "induction": score}
                for head, score in enumerate(row)
            ],
        }
        for number, row in enumerate(rows)
    ]


def formation(*scores: float | tuple[float, ...], every: int = 10, layer: int = 1) -> Formation:
    return Formation.of_records("run", records(*scores, every=every, layer=layer), "heads.jsonl")


def watched(formed: Formation, step: int | None = None) -> WatchedRun:
    return WatchedRun.of(formed, formed.steps[-1].step if step is None else step)


SUDDEN = formation(*[0.03] * 8, 0.6, *[0.8] * 12)
SLOW = formation(*np.linspace(0, 0.8, 21))
MOST = InContextGain(3.0, 1.0, 0.67, (0.6, 0.7))


def bounds(low: float, high: float) -> InContextGain:
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
    appeared = formed.appearances("induction")
    assert judge(watched(formed), appeared, one_layer, gain).outcome == outcome


def test_numbers_that_are_none_are_never_reproduced():
    appeared, nan = SUDDEN.appearances("induction"), float("nan")
    assert judge(watched(SUDDEN), appeared, 0.1, bounds(nan, nan)).outcome == "cannot be shown"
    assert judge(watched(SUDDEN), appeared, nan, MOST).outcome == "not reproduced"


def test_all_heads_that_appeared_are_looked_at():
    slow, sudden = (
        [at.heads[0].figures["induction"] for at in each.steps] for each in (SLOW, SUDDEN)
    )
    slow[-1] = 0.9  # the higher score
    both = formation(*zip(slow, sudden, strict=True))
    appeared = both.appearances("induction")
    assert [each.head.head for each in appeared] == [0, 1]
    assert [each.head.head for each in sudden_heads(watched(both), appeared)] == [1]
    judgement = judge(watched(both), appeared, 0.1, bounds(0.6, 0.7))
    assert judgement.outcome == "reproduced" and "scores of 1.1 rise" in judgement.reason


def test_scores_are_those_of_the_step_of_the_model():
    whole = formation(*[0.03] * 8, 0.6, *[0.8] * 11, 0.1)
    early = watched(whole, 190)
    assert (early.step, early.last, early.gap) == (190, 200, 10)
    assert early.formed.appearances("induction") and not whole.appearances("induction")
    assert early.step_note == "run: model and scores of step 190 of 200"
    unknown = WatchedRun.of(whole, None)
    assert unknown.formed is whole
    assert unknown.step_note == "run: step of the model not known, scores of step 200"
    assert not watched(whole, 195).step_known  # no report


def test_the_step_of_a_saved_model(tmp_path):
    assert saved_step(tmp_path, tmp_path / "model") is None
    (tmp_path / "recipe.json").write_text('{"train": {"average": 1}}')
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for progress in (RunProgress(20), RunProgress(30, best=1.0, best_step=20)):
        checkpoints.save(progress, {})
    assert saved_step(tmp_path, tmp_path / "model") == 20
    assert saved_step(tmp_path, tmp_path / "another") is None
    (tmp_path / "recipe.json").write_text('{"train": {"average": 2}}')
    assert saved_step(tmp_path, tmp_path / "model") is None


ONE = formation(*[0.03] * 21, layer=0)


@pytest.mark.parametrize(
    ("deep", "shallow", "reason"),
    [
        (SUDDEN, SUDDEN, "two layers or more, and one; they have 2 and 2"),
        (ONE, ONE, "they have 1 and 1"),
        (SUDDEN, formation(*[0.03] * 20, layer=0), "same number of steps; they have 200 and 190"),
        (formation(0.0, 0.8, 0.8), formation(0.0, 0.1, 0.1, layer=0), "between two reports"),
        (formation(0.8), formation(0.1, layer=0), "between two reports"),
    ],
)
def test_runs_that_cannot_be_compared(deep, shallow, reason):
    require_comparable(watched(SUDDEN), watched(ONE))
    with pytest.raises(CannotShow, match=reason):
        require_comparable(watched(deep), watched(shallow))


def test_heads_of_another_model_are_refused():
    with pytest.raises(CannotShow, match="its heads are not those of the run run: it has"):
        edits_of(small_gpt2(), SUDDEN)


def test_a_recipe_of_another_task_is_refused():
    with pytest.raises(BadInput, match="its task is translate, not a language model's"):
        dev_texts("tour")


def test_other_heads_are_as_many_and_few_choices():
    places = [("decoder", 0, head) for head in range(6)]
    assert choices_of(places[:2], 1) == [(places[0],), (places[1],)]
    assert choices_of(places[:2], 3) == [(places[0], places[1])]
    assert choices_of([], 2) == []
    drawn = choices_of(places, 2)
    assert len({*drawn}) == 5 and all(len({*choice}) == 2 for choice in drawn)
    assert drawn == choices_of(places, 2)


def test_the_note_says_what_other_heads_lose():
    note = control_note(MOST, {(("decoder", 0, 0),): 0.95})
    assert "67% of the in-context gain is lost, without other heads instead: 95% (0.0)" in note
    assert "no other heads" in control_note(MOST, {})


def test_the_rise_is_from_a_quarter_to_half():
    (sudden,), (slow,) = (each.appearances("induction") for each in (SUDDEN, SLOW))
    assert sudden.step == 80 and rise(SUDDEN, sudden) == 10
    assert slow.step == 100 and rise(SLOW, slow) == 60


def test_the_lost_share_is_of_the_gain_of_all_texts():
    gain = InContextGain.of(np.array([4.0, 2.0]), np.array([1.0, 0.5]))
    assert (gain.whole, gain.without_heads, gain.removed) == (3.0, 0.75, 0.75)
    assert gain.interval == (0.75, 0.75)


@pytest.mark.parametrize("whole", [(0.0, 0.0), (-1.0, -2.0), (3.0, -2.9)])
def test_a_share_needs_a_gain(whole):
    with pytest.raises(CannotShow, match="there is no in-context gain"):
        InContextGain.of(np.array(whole), np.array([1.0, 0.5]))


class Scorer:
    """A model whose loss falls by ``fall`` with each token."""

    def __init__(self, fall: float = 1.0):
        self.fall = fall

    def score(self, texts):
        return [[-float(8 - at) * self.fall for at in range(8)] for _ in texts]


def test_the_gain_is_between_the_first_and_the_last_quarter():
    assert gains(Scorer(), ["a", "b"]).tolist() == [6.0, 6.0]
    for fall in (float("nan"), float("inf")):
        with pytest.raises(CannotShow, match="the in-context gain is no number"):
            gains(Scorer(fall), ["a"])


def write_run(folder, lines: list[dict]):
    (folder / "watch").mkdir(parents=True)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "watch" / "heads.jsonl").write_text(text)
    return folder


def test_a_score_that_is_no_number_is_refused(tmp_path):
    run_folder = write_run(tmp_path / "deep", records(0.1, float("nan"), 0.8))
    with pytest.raises(CannotShow, match="an induction score is no number"):
        WatchedRun.read(run_folder, run_folder / "model")


def test_a_model_of_another_kind_cannot_show_it(tmp_path):
    small_bert("words").save(tmp_path / "bert")
    deep = write_run(tmp_path / "deep", records(*[0.1] * 21))
    options = ("--model", tmp_path / "bert", "--recipe", "induction", "--json")
    done = run("check", "induction", *options, "--data", deep, "--data", deep, code=1)
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "cannot be shown"
    assert verdict["reason"] == "it is no causal language model with attention"


@pytest.mark.slow
def test_tiny_runs_are_not_enough(tmp_path):
    steps = ("--set", "train.steps=10", "--set", "train.evaluate_every=1")
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
    logs = "induction/watch/heads.jsonl, induction-one-layer/watch/heads.jsonl"
    texts = "200 texts of the dev set of induction"
    assert verdict["data"]["name"] == f"{logs}, induction-one-layer/model, {texts}"
    step = saved_step(deep, deep / "model")
    assert f"induction at step {step}" in verdict["figures"][0]
    done = run("check", "induction", *options, "--data", shallow, "--data", deep, code=1)
    assert "two layers or more, and one" in json.loads(done.stdout)["reason"]
