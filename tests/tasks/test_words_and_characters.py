"""Taggers that read whole words: which of them are known, and vectors from their characters."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import TokenRow, pack_rows
from regard.core.tape import Tape
from regard.data.batches.memory_dataset import UnknownWordRows
from regard.models.facts import change
from regard.models.features import Features
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import elmo, ma
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from small_words import recipe_of, refused, trained

SMALL = {"width": 8, "embedding": 20, "dropout": 0.0, "filters": ((3, 4),), "character_size": 3}
ELMO = {"width": 4, "cells": 6, "filters": ((1, 4), (2, 8)), "longest": 8, "character_size": 4}


def tags_of(folder, sentences):
    """A recipe for these words, each with its tag."""
    recipe = recipe_of(folder, "tags")
    for name in ("train", "dev", "test"):
        lines = [
            json.dumps({"words": [word for word, _ in pairs], "tags": [tag for _, tag in pairs]})
            for pairs in sentences
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        recipe["data"][name] = {"reader": "jsonl", "file": f"{name}.jsonl"}
    return recipe


def spelled(**model):
    """The table ``model`` of a small tagger with characters."""
    facts = {**SMALL, "filters": [[3, 4]]}
    return {"paper": "ma", "size": "laptop", "change": facts, **model}


def test_words_of_tagged_files_are_known_as_they_stand_there(tmp_path):
    """ "U.S." was cut into four words where words were learned, and unknown where it is tagged."""
    names, others = ("U.S.", "New York"), ("'s", "6-4", "no\xa0space")
    pairs = [(name, "S-LOC") for name in names] + [(word, "O") for word in others]
    model = trained(tags_of(tmp_path, [pairs] * 4), tmp_path, tmp_path / "run")
    words, known = model.tokenizer.words, {word for word, _ in pairs}
    assert known <= {*words.lexicon.words}
    assert words.unk not in words.tokens(sorted(known)).tolist()
    assert "U" not in words.lexicon.ids


def test_other_tokenizers_read_the_words_of_tagged_files_as_a_text(tmp_path):
    recipe = tags_of(tmp_path, [[("owl", "S-BIRD"), ("flies", "O")]] * 4)
    recipe["text"] = {"vocab": 280}
    assert trained(recipe, tmp_path, tmp_path / "run").predict(["owl"])[0].words[0].text == "owl"


def test_a_word_is_its_vector_beside_that_of_its_characters():
    torch.manual_seed(1)
    model = change(ma.LAPTOP, **SMALL, **{"trunk.embed.vocab": 9, "longest": 6}).build().eval()
    tokens_TC = np.random.default_rng(0).integers(0, 9, (5, 7))
    inputs, tape = pack_rows([TokenRow(tokens_TC, [0] * 5)]), Tape("trunk.embed.output")
    model(inputs, tape=tape)
    embed = model.trunk.embed
    (filters,) = embed.characters.filters
    vectors_TCD = embed.characters.token(inputs.tokens_T[:, 1:])
    windows_TWD = vectors_TCD.unfold(1, 3, 1).flatten(2)  # (D, 3) each, as kernels have them
    outputs_TWF = windows_TWD @ filters.weight.flatten(1).T + filters.bias
    words_TD = embed.token(inputs.tokens_T[:, 0])
    expected = torch.cat([words_TD, outputs_TWF.amax(1).tanh()], dim=-1)
    torch.testing.assert_close(tape.records["trunk.embed.output"], expected)
    torch.testing.assert_close(embed.static(inputs.tokens_T), expected)
    assert embed.characters.projection is None and words_TD.shape[1] == 16


def test_characters_tell_the_case_of_words_in_lower_case(tmp_path):
    names = [[("Owl", "S-PER"), ("owl", "O")], [("dog", "O"), ("Dog", "S-PER")]]
    recipe = tags_of(tmp_path, names * 8)
    recipe["text"] = {"kind": "words", "vocab": 60, "lower": True}
    recipe["model"], recipe["train"]["steps"] = spelled(), 60
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert "Owl" not in model.tokenizer.words.lexicon.ids
    assert model.facts.trunk.ids_per_token == (31,)
    tags = [result.tags for result in model.predict([["Owl", "owl"], ["dog", "Dog"]])]
    assert tags == [["S-PER", "O"], ["O", "S-PER"]]
    again = regard.load(tmp_path / "run" / "model", "cpu")
    assert again.facts == model.facts
    alone, together = model.logits([["Owl"]]), model.logits([["Owl"], ["dog", "Dog"]])
    torch.testing.assert_close(alone[0], together[0], atol=1e-5, rtol=1e-5)


def test_a_classifier_reads_characters_too(tmp_path):
    recipe = recipe_of(tmp_path, "one")
    recipe["model"] = spelled()
    recipe["text"]["unknown"] = 0.5
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.predict(["dog owl pig"])[0].label in ("no", "owl")
    assert model.embed(["dog", "Dog"]).shape == (2, 16)


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    folder, facts = tmp_path_factory.mktemp("elmo"), change(elmo.SMALL, **ELMO)
    tokenizer = CharacterTokenizer(CharacterVocabulary(8))
    folders.write(folder, LoadedModel(elmo.PAPER, facts, facts.build(), tokenizer))
    return folder


def test_characters_stand_beside_features_that_read_the_same_ones(features, tmp_path):
    recipe = recipe_of(tmp_path, "tags")
    recipe["model"] = spelled(features=str(features))
    recipe["model"]["change"]["embedding"] = 20 + 8
    model = trained(recipe, tmp_path, tmp_path / "run")
    assert model.facts.trunk.ids_per_token == (1 + 8,)
    assert model.facts.trunk.embed.characters.longest == 8
    assert model.module.trunk.embed.token.weight.shape[1] == 16
    assert len(model.predict([["dog", "owl"]])[0].tags) == 2


def test_other_lengths_and_sizes_are_refused(features, tmp_path):
    frozen = regard.load(features, "cpu").facts.trunk
    with pytest.raises(regard.BadInput, match=r"8 ids per word, but this trunk 30 characters"):
        change(ma.LAPTOP, features=Features(frozen))
    recipe = recipe_of(tmp_path, "tags")
    recipe["model"] = spelled()
    recipe["model"]["change"]["embedding"] = 4
    assert "the 4 dimensions of characters leave none for words" in refused(recipe, tmp_path)
    with pytest.raises(
        regard.BadInput, match="filters: 30 filters, but the width is 8; set projected"
    ):
        ma.CHARACTERS.build(8, 0.0)


def test_words_that_occur_once_are_unknown_now_and_then():
    rows = [TokenRow([3, 4, 5], [0] * 3), TokenRow([3, 6], [0] * 2)]
    data = UnknownWordRows([(row, [0]) for row in rows], unknown=0, rate=0.5, seed=1)
    read = [data.read(epoch, np.array([0, 1])) for epoch in range(400)]
    drawn = np.array([np.concatenate([row.tokens for row, _ in pairs]) for pairs in read])
    assert (drawn[:, [0, 3]] == 3).all()  # which occurs twice
    for column, word in ((1, 4), (2, 5), (4, 6)):
        assert {*drawn[:, column].tolist()} == {0, word}
        assert 0.4 < (drawn[:, column] == 0).mean() < 0.6
    assert rows[0].tokens == [3, 4, 5]
    (again, _), _ = data.read(7, np.array([0, 1]))
    assert again.tokens.tolist() == drawn[7, :3].tolist()
    ((alone, _),) = data.read(7, np.array([1]))
    assert alone.tokens.tolist() == drawn[7, 3:].tolist()


def test_the_characters_of_an_unknown_word_stay():
    tokens = np.array([[3, 9, 9], [4, 8, 7]])
    data = UnknownWordRows([(TokenRow(tokens, [0, 0]), [0])], unknown=0, rate=0.99, seed=2)
    ((row, _),) = data.read(0, np.array([0]))
    assert row.tokens.tolist() == [[0, 9, 9], [0, 8, 7]]


def test_a_recipe_draws_unknown_words(tmp_path):
    recipe = recipe_of(tmp_path, "tags")
    recipe["text"]["unknown"] = 0.9
    assert trained(recipe, tmp_path, tmp_path / "run").predict(["owl"])
    recipe["text"] = {"vocab": 300, "unknown": 0.5}
    assert "text.unknown" in refused(recipe, tmp_path)
