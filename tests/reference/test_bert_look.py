"""What an encoder looks at is what ``transformers`` says it looks at, by pieces and by words."""

import json

import numpy as np
import pytest
import torch

from bert_folders import quietly
from regard.core.errors import BadInput
from small_bert import SENTENCES, model
from verb import run

transformers = pytest.importorskip("transformers")
PAIRS = [
    (SENTENCES[4], None),
    ("The old sailor", "had a cat."),
    ("storms, storming", "cat"),
    ("", "a"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("look") / "bert"
    model("states").save(place, "hf")
    return place


@pytest.fixture(scope="module")
def reference(folder):
    read = transformers.BertModel.from_pretrained
    tokenizer = quietly(lambda: transformers.AutoTokenizer.from_pretrained(folder))
    return quietly(lambda: read(folder, attn_implementation="eager")).eval(), tokenizer


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_layer_and_head(reference, first, second):
    peer, tokenizer = reference
    given = tokenizer(first, second, return_tensors="pt")
    with torch.no_grad():
        wanted = peer(**given, output_attentions=True).attentions
    (found,) = model("states").look(first, second, subwords=True).maps
    assert found.queries == found.keys
    assert list(found.keys) == tokenizer.convert_ids_to_tokens(given["input_ids"][0])
    assert len(found.layers) == len(wanted)
    for ours, theirs in zip(found.layers, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=1e-5)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_words_take_the_attention_of_their_pieces(first, second):
    encoder = model("states")
    (pieces,) = encoder.look(first, second, subwords=True).maps
    (words,) = encoder.look(first, second).maps
    assert words.keys[0] == "[CLS]" and words.keys[-1] == "[SEP]"
    assert words.keys.count("[SEP]") == 1 + (second is not None)
    shown = [one for one in words.keys if one not in ("[CLS]", "[SEP]")]
    assert "".join(shown) == (first + (second or "")).replace(" ", "")
    for layer, of_pieces in zip(words.layers, pieces.layers, strict=True):
        np.testing.assert_allclose(layer.sum(-1), 1, atol=1e-5)
        np.testing.assert_allclose(layer[:, 0, 0], of_pieces[:, 0, 0], atol=1e-6)


def test_the_verb(folder, tmp_path):
    page, drawing = tmp_path / "look.html", tmp_path / "look.svg"
    done = run("look", folder, SENTENCES[0], "--html", page, "--svg", drawing, "--layer", 1)
    assert "encoder, layer 1, mean of all heads" in done.stdout and "sailor" in done.stdout
    assert page.read_text().startswith("<!doctype html>") and "<svg" in drawing.read_text()
    asked = ("look", folder, "The old sailor", "--target", "had a cat", "--head", 0, "--json")
    record = json.loads(run(*asked).stdout)
    assert record["map"] == "encoder" and record["rows"] == record["columns"]
    assert record["rows"].count("[SEP]") == 2
    refused = run("look", folder, "cat", "--map", "cross", code=2).stderr
    assert "no map called 'cross' here, only: encoder" in refused


def test_a_text_that_is_too_long_is_reported():
    with pytest.raises(BadInput, match="tokens, but the model has 48 positions"):
        model("states").look(" ".join(SENTENCES))
