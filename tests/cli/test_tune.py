"""Hyper-parameter search: trials in folders, judged on the development set, and resumed."""

import json

import pytest

import regard
from regard.training.checkpoint import Checkpoints
from small_labels import write_owls
from verb import run


@pytest.fixture
def owls(tmp_path):
    return write_owls(tmp_path)


def tune(recipe, *more, code=0):
    place = ("--data", recipe.parent, "--out", recipe.parent / "search", "--device", "cpu")
    settings = ("--set", "train.steps=6", "--set", "train.evaluate_every=3")
    return run("tune", recipe, *place, *settings, *more, code=code)


def rows_of(done):
    header, *rows = done.stdout.splitlines()
    return header, [row.split() for row in rows]


def test_a_grid_is_judged_on_dev_and_sorted(owls):
    values = ("--set", "optimiser.rate=0.00001,0.02", "--set", "train.seed=1,2")
    done = tune(owls, *values)
    header, rows = rows_of(done)
    assert header.split() == [
        "trial",
        "optimiser.rate",
        "train.seed",
        "dev",
        "accuracy",
        "step",
        "state",
    ]
    assert sorted(row[0] for row in rows) == [f"trial-00{n}" for n in range(1, 5)]
    scores = [float(row[3]) for row in rows]
    assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1]
    folder = owls.parent / "search"
    for name, *_, score, step, state in rows:
        checkpoints = Checkpoints(folder / name / "checkpoints")
        progress = checkpoints.progress(checkpoints.steps()[-1])
        assert state == "done" and int(step) == progress.best_step
        assert float(score) == pytest.approx(progress.best, abs=0.05)
    best = rows[0][0]
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"best: {folder / best / 'model'}  optimiser.rate=0.02 train.seed=")
    assert run("predict", folder / best / "model", stdin="an owl\n").stdout
    assert "examples:" not in done.output  # no test set is scored


def test_by_loss_the_lowest_is_the_best(owls):
    values = ("--set", "optimiser.rate=0.00001,0.02", "--set", "train.metric=loss")
    header, rows = rows_of(tune(owls, *values))
    assert "dev loss" in header
    assert [row[1] for row in rows] == ["0.02", "0.00001"]
    assert 0 < float(rows[0][2]) < float(rows[1][2])


def test_each_trial_is_judged_by_the_mean_of_its_seeds(owls):
    values = ("--set", "optimiser.rate=0.00001,0.02", "--seeds", 2)
    done = tune(owls, *values, "--json")
    folder, results = owls.parent / "search", [*map(json.loads, done.stdout.splitlines())]
    assert [result["settings"]["optimiser.rate"] for result in results] == ["0.02", "0.00001"]
    for result in results:
        found = {}
        for seed in (1, 2):
            checkpoints = Checkpoints(folder / result["folder"] / f"seed-{seed}" / "checkpoints")
            found[seed] = checkpoints.progress(checkpoints.steps()[-1]).best
        assert result["values"] == [*found.values()]
        assert result["value"] == pytest.approx(sum(found.values()) / 2)
        assert found[result["seed"]] == max(found.values())
    best = folder / results[0]["folder"] / f"seed-{results[0]['seed']}" / "model"
    assert done.stderr.splitlines()[-1] == f"best: {best}  optimiser.rate=0.02"
    assert run("predict", best, stdin="an owl\n").stdout
    stored = json.loads((folder / "trials.json").read_text())
    assert stored["seeds"] == 2
    again = tune(owls, *values, "--resume")
    header, _ = rows_of(again)
    assert "of seeds" in header and "trial-001" in again.stdout and "of 2:" not in again.stderr
    other = tune(owls, *values[:2], "--resume", code=2)
    assert "was started with other values" in other.stderr


def test_python_searches_as_the_verb_does(owls, tmp_path):
    done = tune(owls, "--set", "optimiser.rate=0.00001,0.02", "--json")
    settings: dict[str, object] = {"train.steps": 6, "train.evaluate_every": 3}
    settings["optimiser.rate"], told = ["0.00001", 0.02], []
    result = regard.tune(
        owls, settings, owls.parent, tmp_path / "runs", device="cpu", on_event=told.append
    )
    assert json.loads(json.dumps([*result.records()])) == [
        json.loads(line) for line in done.stdout.splitlines()
    ]
    assert (result.model / "config.json").is_file() and result.best.value is not None
    assert any(isinstance(event, regard.DevEvent) for event in told)
    with pytest.raises(regard.BadInput, match="no setting has several values"):
        regard.tune(owls, {"optimiser.rate": 0.1}, owls.parent, tmp_path / "other")


