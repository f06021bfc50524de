"""A convolutional encoder by way of recipes and the command line."""

import json

import pytest

from regard.models.conv import ConvEncoderFacts
from regard.models.rnn_decoder import RNNDecoderFacts
from regard.training.recipe import read, task_of
from small import write_corpus
from verb import run

SIZES = "model.change={width=16, embedding=16, dropout=0.0}"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def settings(*options):
    common = ("model.size=laptop", SIZES, "train.steps=2", "train.evaluate_every=2")
    return [part for one in (*common, *options) for part in ("--set", one)]


@pytest.mark.parametrize(
    "options",
    [
        ("model.paper=gehring",),
        ("model.paper=luong", "model.source=gehring:laptop", "model.change.target.depth=1"),
        ("model.paper=gehring", "model.target=luong:laptop", "model.change.target.bridge=mean"),
    ],
    ids=" ".join,
)
def test_it_trains_and_translates(corpus, tmp_path, options):
    out = tmp_path / "run"
    arguments = (corpus / "small.toml", "--data", corpus, "--out", out, "--device", "cpu")
    run("train", *arguments, *settings(*options))
    facts = json.loads((out / "model" / "config.json").read_text())["facts"]
    assert facts["source"]["stack"]["is"] == "ConvEncoderFacts"
    done = run("translate", out / "model", "--device", "cpu", stdin="dog cow\n")
    assert done.stdout.count("\n") == 1


def test_a_transformer_writes_what_convolutions_read(corpus):
    asked = ["model.paper=gehring", "model.size=laptop", "model.target=transformer:laptop"]
    recipe = read(corpus / "small.toml", [*asked, "model.change={}"])
    plan = task_of(recipe).resolve(corpus)
    paper, facts = plan.paper, plan.facts
    assert isinstance(facts.source.stack, ConvEncoderFacts) and not isinstance(
        facts.target.stack, RNNDecoderFacts
    )
    assert paper.parameters(facts) > 0


def test_a_transformer_writes_what_a_recurrent_encoder_reads(corpus, tmp_path):
    arguments = (corpus / "small.toml", "--data", corpus, "--out", tmp_path / "run")
    recurrent = ("--set", "model.source=bahdanau:laptop", "--set", "train.steps=1")
    wrong = ("--set", "model.change.source.embedding=8")
    (line,) = run("train", *arguments, *recurrent, *wrong, code=2).stderr.splitlines()
    assert "share embeddings only if their shapes agree" in line and "class" not in line
    run("train", *arguments, *recurrent, *wrong, "--set", "model.change.tie=target")
    done = run("translate", tmp_path / "run" / "model", "--device", "cpu", stdin="dog cow\n")
    assert done.stdout.count("\n") == 1


def test_it_stands_in_the_lineage():
    assert "Gehring      2016  1611.02344" in run("papers").stdout
