"""``regard agreement``: models of your own, four that it trains, and what it refuses."""

import json

import pytest

import regard
from small_agreement import language_model
from small_gpt import write_gpt2
from verb import run


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("agreement") / "gpt2")


def test_models_of_your_own(gpt2, tmp_path):
    pages = {"--html": tmp_path / "page.html", "--svg": tmp_path / "chart.svg"}
    options = [word for option in pages.items() for word in option]
    done = run("agreement", gpt2, "--sentences", 2, "--device", "cpu", *options)
    head, *rows = done.stdout.splitlines()
    assert head.split() == [
        "words",
        "between",
        "attractors",
        "sentences",
        str(gpt2),
        "nearest",
        "noun",
    ]
    assert [row.split()[:3] for row in rows[:3]] == [
        ["0", "0", "2"],
        ["3", "0", "2"],
        ["3", "1", "2"],
    ]
    assert pages["--html"].read_text().startswith("<!doctype html>")
    assert pages["--svg"].read_text().startswith("<svg")
    (line,) = run(
        "agreement", gpt2, "--sentences", 2, "--device", "cpu", "--json"
    ).stdout.splitlines()
    sentences = regard.agreement_sentences(2)
    expected = regard.score_agreement(regard.load(gpt2, "cpu"), sentences).to_json()
    assert json.loads(line) == {"model": str(gpt2), **expected}


@pytest.mark.slow
def test_four_models_are_trained_on_the_templates(tmp_path):
    out = tmp_path / "out"
    done = run("agreement", "--quick", "--sentences", 1, "--out", out, "--device", "cpu", "--json")
    records = [*map(json.loads, done.stdout.splitlines())]
    assert [one["model"] for one in records] == ["RNN", "GRU", "LSTM", "Transformer"]
    assert [(one["sentences"], one["skipped"]) for one in records] == [(20, 0)] * 4
    sizes = [
        sum(p.numel() for p in regard.load(out / f"{name}-1" / "model", "cpu").module.parameters())
        for name in ("rnn", "gru", "lstm", "transformer")
    ]
    assert max(sizes) < 1.1 * min(sizes)
    names = {path.name for path in out.iterdir()}
    assert {"agreement.html", "agreement-distance.svg", "agreement-attractors.svg"} <= names
    records = json.loads((out / "agreement.json").read_text())["models"]
    assert [record["model"] for record in records] == ["RNN", "GRU", "LSTM", "Transformer"]
    models = [out / f"{name}-1" / "model" for name in ("rnn", "gru", "lstm", "transformer")]
    compared = [word for model in models[1:] for word in ("--compare", model)]
    prefixes = tmp_path / "prefixes"
    prefixes.write_text((out / "corpus" / "prefixes.txt").read_text().splitlines()[0])
    command = ("recency", models[0], prefixes, *compared, "--device", "cpu", "--json")
    reach = [*map(json.loads, run(*command).stdout.splitlines())]
    assert len(reach) == 26 and all(len(record) == 1 + 8 for record in reach)
    assert all(value > 0 for value in reach[-1].values())


def test_options_of_the_study_and_of_models(gpt2, tmp_path):
    (line,) = run("agreement", gpt2, "--seeds", 2, "--quick", code=2).stderr.splitlines()
    assert line == "regard: --seeds, --quick: cannot be used with MODEL"
    (line,) = run("agreement", "--svg", tmp_path / "x.svg", code=2).stderr.splitlines()
    assert line == "regard: --svg: needs MODEL"
    (line,) = run("agreement", gpt2, "--sentences", 200, code=2).stderr.splitlines()
    assert "from 1 to 160" in line


def test_unknown_words_are_one_line(gpt2, tmp_path):
    language_model(missing=("dirty",)).save(tmp_path / "lstm")
    done = run("agreement", gpt2, tmp_path / "lstm", "--sentences", 2, "--device", "cpu")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{tmp_path / 'lstm'}: ") and line.endswith(
        "unknown to the model: dirty"
    )
    all_of_them = next(row for row in done.stdout.splitlines() if row.startswith("all "))
    assert int(all_of_them.split()[1]) < 40  # of both models
