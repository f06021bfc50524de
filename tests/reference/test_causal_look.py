"""GPT-2, GPT and XLNet look at what ``transformers`` says; what is masked is not zero."""

import json

import numpy as np
import pytest
import torch

import regard
from bert_folders import quietly
from regard.core.errors import BadInput
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.views.pages import records_in
from small_gpt import POSITIONS, SIZES, TEXTS, VOCAB, write_gpt2
from verb import run

transformers = pytest.importorskip("transformers")

TEXT = "The old man reads a  book.\nThe café"
XLNET = {"d_model": 12, "n_layer": 2, "n_head": 3, "d_inner": 20}
FAMILIES = {  # classes of the model and of its configuration, and its sizes
    "gpt2-bpe": ("GPT2LMHeadModel", "GPT2Config", SIZES),
    "gpt-bpe": ("OpenAIGPTLMHeadModel", "OpenAIGPTConfig", SIZES),
    "xlnet-unigram": ("XLNetLMHeadModel", "XLNetConfig", XLNET),
}


def write(folder, family):
    name, config, sizes = FAMILIES[family]
    lower = family == "gpt-bpe"
    tokenizer = train_encoder_tokenizer(TEXTS, family, VOCAB, lower=lower, longest=POSITIONS)
    torch.manual_seed(0)
    settings = getattr(transformers, config)(vocab_size=len(tokenizer.words), **sizes)
    model = getattr(transformers, name)(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.eval().save_pretrained(folder)
    tokenizer.save(folder)
    return folder, getattr(transformers, name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_gpt2(tmp_path_factory.mktemp("look") / "gpt2")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_layer_and_head(family, tmp_path):
    folder, peer = write(tmp_path / "model", family)
    model = regard.load(folder, "cpu")
    (ours,) = model.look(TEXT, subwords=True).maps
    row = model.tokenizer.label(TEXT)["trunk"].row
    read = quietly(lambda: peer.from_pretrained(folder, attn_implementation="eager")).eval()
    given = {"input_ids": torch.tensor([[*row.tokens]])}
    if family == "xlnet-unigram":
        given["token_type_ids"] = torch.tensor([[*row.segments]])
    with torch.no_grad():
        theirs = read(**given, output_attentions=True).attentions
    assert len(ours.layers) == len(theirs) == 2 and len(row.tokens) > 8
    for weights, expected in zip(ours.layers, theirs, strict=True):
        np.testing.assert_allclose(weights, expected[0].numpy(), atol=1e-5)


def test_a_later_key_is_masked_by_tokens_and_by_words(folder):
    model = regard.load(folder, "cpu")
    for subwords in (True, False):
        (seen,) = model.look(TEXT, subwords=subwords).maps
        assert np.array_equal(seen.allowed, np.tri(len(seen.keys), dtype=bool))
        for weights in seen.layers:
            assert not weights[:, ~seen.allowed].any()
            np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    assert model.look(TEXT).maps[0].keys == (
        "The",
        "old",
        "man",
        "reads",
        "a",
        "book",
        ".",
        "The",
        "café",
    )
    assert {"▁man", "⏎", "▁"} <= {*model.look(TEXT, subwords=True).maps[0].keys}


def test_it_is_drawn_as_masked_and_not_as_zero(folder):
    view = regard.load(folder, "cpu").look("The old man")
    *_, first, second, third, blank, legend = view.text(80).splitlines()
    assert [len(line) for line in (first, second, third)] == [6, 8, 10]
    assert "·" not in first and not blank and legend.endswith("blank: masked")
    assert view.svg().count("<title>masked</title>") == 1
    (record,) = records_in(view.html())
    allowed_LS = record.array(record.json["maps"][0]["allowed"])
    assert allowed_LS.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_xlnet_sees_all_and_nothing_is_masked(tmp_path):
    folder, _ = write(tmp_path / "xlnet", "xlnet-unigram")
    model = regard.load(folder, "cpu")
    view = model.look("The old man")
    assert view.maps[0].name == "encoder" and view.maps[0].allowed is None
    (record,) = records_in(view.html())
    assert "masked" not in view.text(60) and record.json["maps"][0]["allowed"] is None
    for ask in (lambda: model.look("a", repeat=True), lambda: model.induction("a b a b")):
        with pytest.raises(BadInput, match="not causal"):
            ask()


def test_a_text_without_tokens_or_words_is_refused(folder):
    model = regard.load(folder, "cpu")
    for show in (model.look, model.induction):
        with pytest.raises(BadInput, match=r"^the text has no tokens: there is no attention"):
            show("")
    with pytest.raises(BadInput, match=r"^the text has no words: look at its subwords"):
        model.look(" ")
    assert len(model.look(" ", subwords=True).maps[0].keys) == 1


def test_all_tokens_twice(folder):
    model = regard.load(folder, "cpu")
    once, twice = (model.look("The dog", subwords=True, repeat=r).maps[0] for r in (False, True))
    assert twice.keys == once.keys * 2 and model.look("The dog", repeat=True).maps[0].keys == (
        *("The", "dog"),
        *("The", "dog"),
    )
    length = len(once.keys)
    for before, after in zip(once.layers, twice.layers, strict=True):
        np.testing.assert_allclose(after[:, :length, :length], before, atol=1e-6)
    with pytest.raises(BadInput, match=f"the model has {POSITIONS} positions"):
        model.look(TEXTS[0], repeat=True)


def test_the_verb_scores_heads(folder, tmp_path):
    page, drawing = tmp_path / "heads.html", tmp_path / "heads.svg"
    asked = ("look", folder, "The old man reads", "--induction", "--repeat")
    done = run(*asked, "--html", page, "--svg", drawing)
    assert (
        "6 tokens; uniform attention: 0.1" in done.stdout and "layer 1, head 1: 0." in done.stdout
    )
    assert page.read_text().startswith("<!doctype html>") and "<svg" in drawing.read_text()
    record = json.loads(run(*asked, "--json").stdout)
    assert np.array(record["induction"]).shape == (2, 2) and record["tokens"] >= 4
    once = ("look", folder, "The dog", "--induction")
    assert "no token of this text occurs twice" in run(*once, code=2).stderr
    assert "do not choose any" in run(*asked, "--head", 0, code=2).stderr
    assert "cannot be used with --induction" in run(*asked, "--subwords", code=2).stderr
