"""``regard compare``: two models on the test sets of a recipe."""

import csv
import json
from functools import partial

import pytest
import torch

import regard
from regard.experiments.comparison import paired
from regard.metrics.classification import classification_scores
from regard.metrics.intervals import TRIALS, randomisation_p_value
from small_gpt import write_gpt2
from verb import run


def worse(folder, target):
    """A copy of a model with noise in its weights."""
    model = regard.load(folder, "cpu")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    model.save(target)
    return target


@pytest.fixture(scope="module")
def owls(owl_run, tmp_path_factory):
    (recipe,) = owl_run.glob("*.toml")
    folder = owl_run / "run" / "model"
    other = worse(folder, tmp_path_factory.mktemp("worse") / "model")
    return folder, other, "--recipe", recipe, "--data", owl_run, "--device", "cpu"


@pytest.fixture
def few_trials(monkeypatch):
    """A tenth of the trials of the test by randomisation: its p-values are tested elsewhere."""
    few = partial(randomisation_p_value, trials=TRIALS // 10)
    monkeypatch.setattr("regard.metrics.intervals.randomisation_p_value", few)


@pytest.mark.slow
def test_scores_are_those_of_evaluate(owls):
    folder, other, _, recipe, *rest = owls
    records = [json.loads(line) for line in run("compare", *owls, "--json").stdout.splitlines()]
    for name, model in (("baseline", folder), ("system", other)):
        told = json.loads(run("evaluate", model, recipe, *rest, "--json").stdout)
        assert {one["metric"]: one[name]["value"] for one in records} == {
            metric: told[metric] for metric in told["signatures"]
        }
    accuracy = next(one for one in records if one["metric"] == "accuracy")
    assert set(accuracy["p_values"]) == {"bootstrap", "randomisation", "mcnemar"}
    assert accuracy["p_values"].pop("bootstrap") is None  # below 50 examples
    assert all(0 < p <= 1 for p in accuracy["p_values"].values())
    low, high = accuracy["interval"]
    assert low <= accuracy["difference"] <= high


@pytest.mark.usefixtures("few_trials")
def test_python_compares_as_the_verb_does(owls):
    folder, other, _, recipe, _, data, *_ = owls
    result = regard.compare(folder, other, recipe=recipe, data=data, device="cpu")
    assert f"{result}\n" == run("compare", *owls).stdout
    records = [json.loads(line) for line in run("compare", *owls, "--json").stdout.splitlines()]
    assert json.loads(json.dumps([*result.records()])) == records
    told = []
    regard.compare(
        folder, other, recipe=recipe, data=data, on_dev=True, skip_bad=True, on_event=told.append
    )
    assert all("dropped" in str(note.text) for note in told)


@pytest.mark.usefixtures("few_trials")
def test_a_table(owls):
    folder, other, *_ = owls
    head, *lines = run("compare", *owls).stdout.splitlines()
    assert head.split() == (
        ["metric", "A", "B", "B", "-", "A", "low", "high", "bootstrap", "randomisation", "mcnemar"]
    )
    assert [line.split()[0] for line in lines[:3]] == ["accuracy", "macro-F1", "Matthews"]
    assert lines[1].split()[-1] == "–"  # macro-F1 is no share of right examples
    assert "bootstrap: below 50 examples it rejects too often; see randomisation" in lines
    assert f"A: {folder}" in lines and f"B: {other}" in lines
    (row, *_) = csv.DictReader(run("compare", *owls, "--format", "csv").stdout.splitlines())
    assert float(row["B - A"]) == pytest.approx(float(row["B"]) - float(row["A"]))


def test_intervals_are_those_of_b_minus_a():
    golds, wrong = ["yes", "no"] * 40, {"yes": "no", "no": "yes"}
    answers = [
        [wrong[one] if n < errors else one for n, one in enumerate(golds)] for errors in (8, 40)
    ]
    for metric in paired("test", *(classification_scores(golds, one) for one in answers)):
        low, high = metric.interval
        assert metric.test_set == "test" and low < metric.difference < high < 0
        assert metric.difference == metric.system.value - metric.baseline.value
        assert metric.p_values["randomisation"] < 0.01


@pytest.mark.usefixtures("few_trials")
def test_translators_and_a_model_with_itself(small_run):
    model = small_run / "run" / "model"
    told = ("--recipe", small_run / "small.toml", "--data", small_run, "--device", "cpu")
    done = run("compare", model, model, *told, "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["metric"] for one in records] == ["BLEU", "chrF2", "TER"]
    assert {one["set"] for one in records} == {"test"}
    for one in records:
        assert one["difference"] == 0 and one["interval"] == [0, 0]
        assert one["p_values"] == {"bootstrap": None, "randomisation": 1, "mcnemar": None}
    (line, *_) = run("compare", model, model, *told, "--dev", "--json").stdout.splitlines()
    assert json.loads(line)["set"] == "dev"


def test_what_is_wrong_is_reported(owls, tmp_path):
    folder, *_ = owls
    (line,) = run("compare", folder, tmp_path / "none", *owls[2:], code=2).stderr.splitlines()
    assert str(tmp_path / "none") in line
    assert "Missing option '--recipe'" in run("compare", folder, folder, code=2).stderr


@pytest.mark.parametrize("rows", ["documents", "blocks"])
def test_perplexity_is_compared_by_documents(tmp_path, rows):
    for seed in (0, 1):
        write_gpt2(tmp_path / f"gpt2-{seed}", seed=seed)
    documents = "the old man\n\nthe storm came in\n\nthe cat sat on it\n\na dog\n"
    (tmp_path / "text").write_text(documents)
    (tmp_path / "lm.toml").write_text(
        'task = "pretrain"\n[data]\ntrain = { documents = "text" }\ndev = { held_out = 1 }\n'
        'test = { documents = "text" }\n[text]\nvocab = 300\n[model]\npaper = "gpt-2"\n'
        f'[objective.causal-lm]\nrows = "{rows}"\n[batches]\nlongest = 32\n'
        "[optimiser]\nrate = 1e-3\n[train]\nsteps = 1\nsmoothing = 0.0\n"
    )
    models = (tmp_path / "gpt2-0", tmp_path / "gpt2-1")
    told = ("--recipe", tmp_path / "lm.toml", "--data", tmp_path, "--device", "cpu")
    (line,) = run("compare", *models, *told, "--json").stdout.splitlines()
    record = json.loads(line)
    assert record["metric"] == "perplexity" and record["difference"] != 0
    if rows == "blocks":  # one text, so one example
        assert record["p_values"] == {} and record["interval"] is None
    else:
        assert 0 < record["p_values"]["randomisation"] <= 1
    assert "lower is better: perplexity" in run("compare", *models, *told).stdout
    (line,) = run("compare", *models, *told, "--dev", code=2).stderr.splitlines()
    fault = "data.dev.held_out: held-out documents have no file of their own"
    assert line == f"regard: {fault}; name a test set (data.test)"
