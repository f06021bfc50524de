"""One recipe with several seeds: folders, one table, the mean and the expected score."""

import json
from statistics import mean, stdev

import pytest

import regard
from regard.experiments.training import Spread, spreads_of, with_train_keys
from regard.metrics.translation import MetricScore
from regard.training.checkpoint import Checkpoints
from regard.training.recipe import read
from small_labels import write_owls
from small_tuning import write_tuning
from verb import run

PROMISE = '[expect]\nmetric = "accuracy"\nscore = {}\ntolerance = 0.0\nsource = "x"\n'


@pytest.fixture
def corpus(tmp_path):
    write_tuning(tmp_path, "one")
    return tmp_path


def test_a_spread_is_that_of_a_sample():
    tables = [{"test": [MetricScore("F1", value, "")]} for value in (80.0, 90.0, 94.0)]
    (one,) = spreads_of(tables)
    assert one == Spread("test", "F1", (80.0, 90.0, 94.0))
    assert one.mean == 88.0 and one.deviation == pytest.approx(52**0.5)


@pytest.fixture
def units(monkeypatch):
    """Sets the precision that the machine chooses."""

    def take(kind):
        monkeypatch.setattr("regard.training.precision.has_bf16_units", lambda _: kind == "bf16")

    return take


MACHINES = [("fp32", "bf16"), pytest.param("bf16", "fp32", marks=pytest.mark.native("bf16"))]
AUTO = ("--set", "train.precision=auto", "--set", "train.steps=2")


def precisions_in(folder):
    stored = (Checkpoints(run / "checkpoints") for run in sorted(folder.iterdir()) if run.is_dir())
    return [runs.progress(2).settings["precision"] for runs in stored]


@pytest.mark.parametrize(("first", "second"), MACHINES)
def test_all_seeds_run_in_the_precision_of_the_first(corpus, units, first, second):
    """Also those that another machine runs."""
    out = corpus / "runs"
    told = ("--data", corpus, *AUTO)
    units(first)
    run("train", corpus / "owls.toml", *told, "--out", out / "seed-1")
    units(second)
    run("train", corpus / "owls.toml", *told, "--out", out, "--seeds", 2, "--resume")
    assert precisions_in(out) == [first, first]


@pytest.mark.parametrize(("first", "second"), MACHINES)
def test_all_trials_of_a_search_run_in_one_precision(corpus, units, first, second):
    told = ("--data", corpus, "--out", corpus / "runs", *AUTO, "--trials", 2)
    rates = ("--set", "optimiser.rate=1e-3..1e-2")
    units(first)
    run("tune", corpus / "owls.toml", *told, *rates)
    units(second)
    run("tune", corpus / "owls.toml", *told[:-1], 3, *rates, "--resume")
    assert precisions_in(corpus / "runs") == [first] * 3


@pytest.mark.native("bf16")
def test_a_precision_that_is_searched_stays_as_it_is(corpus, units):
    told = ("--data", corpus, "--out", corpus / "runs", "--set", "train.steps=2")
    units("fp32")
    run("tune", corpus / "owls.toml", *told, "--set", "train.precision=bf16,auto")
    assert precisions_in(corpus / "runs") == ["bf16", "fp32"]


def test_several_seeds_make_a_table(corpus):
    out = corpus / "runs"
    told = ("--data", corpus, "--out", out, "--seeds", 3, "--set", "train.seed=4")
    done = run("train", corpus / "owls.toml", *told)
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["measure", "mean", "deviation", "seed", "4", "seed", "5", "seed", "6"]
    assert sorted(path.name for path in out.iterdir()) == [
        "seed-4",
        "seed-5",
        "seed-6",
        "seeds.json",
    ]
    apart = []
    for seed in (4, 5, 6):
        model = out / f"seed-{seed}" / "model"
        record = json.loads(
            run("evaluate", model, corpus / "owls.toml", "--data", corpus, "--json").stdout
        )
        apart.append(record["accuracy"])
        assert (
            json.loads((out / f"seed-{seed}" / "recipe.json").read_text())["train"]["seed"] == seed
        )
    found = next(row.split() for row in rows if row.startswith("accuracy"))
    assert found[1:] == [f"{one:.2f}" for one in (mean(apart), stdev(apart), *apart)]
    assert rows[-1].startswith("all 3 runs, cost: ")
    figures = json.loads((out / "seeds.json").read_text())
    assert figures["seeds"] == [4, 5, 6]
    assert figures["measures"][0]["values"] == apart
    one = json.loads((out / "seed-4" / "model" / "config.json").read_text())["notes"]["cost"]
    assert figures["cost"]["parameters"] == one["parameters"]
    assert figures["cost"]["tokens"] > 2.5 * one["tokens"]


