"""``regard ablate``: each head, layer or file of edits, beside the whole model."""

import csv
import json

import pytest

import regard
from regard.inside.ablation import Ablation, AblationScore, best_metric, head_edits, layer_edits
from verb import run


@pytest.fixture(scope="module")
def command(small_run):
    model = small_run / "run" / "model"
    return (
        "ablate",
        model,
        small_run / "small.toml",
        "--data",
        small_run,
        "--limit",
        6,
        "--device",
        "cpu",
    )


@pytest.fixture(scope="module")
def model(command):
    return regard.load(command[1], "cpu")


def records(*command):
    return [json.loads(line) for line in run(*command, "--json").stdout.splitlines()]


def test_every_head_has_a_score(command, model, tmp_path):
    out, svg, html = (tmp_path / f"out.{end}" for end in ("jsonl", "svg", "html"))
    whole, *rows = records(*command, "--out", out, "--svg", svg, "--html", html)
    places = [(row["attention"], row["layer"], row["head"]) for row in rows]
    assert sorted(places) == sorted(head_edits(model.inspected))
    assert {row["attention"] for row in rows} == {"encoder", "decoder", "cross"}
    assert whole["loss"] == 0 and whole["attention"] == "none"
    (metric,) = whole.keys() - {"attention", "layer", "head", "loss", "hash", "signature"}
    losses = [row["loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    for row in rows:
        sign = -1 if metric == "TER" else 1
        assert row["loss"] == pytest.approx(sign * (whole[metric] - row[metric]))
    assert [json.loads(line) for line in out.read_text().splitlines()] == [whole, *rows]
    drawings = [tmp_path / f"out-{site}.svg" for site in ("encoder", "decoder", "cross")]
    assert all(path.read_text().startswith("<svg") for path in drawings)
    assert html.read_text().count("<svg") == 3 and rows[0]["hash"] in html.read_text()


@pytest.mark.slow
def test_scores_are_those_of_the_edited_model(command, model, tmp_path):
    """The score of ``evaluate --edits`` on the same set, and of all layers."""
    whole, *rows = records(*command[:5], "--device", "cpu", "--test", "--layers")
    assert {(row["side"], row["layer"]) for row in rows} == {*layer_edits(model.inspected)}
    row = next(row for row in rows if row["side"] == "source" and row["layer"] == 0)
    file = tmp_path / "off.toml"
    file.write_text('[[edit]]\nkind = "layer-off"\nat = "source.blocks.0"\n')
    evaluate = ("evaluate", *command[1:5], "--device", "cpu", "--edits", file, "--json")
    evaluated = json.loads(run(*evaluate, code=None).stdout)
    (metric,) = whole.keys() - {"side", "layer", "loss", "hash", "signature"}
    assert row[metric] == pytest.approx(evaluated[metric])
    assert f"edits:{row['hash']}" in evaluated["signatures"][metric]
    _, of_file = records(*command[:5], "--device", "cpu", "--test", "--edits", file)
    assert (of_file["hash"], of_file[metric]) == (row["hash"], row[metric])
    assert of_file["edits"] == str(file)


@pytest.mark.slow
def test_a_stopped_run_continues(command, tmp_path, monkeypatch):
    from regard.experiments.ablation_runs import ScoredSet

    expected = run(*command, "--layers", "--format", "csv").stdout
    out = tmp_path / "out.jsonl"
    arguments = (*command, "--layers", "--format", "csv", "--out", out, "--resume")
    score, calls = ScoredSet.score, []

    def stops(self, model):
        calls.append(model)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return score(self, model)

    monkeypatch.setattr(ScoredSet, "score", stops)
    run(*arguments, code=130)
    partial = tmp_path / "out.jsonl.partial"
    with partial.open("a") as file:
        file.write('{"hash": "12')  # the process was killed while it wrote this
    assert not out.exists()
    other = run(*arguments, "--test", code=2)
    assert "out.jsonl.partial: results of another model, recipe or limit" in other.stderr
    calls[:] = [None] * 5
    done = run(*arguments)
    assert "continues after 2 results" in done.stderr and done.stdout == expected
    assert out.exists() and not partial.exists()
    assert len(calls) == 5 + len([*csv.reader(expected.splitlines())]) - 1 - 2


def test_the_text_table_has_a_heading_and_a_note(command):
    lines = run(*command, "--layers").stdout.splitlines()
    assert lines[0].split()[:2] == ["side", "layer"] and lines[1].split()[0] == "none"
    assert "loss of" in lines[-1]


def test_what_cannot_be_ablated_is_refused(command, owl_run, tmp_path):
    done = run(*command, "--heads", "--layers", code=2)
    assert done.stderr == "regard: --heads and --layers: choose one of them\n"
    assert "--resume: needs --out FILE" in run(*command, "--resume", code=2).stderr
    file = tmp_path / "off.toml"
    file.write_text('[[edit]]\nkind = "layer-off"\nat = "trunk.blocks.0"\n')
    done = run(*command, "--edits", file, code=2)
    assert "off.toml: edit 1: at: this model has no 'trunk.blocks.0'" in done.stderr
    done = run(*command, "--edits", file, "--svg", tmp_path / "a.svg", code=2)
    assert "--svg: files of edits have no layers and heads to draw" in done.stderr
    (recipe,) = owl_run.glob("*.toml")
    pooled = ("ablate", owl_run / "run" / "model", recipe, "--data", owl_run)
    done = run(*pooled, "--layers", code=2)
    assert "this model has no Transformer layers that can be turned off" in done.stderr
    _, off = map(json.loads, run(*pooled, "--json").stdout.splitlines())
    assert (off["attention"], off["head"]) == ("pool", 0) and off["loss"] > 20


def test_lower_perplexity_is_better():
    scores = [AblationScore(("decoder", 0, head), "", value) for head, value in enumerate((9, 14))]
    ablation = Ablation(
        "a", "perplexity", "", 10.0, ("attention", "layer", "head"), tuple(scores), lower=True
    )
    assert [ablation.loss(score) for score in ablation.ranked] == [4, -1]
    assert [*ablation.drawings()] == ["decoder"]


def test_the_metric_is_that_of_the_recipe():
    assert best_metric(["BLEU", "chrF2"], ["chrF", None]) == "chrF2"
    assert best_metric(["accuracy", "F1"], [None, "loss"]) == "accuracy"
