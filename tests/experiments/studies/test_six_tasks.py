"""The study of six tasks: cells, scores, gains, and runs that were stopped."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import regard
from regard import BadInput, mean_interval
from regard.cli.verbs.study import STUDIES
from regard.core.files import write_text
from regard.experiments.studies import six_tasks
from regard.experiments.studies.six_tasks import (
    SIX_TASKS,
    WAYS,
    CellResult,
    PublishedScores,
    SeedScore,
    SixTasksStudy,
    SixTasksTable,
    StudiedTask,
    choose_cells,
)
from regard.training.recipe_files import find
from small_tuning import write_start, write_tuning
from verb import run

PUBLISHED = PublishedScores(50.0, 40.0, 60.5, 70.0, "a paper")
SHORT = "evaluate_every = 2\ncheckpoint_every = 1"
STUBBED = """
import sys
from regard.cli import main
from regard.experiments.studies import six_tasks
from regard.experiments.studies.six_tasks import PublishedScores, StudiedTask
six_tasks.SIX_TASKS = eval(sys.argv.pop(1))
main()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A root with two tasks: files and recipes in folders, and an encoder to start from."""
    root = tmp_path_factory.mktemp("data")
    for name, kind in (("texts", "one"), ("words", "tags")):
        (root / name).mkdir()
        recipe = write_tuning(root / name, kind)
        text = re.sub("steps = 12", "steps = 4", recipe.read_text())
        text = re.sub("evaluate_every = 6\ncheckpoint_every = 3", SHORT, text)
        text = text.replace('precision = "fp32"', 'precision = "auto"')
        recipe.write_text(text)
        before, after = text[: text.index("[text]")], text[text.index("[batches]") :]
        labels = '[labels]\nscheme = "BIOES"\n\n' if kind == "tags" else ""
        model = '[model]\npaper = "bert"\nstart = "encoder"\n\n'
        (root / name / "tuned.toml").write_text(before + labels + model + after)
    write_start(root / "start")
    return root


def tasks_of(data: Path) -> tuple[StudiedTask, ...]:
    texts, words = data / "texts", data / "words"
    recipes = (str(texts / "owls.toml"), "no-such-recipe", str(texts / "tuned.toml"))
    tags = (str(words / "owls.toml"), str(words / "owls.toml"), str(words / "missing.toml"))
    return (
        StudiedTask("owls", "Owls?", "accuracy", "texts", recipes, PUBLISHED, "texts about owls"),
        StudiedTask("birds", "Birds", "F1", "words", tags, PublishedScores(1, 2, 3), "tags"),
    )


@pytest.fixture
def stubbed(data, monkeypatch) -> Path:
    monkeypatch.setattr(six_tasks, "SIX_TASKS", tasks_of(data))
    return data


def study(data: Path, out: Path, *more: object, code: int = 0):
    return run(
        "study", "six-tasks", "--data", data, "--out", out, "--device", "cpu", *more, code=code
    )


def records(done) -> dict[tuple[str, str], dict]:
    lines = [*map(json.loads, done.stdout.splitlines())]
    return {(one["task"], one["way"]): one for one in lines}


@pytest.mark.slow
def test_every_cell_is_trained_or_has_its_reason(stubbed, tmp_path):
    out, start = tmp_path / "out", f"encoder={stubbed / 'start'}"
    cells = records(study(stubbed, out, "--starts", start, "--seeds", 2, "--json", code=1))
    assert [*cells] == [(task, way) for task in ("owls", "birds") for way in WAYS]
    for name in (("owls", "baseline"), ("owls", "fine-tuned"), ("birds", "baseline")):
        cell = cells[name]
        folder = out / "-".join(name)
        stored = json.loads((folder / "scores.json").read_text())
        scores = [one["score"] for one in stored["runs"]]
        assert cell["seeds"] == 2 and cell["remark"] == "" and cell["minutes"] > 0
        assert cell["score"] == pytest.approx(sum(scores) / 2)
        assert (cell["score low"], cell["score high"]) == pytest.approx(mean_interval(scores))
        for number, score in enumerate(scores, start=1):
            used = json.loads((folder / f"seed-{number}" / "recipe.json").read_text())
            assert used["train"]["seed"] == number
            model, recipe = folder / f"seed-{number}" / "model", Path(cell["recipe"])
            again = run("evaluate", model, recipe, "--data", recipe.parent, "--json").stdout
            assert json.loads(again)[cell["metric"]] == pytest.approx(score)
    tuned = cells["owls", "fine-tuned"]
    assert tuned["gain"] == pytest.approx(tuned["score"] - cells["owls", "baseline"]["score"])
    assert cells["owls", "baseline"]["gain"] is None and tuned["published"] == 70.0
    assert "no recipe is called 'no-such-recipe'" in cells["owls", "elmo"]["remark"]
    assert "missing.toml: no such recipe file" in cells["birds", "fine-tuned"]["remark"]
    for name in (("owls", "elmo"), ("birds", "fine-tuned")):
        assert cells[name]["score"] is None and not (out / "-".join(name)).exists()
    assert "texts about owls" in (out / "six-tasks.html").read_text()


def test_the_table_has_published_scores_and_reasons(stubbed, tmp_path):
    done = study(stubbed, tmp_path / "out", "--cells", "owls", code=1)
    head, owls, *notes = done.stdout.splitlines()
    assert "previous best  published baseline  published + ELMo" in head
    assert owls.split()[:6] == ["Owls?", "accuracy", "50.0", "40.0", "60.5", "70.0"]
    assert owls.split()[7:] == ["–", "–"]
    assert "Owls?: texts about owls; fine-tuned: a paper" in notes
    missing = [line for line in notes if line.startswith("owls/fine-tuned: not trained: ")]
    assert "model.start: encoder" in missing[0]
    assert "Birds" not in done.stdout and "not chosen" not in done.stdout
    csv = study(stubbed, tmp_path / "out", "--cells", "birds/elmo", "--format", "csv").stdout
    assert "owls,baseline," in csv and "not trained" not in csv
    everything = study(stubbed, tmp_path / "out", "--format", "markdown", code=1).stdout
    assert "| Owls? | accuracy |" in everything and "| Birds | F1 | 1 | 2 | 3 | – |" in everything


@pytest.mark.slow
def test_finished_runs_are_not_trained_again(stubbed, tmp_path, monkeypatch):
    out, trained = tmp_path / "out", []
    monkeypatch.setattr(
        six_tasks,
        "train_events",
        lambda *a, **k: trained.append(a[2]) or regard.train_events(*a, **k),
    )
    first = records(study(stubbed, out, "--cells", "baseline", "--json"))
    assert trained == [out / "owls-baseline" / "seed-1", out / "birds-baseline" / "seed-1"]
    again = records(study(stubbed, out, "--cells", "baseline", "--json"))
    assert len(trained) == 2 and again == first
    study(stubbed, out, "--cells", "owls/baseline", "--seeds", 2)
    assert trained[2:] == [out / "owls-baseline" / "seed-2"]
    stored = [json.loads((folder / "recipe.json").read_text()) for folder in trained[::2]]
    chosen = json.loads((out / "owls-baseline" / "scores.json").read_text())["runs"]
    assert [recipe["train"]["precision"] for recipe in stored] == ["auto", chosen[0]["precision"]]


def test_a_stopped_study_goes_on_with_the_same_weights(stubbed, tmp_path, monkeypatch):
    def weights(out: Path) -> bytes:
        return (out / "birds-baseline" / "seed-1" / "model" / "model.safetensors").read_bytes()

    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    expected = records(study(stubbed, straight, "--cells", "baseline", "--json"))
    lines: list[str] = []

    def stop(line: str) -> None:
        lines.append(line)
        if len([one for one in lines if "dev" in one]) == 3:  # the first of the second cell
            raise KeyboardInterrupt

    cells = choose_cells(six_tasks.SIX_TASKS, ["baseline"], {})
    with pytest.raises(KeyboardInterrupt):
        SixTasksStudy(stopped, stubbed, 1, "cpu", stop, write_text, str).run(cells)
    assert (stopped / "owls-baseline" / "scores.json").exists()
    assert not (stopped / "birds-baseline" / "scores.json").exists()
    done = study(stubbed, stopped, "--cells", "baseline", "--json")
    assert "owls/baseline, seed" not in done.stderr and "resumed after step 1" in done.stderr
    for name, cell in records(done).items():
        assert {**cell, "minutes": 0} == {**expected[name], "minutes": 0}
    assert weights(stopped) == weights(straight)


@pytest.mark.slow
def test_a_killed_study_goes_on(data, tmp_path):
    out, tasks = tmp_path / "out", repr(tasks_of(data))
    options = ("--data", data, "--out", out, "--cells", "baseline", "--device", "cpu", "--json")
    called = [sys.executable, "-c", STUBBED, tasks, "study", "six-tasks", *map(str, options)]
    process = subprocess.Popen(called, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = out / "birds-baseline" / "seed-1" / "checkpoints"
    for _ in range(600):
        if checkpoints.is_dir() and len([*checkpoints.iterdir()]) > 1:
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    done = subprocess.run(called, capture_output=True, text=True, check=True)
    assert "owls/baseline, seed 1" not in done.stderr
    cells = [json.loads(line) for line in done.stdout.splitlines()]
    assert [cell["seeds"] for cell in cells] == [1, 0, 0, 1, 0, 0]


@pytest.mark.slow
def test_what_other_data_or_starts_gave_is_refused(stubbed, tmp_path):
    out, start = tmp_path / "out", stubbed / "start"
    tuned = ("--cells", "owls/fine-tuned")
    study(stubbed, out, *tuned, "--starts", f"encoder={start}")
    assert records(study(stubbed, out, *tuned, "--json"))["owls", "fine-tuned"]["seeds"] == 1
    more = study(stubbed, out, *tuned, "--seeds", 2, code=2).stderr
    assert "scores.json: its runs have other settings" in more
    other = study(stubbed, out, *tuned, "--starts", "encoder=elsewhere", code=2).stderr
    assert f"have other settings ({{'model.start': '{start}'}})" in other
    assert "have other data" in study(tmp_path, out, *tuned, code=2).stderr
    scores = out / "owls-fine-tuned" / "scores.json"
    scores.write_text(scores.read_text()[:-20])
    assert "scores.json: damaged; remove it" in study(stubbed, out, code=2).stderr


@pytest.mark.parametrize("content", ['{"runs": [', '{"runs": [{"seed": 1}]}', "[]", "RUN"])
def test_damaged_scores_of_a_cell_that_is_not_chosen_are_its_reason(stubbed, tmp_path, content):
    bad = {"seed": 1, "score": "high", "signature": "", "minutes": 1.0, "precision": "fp32"}
    path = tmp_path / "out" / "birds-baseline" / "scores.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"runs": [bad]}) if content == "RUN" else content)
    done = study(stubbed, tmp_path / "out", "--cells", "owls/elmo", "--json", code=1)
    remark = records(done)["birds", "baseline"]["remark"]
    assert remark == f"{path}: damaged; remove it, and its runs are scored again"


@pytest.mark.slow
def test_a_seed_that_fails_is_told_and_the_exit_code_is_1(stubbed, tmp_path, monkeypatch):
    def fail(*given, settings, **options):
        if settings["train.seed"] == 2:
            raise BadInput("the disk is full")
        return regard.train_events(*given, settings=settings, **options)

    monkeypatch.setattr(six_tasks, "train_events", fail)
    cells, out = ("--cells", "birds/baseline", "--seeds", 2), tmp_path / "out"
    done = study(stubbed, out, *cells, code=1)
    assert "birds/baseline: seed 2 is not trained: the disk is full" in done.stdout
    assert re.search(r"^Birds .* \d+\.\d\d \(incomplete\)", done.stdout, re.MULTILINE)
    monkeypatch.undo()
    monkeypatch.setattr(six_tasks, "SIX_TASKS", tasks_of(stubbed))
    done = study(stubbed, out, *cells)
    assert "our scores: means over 2 seeds, with the 95% interval" in done.stdout
    assert "incomplete" not in done.stdout


def test_data_without_any_folder_of_the_tasks_is_refused_in_a_line(stubbed, tmp_path):
    done = study(tmp_path, tmp_path / "out", code=2)
    fault = f"{tmp_path}: has no folder texts or words, where recipes find files"
    assert done.stderr.splitlines() == [f"regard: {fault}"]
    assert not (tmp_path / "out").exists()


def test_a_study_without_any_score_fails(stubbed, tmp_path):
    done = study(stubbed, tmp_path / "out", "--cells", "owls/elmo", code=1)
    assert "owls/elmo: not trained: no recipe is called" in done.stdout
    assert "our scores: none; published" in done.stdout


def test_the_exit_code_is_that_of_the_chosen_cells(stubbed, tmp_path):
    out = tmp_path / "out"
    study(stubbed, out, "--cells", "owls/baseline")
    done = study(stubbed, out, "--cells", "owls/elmo", code=1)
    assert "owls/elmo: not trained: no recipe is called" in done.stdout
    study(stubbed, out, "--cells", "owls/baseline")
    study(stubbed, out, "--cells", "owls/baseline", "--cells", "owls/elmo", code=1)


@pytest.mark.slow
def test_scores_of_other_data_are_not_mixed(stubbed, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other"
    study(stubbed, out, "--cells", "owls/baseline")
    shutil.copytree(stubbed / "texts", other / "texts")
    tuned = ("--cells", "owls/fine-tuned", "--starts", f"encoder={stubbed / 'start'}")
    cells = records(study(other, out, *tuned, "--json"))
    baseline = cells["owls", "baseline"]
    assert baseline["score"] is None and baseline["seeds"] == 0
    assert f"its runs have other data ({stubbed})" in baseline["remark"]
    assert cells["owls", "fine-tuned"]["seeds"] == 1
    assert cells["owls", "fine-tuned"]["gain"] is None


@pytest.mark.slow
def test_scores_of_a_start_that_has_changed_are_refused(stubbed, tmp_path):
    out, start = tmp_path / "out", tmp_path / "start"
    shutil.copytree(stubbed / "start", start)
    tuned = ("--cells", "owls/fine-tuned", "--starts", f"encoder={start}")
    study(stubbed, out, *tuned)
    study(stubbed, out, *tuned)
    (start / "config.json").write_text((start / "config.json").read_text() + "\n")
    assert "scores.json: its runs have other start (" in study(stubbed, out, *tuned, code=2).stderr


@pytest.mark.slow
def test_a_metric_that_is_not_measured_is_a_reason(data, tmp_path):
    task = tasks_of(data)[0]._replace(metric="BLEU")
    lines: list[str] = []
    cells = choose_cells([task], ["baseline"], {})
    study = SixTasksStudy(tmp_path / "out", data, 1, "cpu", lines.append, write_text, str)
    table = study.run(cells)
    assert table.results[0].reason.endswith("BLEU is not measured on a test set (data.test)")


def test_gains_are_of_the_same_seeds():
    baseline, elmo, tuned = choose_cells(SIX_TASKS[:1], (), {})
    scores = {1: 80.0, 2: 82.0, 3: 90.0}
    runs = tuple(SeedScore(seed, score, "n:9", 1.5, "fp32") for seed, score in scores.items())
    better = tuple(
        SeedScore(seed, scores[seed] + 1 + seed / 10, "n:9", 2.0, "fp32") for seed in (1, 2)
    )
    table = SixTasksTable(
        [CellResult(baseline, runs), CellResult(elmo, better), CellResult(tuned, reason="none")]
    )
    first, second, third = table.records()
    low, high = mean_interval([1.1, 1.2])
    gains = (second["gain"], second["gain low"], second["gain high"])
    assert gains == pytest.approx((1.15, low, high))
    assert first["minutes"] == 4.5 and third["score"] is None and third["minutes"] is None
    low, high = mean_interval([*scores.values()])
    assert table.rows[0][6] == f"84.00 [{low:.2f}, {high:.2f}]" and table.rows[0][8] == "–"
    alone = replace(table, results=[CellResult(baseline, runs[:1])])
    assert alone.rows[0][6] == "80.00" and "one seed" in alone.notes[0]
    assert "our scores: means over 2 to 3 seeds" in table.notes[0]


def test_cells_are_chosen_by_task_way_or_both():
    def chosen(*names: str) -> list[str]:
        return [cell.name for cell, yes in choose_cells(SIX_TASKS, names, {}).items() if yes]

    assert len(chosen()) == 18 and chosen("snli") == [f"snli/{way}" for way in WAYS]
    assert chosen("elmo", "sst5/baseline")[-2:] == ["sst5/baseline", "sst5/elmo"]
    starts = {"elmo": "a", "encoder": "b"}
    settings = [cell.settings for cell in choose_cells(SIX_TASKS[:1], (), starts)]
    assert settings == [{}, {"model.features": "a"}, {"model.start": "b"}]
    with pytest.raises(BadInput, match="no cell is called 'snli/bert'; there are squad, snli"):
        chosen("snli/bert")


def test_the_recipes_of_this_package_fit_the_table():
    names = {name for task in SIX_TASKS for name in task.recipes}
    assert len(names) == 18
    for name in ("conll2003-glove", "conll2003-glove-elmo", "conll2003", "snli", "sst5", "squad"):
        assert name in names and find(name)


def test_all_studies_are_listed():
    lines = run("study").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*STUDIES]
    assert {json.loads(line)["study"] for line in run("study", "--json").stdout.splitlines()} == {
        *STUDIES
    }
