"""Verbs for classifiers, as people call them."""

import json
from statistics import mean

import pytest

from small_bert import model as small_encoder
from verb import run


@pytest.fixture(scope="module")
def model(owl_run):
    return owl_run / "run" / "model"


@pytest.mark.parametrize("verb", ["predict", "recency"])
def test_help_has_an_example(verb):
    assert "Example:" in run(verb, "--help").stdout


def test_predict_keeps_lines(model, tmp_path):
    text = "dog owl pig\n\ndog pig\n"
    done = run("predict", model, stdin=text)
    lines = done.stdout.split("\n")
    assert [line.split("\t")[0] for line in lines] == ["owl", "", "no", ""]
    assert 0.5 < float(lines[0].split("\t")[1]) <= 1
    (tmp_path / "in.txt").write_text(text)
    assert run("predict", model, tmp_path / "in.txt").stdout == done.stdout
    records = [
        json.loads(line) for line in run("predict", model, "--json", stdin=text).stdout.splitlines()
    ]
    assert [one["label"] for one in records] == ["owl", None, "no"]
    assert sum(records[0]["probabilities"].values()) == pytest.approx(1)


def test_predict_needs_a_classifier(small_run):
    refused = run("predict", small_run / "run" / "model", stdin="dog\n", code=2)
    assert "Transformer is an encoder-decoder: this needs a model with one trunk" in refused.stderr


def test_translate_needs_a_translator(model):
    assert (
        "Lin reads no source: it cannot translate"
        in run("translate", model, stdin="dog\n", code=2).stderr
    )


def test_look_at_words(model, tmp_path):
    page = tmp_path / "look.html"
    done = run("look", model, "dog owl pig", "--html", page)
    assert done.stdout.startswith("owl ") and "owl█" in done.stdout
    assert page.read_text().startswith("<!doctype html>")
    record = json.loads(run("look", model, "dog owl pig", "--json").stdout)
    assert record["words"] == ["dog", "owl", "pig"] and record["label"] == "owl"
    assert sum(record["weights"]) == pytest.approx(1, abs=1e-4)
    for option in (("--layer", 0), ("--map", "cross")):
        refused = run("look", model, "dog", *option, code=2)
        assert "do not choose a map, layer or head" in refused.stderr


def test_evaluate_prints_accuracy_with_an_interval(model, owl_run):
    done = run("evaluate", model, owl_run / "owls.toml", "--data", owl_run)
    assert done.stdout.startswith("accuracy ") and "examples:40|classes:2|bs:1000" in done.stdout
    for part in ("macro-F1", "Matthews", "parameters"):
        assert part in done.stdout
    record = json.loads(
        run("evaluate", model, owl_run / "owls.toml", "--data", owl_run, "--json").stdout
    )
    low, high = record["intervals"]["accuracy"]
    assert low <= record["accuracy"] <= high


def test_evaluate_tells_labels_apart(model, owl_run):
    asked = ("evaluate", model, owl_run / "owls.toml", "--data", owl_run, "--labels")
    lines = run(*asked).stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("label "))
    assert lines[at].split() == ["label", "precision", "recall", "F1", "number", "taken", "for"]
    record = json.loads(run(*asked, "--json").stdout)
    assert [one["label"] for one in record["labels"]] == [
        line.split()[0] for line in lines[at + 1 :]
    ]
    assert sum(one["count"] for one in record["labels"]) == 40
    wrong = sum(count for one in record["labels"] for _, count in one["taken_for"])
    assert record["accuracy"] == pytest.approx(100 * (40 - wrong) / 40)
    assert record["macro-F1"] == pytest.approx(mean(one["f1"] for one in record["labels"]))


@pytest.mark.parametrize(("score", "code", "word"), [(10, 0, "reached"), (200, 1, "NOT reached")])
def test_the_expected_score_is_checked(owl_run, tmp_path, score, code, word):
    recipe = tmp_path / "promise.toml"
    promise = f'[expect]\nmetric = "accuracy"\nscore = {score}\ntolerance = 0.0\nsource = "x"\n'
    recipe.write_text((owl_run / "owls.toml").read_text() + promise)
    done = run("train", recipe, "--data", owl_run, "--out", tmp_path / "run", code=code)
    assert f": {word}" in done.stdout


def test_a_classifier_can_be_copied(model, tmp_path):
    run("convert", model, tmp_path / "copy", "--to", "regard")
    assert (tmp_path / "copy" / "labels.json").exists()
    checked = run("convert", model, tmp_path / "more", "--to", "regard", "--check").stdout
    found = {line[:20].strip(): line[20:].strip() for line in checked.splitlines()[1:]}
    layers = ["embedding", "block 1", "pooled", "label logits"]
    assert found == {**dict.fromkeys(layers, "0.0e+00"), "ids of texts": "0"}


def test_recency_of_a_model(model, tmp_path):
    page = tmp_path / "recency.html"
    done = run("recency", model, "--html", page, stdin="dog owl pig\n\ncow\n")
    assert done.stdout.split()[:5] == ["tokens", "from", "the", "end", "untrained"]
    assert page.read_text().count("<polyline") == 2
    lines = run("recency", model, "--json", stdin="dog owl pig\n").stdout.splitlines()
    assert [json.loads(line)["distance"] for line in lines] == list(range(len(lines)))
    assert "no text" in run("recency", model, stdin="\n", code=2).stderr


@pytest.mark.slow
def test_recency_of_four_models(tmp_path):
    done = run("recency", "--quick", "--seeds", 1, "--out", tmp_path / "out")
    for part in (
        "RNN, last state",
        "LSTM, attention",
        "Transformer",
        "0 attractors",
        "not language",
    ):
        assert part in done.stdout.replace("\n", " ")
    page = (tmp_path / "out" / "recency.html").read_text()
    assert page.count("<polyline") == 8
    for name in ("untrained.svg", "trained.svg", "lstm-attention-1/model/labels.json"):
        assert (tmp_path / "out" / name).exists()
    refused = run("recency", "--quick", "--out", tmp_path / "out", code=2)
    assert "is not empty" in refused.stderr


def test_look_draws_what_is_predicted(model, tmp_path):
    drawing = tmp_path / "a.svg"
    run("look", model, "dog owl", "--svg", drawing)
    record = json.loads(run("look", model, "dog owl", "--json").stdout)
    assert (
        f"{record['label']} {record['probabilities'][record['label']]:.3f}" in drawing.read_text()
    )


def test_look_at_a_tuned_encoder_says_the_label(tmp_path):
    tuned = small_encoder("one")
    tuned.save(tmp_path / "model")
    page, drawing = tmp_path / "a.html", tmp_path / "a.svg"
    done = run("look", tmp_path / "model", "The sailor", "--html", page, "--svg", drawing)
    (said,) = tuned.predict(["The sailor"])
    line = f"{said.label} {said.probability:.3f}"
    assert line in done.stdout.splitlines()
    assert line in page.read_text() and line in drawing.read_text()
    record = json.loads(run("look", tmp_path / "model", "The sailor", "--json").stdout)
    assert record["label"] == said.label and record["map"] == "encoder"