def test_a_ladder_is_not_tuned(owls):
    owls.write_text(owls.read_text() + '\n[[rung]]\nname = "small"\nmodel = { paper = "lin" }\n')
    refused = tune(owls, "--set", "optimiser.rate=0.01,0.02", code=2)
    assert "a ladder has several models; tune the recipe of one" in refused.stderr


def test_a_search_is_resumed_and_made_longer(owls):
    values = ("--set", "optimiser.rate=1e-5..0.02:log", "--seed", 3)
    _, first = rows_of(tune(owls, *values, "--trials", 2))
    folder = owls.parent / "search"
    assert "is not empty; use --resume" in tune(owls, *values, "--trials", 2, code=2).stderr
    stored = json.loads((folder / "trials.json").read_text())
    stored["trials"] = [row for row in stored["trials"] if row["folder"] == "trial-001"]
    (folder / "trials.json").write_text(json.dumps(stored))  # as if stopped in the second trial
    done = tune(owls, *values, "--trials", 3, "--resume")
    assert "trial-001 of 3" not in done.stderr and "trial-002 of 3" in done.stderr
    assert "resumed after step 6" in done.stderr and "trial-003 of 3" in done.stderr
    _, rows = rows_of(done)
    assert [row for row in rows if row[0] != "trial-003"] == first
    again = tune(owls, *values, "--trials", 3, "--resume")
    assert rows_of(again)[1] == rows and "of 3" not in again.stderr
    other = ("--set", "optimiser.rate=1e-5..0.03:log", "--seed", 3, "--trials", 3, "--resume")
    assert "was started with other values" in tune(owls, *other, code=2).stderr
    (folder / "trials.json").write_text('{"settings": null, "trials": [{}]}')
    assert "other values" in tune(owls, *values, "--trials", 3, "--resume", code=2).stderr
    (folder / "trials.json").write_text(json.dumps({**stored, "trials": [{}]}))
    damaged = tune(owls, *values, "--trials", 3, "--resume", code=2).stderr
    assert "trials.json: damaged (trials)" in damaged
    (folder / "trials.json").write_text(json.dumps(stored))
    changed = (*values[:2], "--seed", 4, "--trials", 3, "--resume")
    assert "another seed" in tune(owls, *changed, code=2).stderr


def test_a_trial_that_diverges_is_last_and_the_search_goes_on(owls):
    done = tune(owls, "--set", "optimiser.rate=1e8,0.02")
    _, rows = rows_of(done)
    assert [row[0] for row in rows] == ["trial-002", "trial-001"]
    assert rows[1][-1] == "diverged" and rows[1][2] == "–"
    assert "training diverges" in done.stderr
    assert "trial-002/model" in done.stderr.splitlines()[-1]


def test_a_search_without_a_result_fails(owls):
    done = tune(owls, "--set", "optimiser.rate=1e8,1e9", code=1)
    assert "no trial has a result" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("optimiser.rate=0.1",), "no setting has several values"),
        (("optimiser.rat=0.1,0.2",), "unknown key 'optimiser.rat'; did you mean 'rate'?"),
        (("optimiser.rate=0.1,fast",), "setting optimiser.rate=fast: optimiser.rate: "),
        (("optimiser.rate=1e-3..1e-2",), "a grid needs the number of points"),
        (("model.change.width=12,13", "data.train.table=no.tsv"), "no.tsv: "),
    ],
)
def test_wrong_settings_are_one_line_and_nothing_is_written(owls, settings, message):
    before = sorted(owls.parent.rglob("*"))
    told = [word for setting in settings for word in ("--set", setting)]
    done = tune(owls, *told, code=2)
    assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.output
    assert sorted(owls.parent.rglob("*")) == before


def test_results_as_json(owls):
    done = tune(owls, "--set", "optimiser.rate=0.00001,0.02", "--json")
    best, other = map(json.loads, done.stdout.splitlines())
    assert best["settings"] == {"optimiser.rate": "0.02"} and best["value"] > other["value"]
