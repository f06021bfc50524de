"""Searches by Optuna: samplers learn from earlier trials, pruners end trials, processes share."""

import json
import subprocess
import sys
from collections import Counter
from math import floor, log10
from statistics import mean

import pytest

import regard
from regard import BadInput
from regard.core.lock import lock_folder
from regard.experiments import tuning_study
from regard.experiments.notes import Note
from regard.experiments.tuning_study import TuningStudy
from regard.training.loop.events import ReportEvent
from small_labels import write_owls

optuna = pytest.importorskip("optuna")
RANGE = {"optimiser.rate": "1e-5..1e-1:log", "train.seed": [1, 2]}
FAST = {"train.steps": 2, "train.evaluate_every": 1}


@pytest.fixture
def owls(tmp_path):
    return write_owls(tmp_path)


def tune(owls, space=RANGE, *, out="search", **options):
    folder = owls.parent / out
    return regard.tune(owls, {**FAST, **space}, owls.parent, folder, device="cpu", **options)


def values_of(tuning):
    return [trial.settings for trial in sorted(tuning.trials, key=lambda trial: trial.folder)]


def test_a_sampler_draws_within_the_ranges_and_repeats_itself(owls):
    first = tune(owls, trials=3, sampler="tpe", seed=4)
    assert [trial.state for trial in first.trials] == ["done"] * 3
    for settings in values_of(first):
        assert 1e-5 <= float(settings["optimiser.rate"]) <= 1e-1
        assert settings["train.seed"] in ("1", "2")
    assert values_of(tune(owls, trials=3, sampler="tpe", seed=4, out="again")) == values_of(first)
    assert values_of(tune(owls, trials=3, sampler="tpe", seed=5, out="more")) != values_of(first)
    stored = json.loads((first.folder / "trials.json").read_text())
    assert stored["sampler"] == "tpe" and len(stored["trials"]) == 3
    values = [trial.value for trial in first.trials]
    assert values == sorted(values, reverse=True)


SLOW = {"gp": pytest.mark.slow}  # fits a Gaussian process before each trial


def told(owls, monkeypatch, sampler, count):
    """Rates of trials that are as good as their rates are near to 0.01, without training."""

    def run_trial(search, name, trial, recipes, **_):
        rate = float(trial["optimiser.rate"])
        return tuning_study.TrialResult(name, trial, "accuracy", -abs(rate - 0.01), 1, "done")

    monkeypatch.setattr(tuning_study, "run_trial", run_trial)
    space = {"optimiser.rate": "1e-4..1:log"}
    tuning = tune(owls, space, trials=count, sampler=sampler, out=sampler)
    return [float(settings["optimiser.rate"]) for settings in values_of(tuning)]


@pytest.mark.parametrize(
    "sampler", [pytest.param(one, marks=SLOW.get(one, ())) for one in tuning_study.SAMPLERS]
)
def test_samplers_learn_or_spread(owls, monkeypatch, sampler):
    if sampler == "qmc":  # each decade has a quarter, but the first trial is drawn at random
        decades = Counter(floor(log10(rate)) for rate in told(owls, monkeypatch, sampler, 17)[1:])
        assert decades == {-4: 4, -3: 4, -2: 4, -1: 4}
        return
    far = [abs(log10(rate) + 2) for rate in told(owls, monkeypatch, sampler, 24)]
    assert mean(far[10:]) < mean(far[:10]) / 1.5  # the first ten are drawn at random


@pytest.mark.slow
def test_a_search_that_is_resumed_has_the_trials_of_one_that_was_not(owls):
    whole = tune(owls, trials=4, sampler="tpe", seed=1)
    tune(owls, trials=2, sampler="tpe", seed=1, out="parts")
    with pytest.raises(BadInput, match="is not empty"):
        tune(owls, trials=4, sampler="tpe", seed=1, out="parts")
    with pytest.raises(BadInput, match="other values or another seed"):
        tune(owls, trials=4, sampler="gp", seed=1, out="parts", resume=True)
    parts = tune(owls, trials=4, sampler="tpe", seed=1, out="parts", resume=True)
    assert values_of(parts) == values_of(whole)
    assert [trial.value for trial in parts.trials] == [trial.value for trial in whole.trials]