@pytest.mark.slow
def test_resume_goes_on_with_those_that_are_not_done(corpus):
    straight = ("--data", corpus, "--out", corpus / "a", "--seeds", 2)
    wanted = run("train", corpus / "owls.toml", *straight).stdout
    first = ("--data", corpus, "--out", corpus / "b" / "seed-1")
    run("train", corpus / "owls.toml", *first)
    again = ("--data", corpus, "--out", corpus / "b", "--seeds", 2)
    refused = run("train", corpus / "owls.toml", *again, code=2)
    assert "already has a run; resume it, overwrite it, or choose another folder" in refused.stderr
    resumed = run("train", corpus / "owls.toml", *again, "--resume").stdout
    assert resumed.splitlines()[:-1] == wanted.splitlines()[:-1]  # the last line has seconds
    for seed in (1, 2):
        one, other = (
            (corpus / name / f"seed-{seed}" / "model" / "model.safetensors").read_bytes()
            for name in ("a", "b")
        )
        assert one == other


@pytest.mark.slow
@pytest.mark.parametrize(("score", "code", "word"), [(10, 0, "reached"), (200, 1, "NOT reached")])
def test_the_mean_is_compared_with_the_expected_score(corpus, score, code, word):
    recipe = corpus / "promise.toml"
    recipe.write_text((corpus / "owls.toml").read_text() + PROMISE.format(score))
    told = ("--data", corpus, "--out", corpus / "runs", "--seeds", 2)
    done = run("train", recipe, *told, code=code)
    found = next(row.split() for row in done.stdout.splitlines() if row.startswith("accuracy"))
    assert f"measured {found[1]}: {word}" in done.stdout


def test_every_model_can_have_seeds_and_levels(tmp_path):
    recipe = write_owls(tmp_path)
    levels = ("--set", "optimiser.unfreeze_every=3", "--set", "optimiser.layer_decay=0.4")
    slanted = ("--set", "optimiser.schedule=slanted", "--set", "train.steps=4")
    told = ("--data", tmp_path, "--out", tmp_path / "runs", "--seeds", 2)
    assert "macro-F1" in run("train", recipe, *told, *levels, *slanted).stdout


def test_seeds_are_refused_where_they_mean_nothing(corpus):
    told = ("--data", corpus, "--out", corpus / "runs")
    text = (corpus / "owls.toml").read_text().splitlines()
    (corpus / "untested.toml").write_text("\n".join(one for one in text if "test =" not in one))
    refused = run("train", corpus / "untested.toml", *told, "--seeds", 2, code=2)
    assert "--seeds: needs a test set" in refused.stderr
    assert not (corpus / "runs").exists()
    run("train", corpus / "owls.toml", *told, "--seeds", 1, code=2)


def test_another_seed_changes_nothing_else(corpus):
    recipe = read(corpus / "owls.toml")
    other = with_train_keys(recipe, seed=9)
    assert other.train.seed == 9 and with_train_keys(other, seed=recipe.train.seed) == recipe


def test_python_does_the_same(corpus, capsys):
    """The same scores, as a result, and the events of all runs."""
    recipe, few = corpus / "owls.toml", {"train.steps": 4, "train.report_every": 2}
    told = [word for name, value in few.items() for word in ("--set", f"{name}={value}")]
    run("train", recipe, "--data", corpus, "--out", corpus / "verb", "--seeds", 2, *told)
    heard = []
    given = {"settings": few, "seeds": 2, "device": "cpu", "on_event": heard.append}
    result = regard.train(recipe, corpus, corpus / "python", **given)
    assert not capsys.readouterr().err
    stored = [
        json.loads((corpus / out / "seeds.json").read_text())["measures"]
        for out in ("verb", "python")
    ]
    assert stored[0] == stored[1]
    assert [spread.values for spread in result.scores.spreads] == [
        tuple(measure["values"]) for measure in stored[0]
    ]
    assert str(result) == str(result.scores) and "deviation" in str(result)
    assert [event.progress.step for event in result if event.is_last] == [4, 4]
    assert len(heard) > len(result)
    assert result.model_folder == corpus / "python" / "seed-1" / "model"
    with pytest.raises(regard.BadInput, match="seeds must be at least 2, not 1"):
        regard.train(recipe, corpus, corpus / "one", seeds=1)
