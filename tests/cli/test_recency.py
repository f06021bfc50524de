"""``regard recency``: what it refuses, and how it puts several seeds together."""

import json

import pytest
import torch

import regard
from regard import spread
from regard.experiments.studies import recency as study
from regard.experiments.studies.recency import table_caption
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.papers import zaremba
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small_bert import model as bert
from verb import run


@pytest.fixture(scope="module")
def texts(owl_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts"
    path.write_text("dog cow pig owl\nrat hen\n")
    return owl_run / "run" / "model", path


def test_a_model_of_your_own(texts, tmp_path):
    done = run("recency", *texts, "--html", tmp_path / "page.html")
    head, *rows = done.stdout.splitlines()
    assert head == "tokens from the end  untrained  trained"
    assert [row.split()[0] for row in rows][:3] == ["0", "1", "2"]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_language_models_side_by_side(texts, tmp_path):
    torch.manual_seed(2)
    lines = texts[1].read_text()
    tokenizer = train_encoder_tokenizer([lines], "word-level", 99, lower=False, longest=None)
    for cell in ("rnn", "lstm"):
        sizes = {"vocab": len(tokenizer.words), "width": 6, "embedding": 5, "cell": cell}
        facts = zaremba.PAPER.fit_heads(change(zaremba.SMALL, **sizes).with_heads(NextTokenHead()))
        loaded = LoadedModel(zaremba.PAPER, facts, facts.build().eval(), tokenizer)
        regard.Model(loaded).save(tmp_path / cell)
    rnn, lstm = tmp_path / "rnn", tmp_path / "lstm"
    options = ("--compare", lstm, "--html", tmp_path / "page.html", "--json")
    records = [*map(json.loads, run("recency", rnn, texts[1], *options).stdout.splitlines())]
    lines = [f"{folder}, {when}" for folder in (rnn, lstm) for when in ("untrained", "trained")]
    assert [list(record) for record in records] == [["distance", *lines]] * 4
    assert all(record[f"{lstm}, trained"] > 0 for record in records)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 1 and f"{rnn}, trained" in page


@pytest.mark.parametrize("options", [("--seeds", 2), ("--quick",), ("--out", "zz")])
def test_options_of_the_four_models_cannot_be_used_with_a_folder(texts, options):
    (line,) = run("recency", *texts, *options, code=2).stderr.splitlines()
    assert line.startswith(f"regard: {options[0]}: cannot be used with MODEL")


def test_seeds_are_a_sample_and_one_has_no_spread():
    assert spread([90.0, 92.0]) == "91.0 ± 1.4"  # √2, not 1
    assert spread([90.0]) == "90.0"
    assert "one seed" in table_caption(1) and "±" not in table_caption(1)
    assert "3 seeds ±" in table_caption(3)


@pytest.mark.parametrize(("head", "reason"), [("one", "special tokens"), ("words", "no pooled")])
def test_other_models_are_refused_in_one_line(texts, tmp_path, head, reason):
    bert(head).save(tmp_path / "bert")
    (line,) = run("recency", tmp_path / "bert", texts[1], code=2).stderr.splitlines()
    assert reason in line


@pytest.mark.slow
def test_figures_are_written_beside_the_charts(tmp_path, monkeypatch):
    """With two readers, one of them recurrent."""
    names = ("RNN, last state", "Transformer")
    monkeypatch.setattr(study, "READERS", {name: study.READERS[name] for name in names})
    monkeypatch.setattr(study, "QUICK", ("train.steps=2", *study.QUICK[1:]))
    out = tmp_path / "out"
    done = run("recency", "--out", out, "--seeds", 1, "--quick", "--device", "cpu", "--json")
    figures = json.loads((out / "recency.json").read_text())
    assert figures["readers"] == [*map(json.loads, done.stdout.splitlines())]
    norms = figures["gradient norms by distance"]
    assert [*norms] == ["untrained", "trained"] and [*norms["trained"]] == [*names]
    assert len(norms["trained"]["Transformer"]) == 38  # words of a prefix
    assert {"untrained.svg", "trained.svg"} <= {path.name for path in out.iterdir()}