def test_a_trial_whose_process_was_killed_goes_on(owls):
    class KilledError(Exception):
        pass

    def kill(event):
        if isinstance(event, ReportEvent):
            raise KilledError

    with pytest.raises(KilledError):
        tune(owls, trials=2, sampler="tpe", on_event=kill)
    remarks = []
    tuning = tune(owls, trials=2, sampler="tpe", resume=True, on_event=remarks.append)
    assert len(tuning.trials) == 2
    notes = [event.text for event in remarks if isinstance(event, Note)]
    assert sum("trial-001 of 2" in note for note in notes) == 1
    whole = tune(owls, trials=2, sampler="tpe", out="whole")
    assert values_of(whole) == values_of(tuning)


@pytest.mark.slow
def test_a_pruner_ends_trials_that_are_worse(owls):
    space = {"optimiser.rate": ["0.02", "0.021", "0.022", "0.023", "0.024", "1e-9"]}
    longer = {"train.steps": 8, "train.evaluate_every": 2}
    remarks = []
    tuning = tune(owls, {**longer, **space}, pruner="median", on_event=remarks.append)
    by_rate = {trial.settings["optimiser.rate"]: trial for trial in tuning.trials}
    assert by_rate["1e-9"].state == "pruned" and by_rate["1e-9"].step < 8
    assert any("ended early" in event.text for event in remarks if isinstance(event, Note))
    assert tuning.best.state == "done" and (tuning.model / "config.json").is_file()
    assert tuning.trials[-1].settings["optimiser.rate"] == "1e-9"


@pytest.mark.slow
def test_what_another_process_trains_is_left_to_it(owls):
    first = tune(owls, trials=1, sampler="tpe")
    with lock_folder(first.folder / "trial-002"):
        program = (
            "import sys, regard; from pathlib import Path; folder = Path(sys.argv[1]); "
            f"settings = { ({**FAST, **RANGE})!r}; "
            "done = regard.tune(folder / 'owls.toml', settings, folder, folder / 'search', "
            "trials=3, sampler='tpe', resume=True, device='cpu', on_event=lambda event: None); "
            "print(*(trial.folder for trial in done.trials))"
        )
        arguments = [sys.executable, "-c", program, owls.parent]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=600)
    assert sorted(done.stdout.split()) == ["trial-001", "trial-003"], done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "tqe", "trials": 2}, "sampler: there is no 'tqe'; did you mean 'tpe'?"),
        ({"sampler": "tpe"}, "sampler: needs a number of trials"),
        ({"pruner": "medium", "trials": 2}, "pruner: there is no 'medium'; did you mean 'median'?"),
        (
            {"pruner": "median", "trials": 2, "seeds": 2},
            "pruner: cannot be used with several seeds",
        ),
    ],
)
def test_wrong_searches_are_refused(owls, options, message):
    with pytest.raises(BadInput) as caught:
        tune(owls, {"optimiser.rate": [0.1, 0.2]}, **options)
    assert str(caught.value) == message
    assert not (owls.parent / "search").exists()


def test_a_first_trial_that_is_wrong_leaves_nothing(owls):
    with pytest.raises(BadInput, match=r"optimiser\.rate"):
        tune(owls, {"optimiser.rate": "-2..-1"}, trials=2, sampler="tpe")
    assert not (owls.parent / "search").exists()


def test_a_damaged_database_is_named(owls):
    tuning = tune(owls, trials=1, sampler="tpe")
    (tuning.folder / tuning_study.DATABASE).write_bytes(b"no database at all" * 100)
    with pytest.raises(BadInput, match=r"trials\.db: is no database of Optuna"):
        tune(owls, trials=2, sampler="tpe", resume=True)


def test_without_optuna_the_extra_is_named(owls, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(BadInput, match=r"Optuna is not installed; .*regard\[tune\]"):
        tune(owls, trials=1, sampler="tpe")
    assert not (owls.parent / "search").exists()
    assert len(tune(owls, {"optimiser.rate": ["0.01", "0.02"]}).trials) == 2  # needs none


def test_the_study_is_closed_after_an_error(owls, monkeypatch):
    closed = []
    own = TuningStudy.close
    monkeypatch.setattr(TuningStudy, "close", lambda self: (closed.append(1), own(self)))
    monkeypatch.setattr(tuning_study, "run_trial", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tune(owls, trials=1, sampler="tpe")
    assert closed == [1]
