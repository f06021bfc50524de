"""Taggers whose tags are scored together by a conditional random field."""

import tomllib

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.layers.crf import marginals, viterbi
from small_tuning import write_tuning

LSTM = {"paper": "lin", "size": "laptop", "change": {"width": 16, "embedding": 16}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owls")
    write_tuning(folder, "tags")
    return folder


@pytest.mark.thinned
@pytest.mark.parametrize("model", [None, LSTM], ids=["Transformer", "LSTM"])
def test_a_tagger_with_transitions_learns_and_is_saved(folder, tmp_path, model):
    recipe = tomllib.loads((folder / "owls.toml").read_text())
    recipe["labels"]["crf"], recipe["train"]["steps"] = True, 30
    recipe["model"], recipe["text"]["vocab"] = model or recipe["model"], 300
    events = list(regard.train(recipe, data=folder, out=tmp_path / "run"))
    figures = [event.verdict.figures for event in events if type(event).__name__ == "DevEvent"]
    assert figures[-1]["F1"] > 60 and figures[-1]["loss"] < figures[0]["loss"]
    model = regard.load(tmp_path / "run" / "model", "cpu")
    assert model.facts.head_names == ("token_label", "transition")
    table = model.module.heads["transition"].table
    assert table.abs().max() > 0
    tagged = model.predict(["dog owl pig", "owl"])
    logits = [one.double() for one in model.predictor.logits([["dog", "owl", "pig"], ["owl"]])]
    for result, logits_NV in zip(tagged, logits, strict=True):
        given_ = logits_NV[None], torch.ones(1, len(logits_NV), dtype=torch.bool), table.double()
        best, shares = viterbi(*given_)[0].tolist(), marginals(*given_)[0]
        assert result.tags == [model.labels.names[i] for i in best]
        for word, shares_V, i in zip(result.words, shares, best, strict=True):
            assert word.probability == pytest.approx(float(shares_V[i]))


def test_weights_of_single_tags_are_refused(folder, tmp_path):
    with pytest.raises(BadInput, match="cannot be used with crf"):
        given = {"labels.crf": True, "labels.weights": "balanced"}
        list(regard.train(folder / "owls.toml", settings=given, data=folder, out=tmp_path / "run"))


def test_a_pool_that_no_head_reads_is_refused(folder, tmp_path):
    with pytest.raises(BadInput, match=r"model\.change\.pool: no head .* reads pooled rows"):
        settings = {"model.change.pool": "mean"}
        list(regard.train(folder / "owls.toml", settings=settings, data=folder, out=tmp_path / "x"))
