"""``regard evaluate`` compares a score with the one its recipe expects."""

import csv
import json
import math

import numpy as np
import pytest

from regard.experiments.scores import Expected
from regard.metrics.translation import MetricScore
from regard.tasks import pair_task
from regard.training.recipe import read, task_of
from regard.training.recipe_files import ExpectConfig
from regard.training.run_events import with_dev_as_test
from verb import run


def expects(metric: str, value: float, tolerance: float = 0.5) -> bool:
    """Whether ``value`` is as good as an expected 40, by that measure."""
    expect = ExpectConfig(metric=metric, score=40, tolerance=tolerance, source="a test")
    others = [MetricScore(name, 40.0, "") for name in ("BLEU", "chrF2", "TER") if name != metric]
    return Expected.of(expect, [*others, MetricScore(metric, value, "")]).reached


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
    fault = "this model was not trained for task 'classify'; choose a recipe of its task"
    assert done.stderr == f"regard: {fault}, or train it by this one (its heads: next_token)\n"


def test_the_confusion_matrix_is_printed_and_drawn(owl_run, tmp_path, monkeypatch):
    (recipe,) = owl_run.glob("*.toml")
    command = ("evaluate", owl_run / "run" / "model", recipe, "--data", owl_run)
    svg = tmp_path / "new" / "confusion.svg"
    done = run(*command, "--confusion", "--svg", svg)
    assert f"wrote {svg}" in done.stderr
    record = json.loads(run(*command, "--confusion", "--labels", "--json").stdout)
    labels, counts = record["confusion"]["labels"], np.array(record["confusion"]["counts"])
    assert [one["label"] for one in record["labels"]] == labels
    assert [one["count"] for one in record["labels"]] == counts.sum(1).tolist()
    assert record["accuracy"] == pytest.approx(100 * np.trace(counts) / counts.sum())
    *_, heading = [line for line in done.stdout.splitlines() if line.startswith("gold")]
    assert heading.split() == ["gold", *labels]
    for name, row in zip(labels, counts, strict=True):
        cells = [str(count or "·") for count in row]
        assert [name, *cells] in [line.split() for line in done.stdout.splitlines()]
    drawing = svg.read_text()
    assert drawing.startswith("<svg") and f"{counts.sum()} examples" in drawing
    monkeypatch.setattr("regard.experiments.scores.COLUMNS", 1)
    listed = run(*command, "--confusion").stdout
    assert "predicted" in listed and "·" not in listed


def test_what_has_no_classes_has_no_confusion_matrix(small_run):
    command = ("evaluate", small_run / "run" / "model", small_run / "small.toml")
    for option in (("--confusion",), ("--svg", small_run / "a.svg"), ("--labels",)):
        refused = run(*command, "--data", small_run, *option, code=2)
        assert f"{option[0]}: " in refused.stderr and "has no labels" in refused.stderr
    assert not (small_run / "a.svg").exists()


def test_scores_labels_and_confusion_as_tables(owl_run):
    (recipe,) = owl_run.glob("*.toml")
    command = ("evaluate", owl_run / "run" / "model", recipe, "--data", owl_run)
    record = json.loads(run(*command, "--labels", "--confusion", "--json").stdout)
    tables = run(*command, "--labels", "--confusion", "--format", "csv").stdout.split("\n\n")
    scores, labels, confusion = ([*csv.DictReader(table.splitlines())] for table in tables)
    assert {row["metric"]: float(row["score"]) for row in scores} == {
        name: record[name] for name in record["signatures"]
    }
    assert [float(row["low"]) for row in scores] == [low for low, _ in record["intervals"].values()]
    assert [(row["label"], float(row["F1"])) for row in labels] == [
        (one["label"], one["f1"]) for one in record["labels"]
    ]
    names = record["confusion"]["labels"]
    assert [[int(row[name]) for name in names] for row in confusion] == (
        record["confusion"]["counts"]
    )


def held_out(recipe, target):
    """A short copy of a recipe that holds 7 examples out and has no test set."""
    lines = recipe.read_text().splitlines()
    lines = [line for line in lines if not line.startswith(("test =", "dev ="))]
    lines.insert(lines.index("[data]") + 1, "dev = { held_out = 7 }")
    target.write_text("\n".join(lines))
    return target


FEW = [f"--set=train.{key}=4" for key in ("steps", "checkpoint_every", "evaluate_every")]


def test_the_dev_set_is_scored_that_training_held_out(owl_run, tmp_path):
    (full,) = owl_run.glob("*.toml")
    recipe, more = held_out(full, tmp_path / "held.toml"), ("--data", owl_run, "--device", "cpu")
    run("train", recipe, *more, "--out", tmp_path / "run", *FEW)
    model, log = tmp_path / "run" / "model", tmp_path / "run" / "metrics.jsonl"
    (line,) = run("evaluate", model, recipe, *more, code=2).stderr.splitlines()
    fault = "data.test: the recipe names no test set; add --dev to score its dev set"
    assert line == f"regard: {fault}"
    (dev,) = (one for one in map(json.loads, log.read_text().splitlines()) if one["event"] == "dev")
    told = json.loads(run("evaluate", model, recipe, *more, "--dev", "--json").stdout)
    assert told["set"] == "dev"
    assert {name: told[name] for name in told["signatures"]} == pytest.approx(
        {name: dev[name] for name in told["signatures"]}
    )
    compared = run("compare", model, model, "--recipe", recipe, *more, "--dev", "--json").stdout
    records = map(json.loads, compared.splitlines())
    assert {one["metric"]: one["system"]["value"] for one in records} == {
        name: told[name] for name in told["signatures"]
    }


def test_held_out_pairs_are_those_of_training(small_run, tmp_path, monkeypatch):
    recipe, loaded = held_out(small_run / "small.toml", tmp_path / "held.toml"), []
    load = pair_task.load_pairs
    monkeypatch.setattr(
        pair_task, "load_pairs", lambda *parts: loaded.append(load(*parts)) or loaded[-1]
    )
    run("train", recipe, "--data", small_run, "--out", tmp_path / "run", "--device", "cpu", *FEW)
    task = task_of(with_dev_as_test(read(recipe)))
    pairs = [(source, target) for _, source, target in task.read_required("dev", small_run, None)]
    assert pairs == loaded[0].dev_texts(7) and len(pairs) == 7
