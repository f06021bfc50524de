"""Language models in both directions: targets, loss, carried state, and a training run."""

import tomllib

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.ground.batch import IGNORED, TokenRow
from regard.ground.errors import BadInput
from regard.models.facts import BiLMHead, change
from regard.models.papers import bert, elmo
from regard.objectives.bilm import BiLM
from regard.objectives.rows import AnnotatedRow
from regard.objectives.sum import Sum
from regard.text.tokenizers.characters import CharacterTokenizer, CharacterVocabulary
from regard.text.vocabularies.lexicon import Lexicon
from small_documents import RECIPE, write_animals

SMALL = {
    "width": 6,
    "cells": 8,
    "filters": ((1, 4), (2, 8)),
    "longest": 12,
    "character_size": 4,
    "highways": 1,
    "dropout": 0.0,
}
LEXICON = Lexicon.learn(["an owl saw an ox", "an owl ran"], 9)
WORDS = 6  # predicted: <UNK> <S> </S> an owl ox
TOKENIZER = CharacterTokenizer(CharacterVocabulary(12), LEXICON)


def examples(*texts):
    """A row for each text, and the word after it."""
    rows = [np.array([LEXICON.ids[word] for word in text.split()]) for text in texts]
    given = [AnnotatedRow(TokenRow(row[:-1], row[:-1] * 0), {}, {"bilm": row[-1]}) for row in rows]
    return BiLM(words=WORDS).annotator(TOKENIZER)(given, np.arange(len(given)), (0,))


def test_a_lexicon_has_words_by_frequency():
    assert LEXICON.words == ("<UNK>", "<S>", "</S>", "an", "owl", "ox", "ran", "saw")
    assert LEXICON.encode("an owl flew") == [1, 3, 4, 0, 2]
    assert LEXICON.encode(" ") == []


def test_a_lexicon_is_saved_and_loaded(tmp_path):
    TOKENIZER.save(tmp_path)
    assert CharacterTokenizer.load(tmp_path).lexicon == LEXICON
    (tmp_path / "lexicon.txt").write_text("<UNK>\n<S>\nowl\nowl\n")
    with pytest.raises(BadInput, match="occurs twice"):
        CharacterTokenizer.load(tmp_path)


def test_targets_are_the_neighbours_of_each_word():
    first, second = examples("<S> an owl saw </S> <S>", "ox </S> <S> an")
    assert TOKENIZER.words.pieces(first.row.tokens) == ["<S>", "an", "owl", "saw", "</S>"]
    following, before = first.targets["bilm"].T.tolist()
    assert following == [3, 4, 0, 2, IGNORED]  # "saw" is beyond the softmax; "<S>" is not learned
    assert before == [IGNORED, 1, 3, 4, 0]
    following, before = second.targets["bilm"].T.tolist()
    assert following == [2, IGNORED, 3] and before == [IGNORED, 5, IGNORED]


def test_the_loss_is_that_of_both_halves():
    facts = change(elmo.SMALL, **SMALL).with_heads(BiLMHead(WORDS))
    model, objective = facts.build().eval(), Sum(BiLM(words=WORDS))
    batch = objective.collate(examples("<S> an owl saw </S> <S>", "ox </S> <S> an"))
    assert batch.weight == 4 + 4 + 2 + 1
    loss, nll = objective(model, batch)[:2]
    states_TD, out = model(batch.inputs).states_TD, model.heads["bilm"].out
    expected = sum(
        F.cross_entropy(out(states_TD[:, half]), batch.targets["bilm"][:, way], reduction="sum")
        for way, half in enumerate((slice(6), slice(6, 12)))
    )
    torch.testing.assert_close(loss, expected)
    assert nll == loss.detach()


def test_states_are_carried_by_both_directions():
    facts = change(elmo.SMALL, **SMALL).with_heads(BiLMHead(WORDS))
    model, objective = facts.build().eval(), Sum(BiLM(words=WORDS))
    batch = objective.collate(examples("<S> an owl saw </S> <S>"))
    state = objective.initial_state(model, 1)
    assert torch.equal(model(batch.inputs).states_TD, model(batch.inputs, state=state).states_TD)
    after = model(batch.inputs, state=state).state
    differs = model(batch.inputs, state=after).states_TD != model(batch.inputs).states_TD
    assert differs.any(0).all()


def test_other_models_are_refused():
    with pytest.raises(BadInput, match="two language models"):
        BiLM().check(bert.TINY)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = write_animals(tmp_path_factory.mktemp("animals"))
    recipe = tomllib.loads(RECIPE)
    recipe |= {
        "text": {"vocab": 40},
        "objective": {"bilm": {"words": 30}},
        "model": {"paper": "elmo", "size": "small", "change": {**SMALL, "filters": [[1, 4]]}},
        "batches": {"tokens": 160, "rows": 16, "longest": 10},
    }
    recipe["train"] |= {"steps": 24, "evaluate_every": 12, "checkpoint_every": 12}
    return folder, recipe


def test_it_is_trained_from_raw_text(recipe, tmp_path):
    folder, recipe = recipe
    dev = [
        event.verdict.figures
        for event in regard.train(recipe, data=folder, out=tmp_path / "run")
        if type(event).__name__ == "DevEvent"
    ]
    assert dev[1]["perplexity"] < dev[0]["perplexity"] < 30
    assert {"forward_perplexity", "backward_perplexity"} <= dev[0].keys()
    model = regard.load(tmp_path / "run" / "model", "cpu")
    (states,) = model.encode(["seal otter."])
    assert states.shape == (3, 12)
    assert model.logits(["seal otter."])[0].shape == (5, 2, 30)
    pytest.importorskip("h5py")
    model.save(tmp_path / "published", "elmo")
    (copy,) = regard.load(tmp_path / "published", "cpu").encode(["seal otter."])
    assert torch.equal(states, copy)


def test_resume_is_bit_exact_with_carried_state(recipe, tmp_path):
    folder, recipe = recipe
    half = {**recipe, "train": {**recipe["train"], "steps": 12}}
    for out, given in (("whole", recipe), ("parts", half)):
        list(regard.train(given, data=folder, out=tmp_path / out))
    list(regard.train(recipe, data=folder, out=tmp_path / "parts", resume=True))
    whole, parts = (
        regard.load(tmp_path / name / "model", "cpu").module.state_dict()
        for name in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_no_more_words_are_predicted_than_are_read(recipe, tmp_path):
    folder, given = recipe
    refused = {**given, "objective": {"bilm": {"words": 41}}}
    fault = r"objective\.bilm\.words: 41 words are predicted, and only 40 are read \(text\.vocab\)$"
    with pytest.raises(BadInput, match=fault):
        list(regard.train(refused, data=folder, out=tmp_path / "run"))
    assert not (tmp_path / "run").exists()
