"""Models of two texts learn tasks, read features and vectors, and show their alignment."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.core.batch import TokenRow, pack_rows
from regard.core.errors import BadInput
from regard.inside.attention.look import NO_SECOND_TEXT
from regard.models.facts import change
from regard.models.features import Features
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import elmo
from regard.models.papers import esim as esim_paper
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary
from small_words import recipe_of, refused, trained
from verb import run

ELMO = {"width": 4, "cells": 6, "filters": ((1, 4), (2, 8)), "longest": 8, "character_size": 4}
SMALL = {"width": 8, "embedding": 16, "dropout": 0.0}
ESIM = {"paper": "esim", "change": {**SMALL, "hidden": [8], "pool_dropout": 0.0}}
BCN = {**ESIM, "paper": "cove", "size": "bcn"}
BIDAF = {"paper": "bidaf", "change": {**SMALL, "filters": [[2, 4]], "character_size": 4}}
CLARK = {**BIDAF, "paper": "clark"}
READERS = {"bidaf": BIDAF, "clark": CLARK}
MAPS = {"bidaf": ["alignment", "summary"], "clark": ["alignment", "summary", "encoder"]}
PAIR = ("dog cow owl", "pig cow")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    folder, facts = tmp_path_factory.mktemp("elmo"), change(elmo.SMALL, **ELMO)
    torch.manual_seed(3)
    tokenizer = CharacterTokenizer(CharacterVocabulary(8))
    folders.write(folder, LoadedModel(elmo.PAPER, facts, facts.build(), tokenizer))
    return folder


def recipe(folder, kind, model, **more):
    content = recipe_of(folder, kind)
    return content | {"model": {**model, **more}}


@pytest.fixture(scope="module")
def esim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("esim")
    content = recipe(folder, "pairs", ESIM)
    content["train"]["steps"] = 40
    trained(content, folder, folder / "run")
    return folder / "run" / "model"


def test_esim_learns_pairs(esim):
    model = regard.load(esim, "cpu")
    labels = [prediction.label for prediction in model.predict([("dog cow", "pig owl"), PAIR])]
    assert labels == ["owl", "no"]


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_readers_learn_answers(tmp_path, name):
    content = recipe(tmp_path, "answer", READERS[name])
    content["train"]["steps"] = 60
    model = trained(content, tmp_path, tmp_path / "run")
    questions = [("who?", "dog cow owl pig"), ("who?", "owl")]
    assert [prediction.text for prediction in model.predict(questions)] == ["owl", "owl"]
    assert [site.name for site in model.facts.attention_sites] == MAPS[name]
    view = model.look("who?", "dog cow owl pig")
    assert {*MAPS[name]} <= {each.name for each in view.maps}
    with pytest.raises(BadInput, match="give the context as the target"):
        model.look("who?")


@pytest.mark.parametrize("name", READERS)
def test_look_opens_with_the_attention_that_an_answer_depends_on(tmp_path, name):
    content = recipe(tmp_path, "answer", READERS[name])
    content["train"]["steps"] = 2
    model = trained(content, tmp_path, tmp_path / "run")
    question, context = "who?", "dog cow owl pig"
    view, (answer,) = model.look(question, context), model.predict([(question, context)])
    shown = view.to_json()
    assert shown["map"] == "alignment-back" and [*shown["rows"]][1:5] == context.split()
    assert view.predicted == answer.summary == f"{answer.text}  {answer.best[0].probability:.3f}"
    spaced = " ".join(answer.summary.split())
    assert spaced in view.text(200).splitlines() and spaced in view.svg()
    assert answer.summary in view.view_record().json["caption"]
    assert shown["answer"]["text"] == answer.text
    assert view.choose("alignment").to_json()["map"] == "alignment"
    with pytest.raises(BadInput, match=r"the second text .target. is empty"):
        model.look(question, " ")
    given = ("look", tmp_path / "run" / "model", question, "--device", "cpu", "--target")
    assert "the second text (target) is empty" in run(*given, "", code=2).stderr
    assert "alignment-back, mean" in run(*given, context).stdout


@pytest.mark.parametrize("kind", ["one", "pairs"])
def test_bcn_learns_texts_and_pairs(tmp_path, kind):
    content = recipe(tmp_path, kind, BCN)
    content["train"]["steps"] = 20
    model = trained(content, tmp_path, tmp_path / "run")
    texts = ["dog owl pig", "dog cow"] if kind == "one" else [("dog cow", "owl"), PAIR]
    assert [prediction.label for prediction in model.predict(texts)] == ["owl", "no"]


@pytest.mark.thinned
@pytest.mark.parametrize("place", ["input", "both", 1])
@pytest.mark.parametrize("model", [ESIM, BCN, BIDAF, CLARK], ids=["esim", "bcn", *READERS])
def test_features_of_words(features, tmp_path, model, place):
    kind = "answer" if model in READERS.values() else "pairs"
    content = recipe(tmp_path, kind, model, features=str(features), features_at=place)
    content["train"]["steps"] = 2
    if model in READERS.values():
        content["model"]["change"] = model["change"] | {"embedding": 24}
        if place == 1:
            assert "only recurrent encoders" in refused(content, tmp_path)
            return
    learned = trained(content, tmp_path, tmp_path / "run")
    mixes = learned.module.trunk.mixes
    assert list(mixes) == {"both": ["input", "output"], 1: ["between"]}.get(place, [place])
    assert all(mix.logits.abs().max() > 0 for mix in mixes.values())
    given = [PAIR, ("dog", "pig cow dog owl")]
    alone, together = learned.logits(given[:1])[0], learned.logits(given)[0]
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=1e-5)


def test_features_of_a_text_do_not_depend_on_the_other(features):
    trunk = regard.load(features, "cpu").facts.trunk
    facts = regard.change(esim_paper.LAPTOP, **SMALL, vocab=20)
    facts = change(facts, features=Features(trunk))
    model = facts.build().eval()
    ids = np.random.default_rng(0).integers(0, 20, (5, 9))
    first, both = TokenRow(ids[:3], [0] * 3), TokenRow(ids, [0] * 3 + [1] * 2)
    read = []
    for row in (first, both):
        tape = regard.Tape("trunk.embed.output")
        model(pack_rows([row]), tape=tape)
        read.append(tape.records["trunk.embed.output"][:3])
    torch.testing.assert_close(*read)


def test_words_begin_with_static_vectors(tmp_path):
    (tmp_path / "vectors.txt").write_text("".join(f"owl{' 0.5' * 16}\n"))
    content = recipe(tmp_path, "pairs", ESIM, vectors="vectors.txt")
    content["optimiser"]["freeze"] = ["embed"]
    model = trained(content, tmp_path, tmp_path / "run")
    owl = model.tokenizer.words.lexicon.ids["owl"]
    assert (model.module.trunk.embed.token.weight[owl] == 0.5).all()


def test_look_shows_the_alignment_in_both_directions(esim):
    model = regard.load(esim, "cpu")
    view = model.look(*PAIR)
    there, back = view.maps
    first, second = (("<S>", *text.split(), "</S>") for text in PAIR)
    assert (there.name, there.queries, there.keys) == ("alignment", first, second)
    assert (back.name, back.queries, back.keys) == ("alignment-back", second, first)
    for shown in (there, back):
        np.testing.assert_allclose(shown.select().sum(-1), 1, atol=1e-5)
        assert shown.special_queries == (0, len(shown.queries) - 1)
    (record,) = model.record([PAIR])
    whole = record.attention("alignment").map()
    np.testing.assert_array_equal(there.weights, whole.weights[..., :5, 5:])
    np.testing.assert_array_equal(back.weights, whole.weights[..., 5:, :5])
    subwords = model.look(*PAIR, subwords=True).maps
    np.testing.assert_array_equal(subwords[0].weights, there.weights)
    assert view.prediction == model.predict([PAIR])[0]


def test_a_saved_record_knows_where_the_second_text_begins(esim, tmp_path):
    (record,) = regard.load(esim, "cpu").record([PAIR])
    record.save(tmp_path / "record.safetensors")
    read = regard.Record.load(tmp_path / "record.safetensors")
    assert read.key_labels["trunk"].second == record.key_labels["trunk"].second == 5
    assert [each.name for each in read.attention().maps()] == ["alignment", "alignment-back"]


def test_the_verb_looks_at_an_alignment(esim, tmp_path):
    given = ["look", esim, PAIR[0], "--target", PAIR[1], "--device", "cpu"]
    shown = run(*given, "--html", tmp_path / "look.html").stdout
    assert "alignment, mean of all layers" in shown and (tmp_path / "look.html").is_file()
    back = json.loads(run(*given, "--map", "alignment-back", "--json").stdout)
    assert back["rows"] == ["<S>", "pig", "cow", "</S>"]
    alone = json.loads(run("look", esim, PAIR[0], "--device", "cpu", "--json").stdout)
    assert alone["rows"] == alone["columns"] == ["<S>", *PAIR[0].split(), "</S>"]
    shown = run("look", esim, PAIR[0], "--device", "cpu").stdout
    assert NO_SECOND_TEXT in shown.splitlines()
    wrong = run("look", esim, PAIR[0], "--rollout", "--device", "cpu", code=2)
    assert "this model has no self-attention" in wrong.stderr


def test_attribution_does_not_follow_an_alignment(esim):
    model = regard.load(esim, "cpu")
    assert {*model.attribute(PAIR).weights} == {"gradient", "integrated", "leave-one-out"}
    with pytest.raises(regard.BadInput, match="no attention that leads to its input"):
        model.attribute(PAIR, method="rollout")
