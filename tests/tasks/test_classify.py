"""Classification of texts, and the folder it comes from."""

import json

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.inference.classifier import Classifier
from regard.models.folders import folder as folders
from regard.weights.files import weights_of

TEXTS = ["dog cow owl", "pig", "", "ada bit cow dog elf fox gnu hen", "owl owl", "rat sow jay"]


@pytest.fixture(scope="module")
def model(owl_run):
    return regard.load(owl_run / "run" / "model", "cpu")


def test_it_has_learned(model):
    assert [one.label for one in model.predict(["dog owl pig", "dog pig"])] == ["owl", "no"]


def test_predictions_do_not_depend_on_the_batch(model):
    together = model.predict(TEXTS)
    for rows in (1, 2):
        apart = Classifier(model.module, model.tokenizer, model.labels, rows).predict(TEXTS)
        for one, other in zip(together, apart, strict=True):
            assert one.label == other.label
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    assert [one.value for one in model.predictor.stream(iter(TEXTS))] == together


def test_probabilities_are_a_distribution_over_all_labels(model):
    for one in model.predict(TEXTS):
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert set(one.probabilities) == {"no", "owl"}
        assert one.probability == max(one.probabilities.values())
    assert model.predict([]) == []


def test_a_broken_model_is_reported(owl_run):
    broken = regard.load(owl_run / "run" / "model", "cpu")
    broken.module.heads.label.out.bias.data.fill_(float("nan"))
    with pytest.raises(BadInput, match="the model is broken"):
        broken.predict(["dog"])


def test_what_each_model_can_do_is_reported(model, small_run):
    translator = regard.load(small_run / "run" / "model", "cpu")
    with pytest.raises(BadInput, match="Lin reads no source: it cannot translate"):
        model.translate(["dog"])
    with pytest.raises(BadInput, match="Transformer is an encoder-decoder"):
        translator.predict(["dog"])
    with pytest.raises(BadInput, match="give a list of texts, not one text"):
        model.predict("dog")
    with pytest.raises(BadInput, match="one text at a time"):
        model.look("dog", "cow")


def test_states_of_a_classifier(model):
    states = model.encode(["dog cow owl", "pig"])
    assert [one.shape[1] for one in states] == [24, 24]
    assert len(states[0]) == len(model.tokenizer.words.encode("dog cow owl"))
    assert model.embed(["dog"]).shape == (1, 24)
    assert model.encode(["dog"], layer=0)[0].shape[1] == 12


def test_round_trip_is_bit_exact(model, owl_run, tmp_path):
    model.save(tmp_path / "copy")
    again = folders.read(tmp_path / "copy")
    assert again.facts == model.facts and again.paper is model.paper
    one, other = weights_of(model.module), weights_of(again.module)
    assert all(torch.equal(one[name], other[name]) for name in one)
    for name in ("config.json", "model.safetensors", "tokenizer.json", "labels.json"):
        ours = owl_run / "run" / "model" / name
        assert (tmp_path / "copy" / name).read_bytes() == ours.read_bytes()
    with pytest.raises(BadInput, match="the hf format does not support"):
        model.save(tmp_path / "hf", "hf")


def test_labels_must_be_those_of_the_model(model, tmp_path):
    model.save(tmp_path / "copy")
    path = tmp_path / "copy" / "labels.json"
    for names in (["no", "owl", "more"], ["no"]):
        path.write_text(json.dumps({"names": names, "written": {}}))
        with pytest.raises(BadInput, match=f"{len(names)} labels, but the model has 2 outputs"):
            folders.read(tmp_path / "copy")
    path.unlink()
    with pytest.raises(BadInput, match="no labels"):
        regard.load(tmp_path / "copy", "cpu").predict(["dog"])
