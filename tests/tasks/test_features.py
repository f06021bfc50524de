"""The layers of a frozen ELMo, and static vectors, as features of classifiers and taggers."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.data.readers.static_vectors import StaticVectors
from regard.models.facts import change
from regard.models.features import Features
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import bert, elmo, lin, taglm
from regard.models.pools import MeanPool
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from small_words import LSTM, recipe_of, refused, trained

SMALL = {"width": 4, "cells": 6, "filters": ((1, 4), (2, 8)), "longest": 8, "character_size": 4}


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    folder, facts = tmp_path_factory.mktemp("elmo"), change(elmo.SMALL, **SMALL)
    torch.manual_seed(3)
    tokenizer = CharacterTokenizer(CharacterVocabulary(8))
    folders.write(folder, LoadedModel(elmo.PAPER, facts, facts.build(), tokenizer))
    return folder


@pytest.mark.thinned
@pytest.mark.parametrize("place", ["input", "output", "both"])
@pytest.mark.parametrize("kind", ["tags", "pairs"])
def test_features_stay_as_they_are_and_their_mixture_learns(features, tmp_path, kind, place):
    recipe = recipe_of(tmp_path, kind, features=str(features), features_at=place)
    model = trained(recipe, tmp_path, tmp_path / "run")
    start = regard.load(features, "cpu").module.trunk.state_dict()
    trunk = model.module.trunk
    frozen = trunk.frozen.trunk.state_dict()
    assert all(torch.equal(frozen[name], start[name]) for name in start)
    places = ["input", "output"] if place == "both" else [place]
    assert list(trunk.mixes) == places
    assert all(mix.logits.abs().max() > 0 for mix in trunk.mixes.values())
    assert model.facts.trunk.width == 16 + 8 * (place != "input")
    given = {"tags": "dog owl pig", "pairs": ("dog owl", "pig")}[kind]
    alone, together = model.logits([given]), model.logits([given, given])
    torch.testing.assert_close(alone[0], together[1], atol=1e-5, rtol=1e-5)
    assert len(model.predict([given, given])) == 2


def test_the_vector_of_a_word_is_its_own_and_the_mixture(features):
    feature_trunk = regard.load(features, "cpu").facts.trunk
    facts = change(lin.LAPTOP, **LSTM, vocab=20)
    facts = change(facts, features=Features(feature_trunk, feature_dropout=0.0))
    model = facts.build().eval()
    tokens = np.random.default_rng(0).integers(0, 20, (2, 9))
    inputs = pack_rows([TokenRow(tokens, [0, 0])])
    tape = Tape("trunk.embed.output")
    model(inputs, tape=tape)
    layers = model.trunk.frozen(inputs.tokens_T[:, 1:], inputs.layout)
    assert len(layers) == 3
    words_TD = model.trunk.embed.words(inputs.tokens_T[:, 0], inputs.layout)
    expected = torch.cat([words_TD, torch.stack(layers).mean(0)], dim=-1)
    torch.testing.assert_close(tape.records["trunk.embed.output"], expected)
    assert not any(p.requires_grad for p in model.trunk.frozen.parameters())
    assert not model.train().trunk.frozen.training


def test_the_top_layer_alone(features, tmp_path):
    recipe = recipe_of(tmp_path, "tags", features=str(features), features_layers="top")
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.module.trunk.mixes["input"].layers == 1


def test_words_alone(tmp_path):
    recipe = recipe_of(tmp_path, "tags")
    recipe["train"]["steps"] = 40
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.predict(["dog owl pig"])[0].tags == ["O", "S-BIRD", "O"]
    assert model.predict([["dog", "owl"]])[0].tags == ["O", "S-BIRD"]


def write_vectors(path, size=16):
    words, draw = ["owl", "dog", "unseen"], np.random.default_rng(1)
    lines = [" ".join([word, *(f"{x:.4f}" for x in draw.normal(size=size))]) for word in words]
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return StaticVectors.read(path)


def test_words_begin_with_static_vectors(tmp_path):
    vectors = write_vectors(tmp_path / "glove.txt.gz")
    recipe = recipe_of(tmp_path, "tags", vectors="glove.txt.gz")
    recipe["optimiser"]["freeze"] = ["embed"]
    (start, *_) = regard.train(recipe, data=tmp_path, out=tmp_path / "run")
    model = regard.load(tmp_path / "run" / "model", "cpu")
    ids = model.tokenizer.words.lexicon.ids
    drawn = len(ids) - 3
    assert f"3 words begin with vectors of glove.txt.gz, {drawn} at random" in start.lines(1)
    embed = model.module.trunk.embed
    assert embed.scale == 4.0
    words_T = torch.tensor([ids[word] for word in vectors.words])
    read_TD = embed(words_T, Layout.ragged([len(words_T)], "cpu"))  # whatever the scale is
    np.testing.assert_allclose(read_TD.detach(), vectors.vectors_ND, atol=1e-6)


def test_wrong_recipes_are_refused(features, tmp_path):
    recipe = recipe_of(tmp_path, "tags", features=str(features))
    assert 'text.kind = "words"' in refused({**recipe, "text": {"vocab": 300}}, tmp_path)
    small = {**recipe["model"], "change": {**LSTM, "embedding": 8}}
    assert "no room for 8 features" in refused({**recipe, "model": small}, tmp_path)
    missing = {**recipe["model"], "features": "nowhere"}
    assert "model.features: nowhere" in refused({**recipe, "model": missing}, tmp_path)
    few = {**recipe, "text": {"kind": "words", "vocab": 2}}
    assert "text.vocab: a vocabulary of 2 has no room for <UNK>" in refused(few, tmp_path)
    alone = {"paper": "lin", "size": "laptop", "features_at": "output"}
    assert "features_at needs model.features" in refused({**recipe, "model": alone}, tmp_path)
    write_vectors(tmp_path / "vectors.txt.gz", size=5)
    other = {"paper": "lin", "size": "laptop", "change": LSTM, "vectors": "vectors.txt.gz"}
    assert "vectors have 5 dimensions" in refused({**recipe, "model": other}, tmp_path)


def test_look_shows_words(features, tmp_path):
    recipe = recipe_of(tmp_path, "one", features=str(features))
    model = trained(recipe, tmp_path, tmp_path / "run")
    shown = str(model.look("dog owl pig"))
    assert all(word in shown for word in ("dog", "owl", "pig"))
    assert model.facts.eager


def test_characters_keep_their_case(tmp_path):
    recipe = recipe_of(tmp_path, "one")
    recipe |= {"text": {"vocab": 60, "lower": True}}
    recipe["model"] = {"paper": "elmo", "size": "small", "change": SMALL}
    assert "text.lower" in refused(recipe, tmp_path)


def test_an_elmo_can_be_tuned_itself(features, tmp_path):
    recipe = recipe_of(tmp_path, "tags")
    recipe["model"] = {"start": str(features), "change": {"mix": True}}
    del recipe["text"]
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.module.mix.logits.abs().max() > 0
    assert len(model.predict([["dog", "owl"]])[0].tags) == 2


def test_a_classifier_that_starts_from_elmo_reads_the_mean_of_its_words(features, tmp_path):
    recipe = recipe_of(tmp_path, "one")
    recipe["model"] = {"start": str(features)}
    del recipe["text"]
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.facts.pool == MeanPool()
    assert len(model.predict(["dog owl pig", "dog"])) == 2


TAGLM = {"width": 8, "embedding": 16, "dropout": 0.0}


def test_features_join_the_states_of_the_first_layer(features):
    """h_k1 = [→h; ←h; h_LM] (Peters et al., 2017, equation 7)."""
    top = Features(regard.load(features, "cpu").facts.trunk, at=1, layers="top")
    facts = change(taglm.BASE, **{f"trunk.stack.{name}": size for name, size in TAGLM.items()})
    facts = change(facts, **{"trunk.embed.vocab": 20})
    facts = replace(facts, trunk=replace(facts.trunk, features=top))
    model = facts.build().eval()
    tokens = np.random.default_rng(0).integers(0, 20, (5, 9))
    inputs = pack_rows([TokenRow(tokens[:3], [0] * 3), TokenRow(tokens[3:], [0] * 2)])
    tape = Tape("trunk.*.output")
    states_TD = model(inputs, tape=tape).encoded.states_TD
    (top_TD,), (first, second) = (
        model.trunk.frozen(inputs.tokens_T[:, 1:], inputs.layout),
        model.trunk.inner.layers.layers,
    )
    words_TD = model.trunk.embed.words(inputs.tokens_T[:, 0], inputs.layout)
    below_TD = first(words_TD, inputs.layout)[0]
    torch.testing.assert_close(tape.records["trunk.blocks.0.output"], below_TD)
    expected_TD = second(torch.cat([below_TD, top_TD], dim=-1), inputs.layout)[0]
    torch.testing.assert_close(states_TD, expected_TD)
    without = replace(facts.trunk, features=None).macs().token
    joined = 2 * 3 * 8 * 8  # the gates of the second layer
    assert facts.trunk.macs().token == without + top.model.macs().token // 3 + joined


def test_a_taglm_learns_from_a_folder(features, tmp_path):
    recipe = recipe_of(tmp_path, "tags", features=str(features))
    recipe["labels"] |= {"crf": True}
    own = {f"trunk.stack.{name}": size for name, size in TAGLM.items()}
    recipe["model"] = {"paper": "taglm", "features": str(features), "change": own}
    model = trained(recipe, tmp_path, tmp_path / "run")
    found = model.facts.trunk.features
    assert (found.at, found.layers, found.feature_dropout) == (1, "top", 0.25)
    assert list(model.module.trunk.mixes) == ["between"]
    assert len(model.predict(["dog owl pig"])[0].tags) == 3
    alone = {**recipe, "model": {"paper": "taglm"}}
    assert "model.features: taglm needs the folder" in refused(alone, tmp_path)
    above = {**recipe, "model": {**recipe["model"], "features_at": 2}}
    assert "features_at must be at least 1 and below the depth (2), not 2" in refused(
        above, tmp_path
    )


def test_only_recurrent_encoders_read_features_between_layers(features):
    model = regard.load(features, "cpu").facts.trunk
    with pytest.raises(BadInput, match="only recurrent encoders"):
        change(bert.TINY, **{"trunk.features": Features(model, at=1)})
    with pytest.raises(BadInput, match="place of features"):
        Features(model, at="middle")
