"""Parts of one model begin with the weights of another's: ``model.start`` as a table."""

import tomllib

import pytest
import torch

import regard
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import bahdanau, zaremba
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.training.recipe import make_recipe, read
from regard.training.run import prepare
from small import WORDS, write_corpus
from small_labels import write_owls
from small_runs import ALONE

LSTM = {"width": 12, "embedding": 12}
TEXTS = [" ".join(WORDS)] * 3


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    tokenizer = train_encoder_tokenizer(TEXTS, "word-level", 40, longest=None)
    facts = change(zaremba.SMALL, **LSTM, depth=1, vocab=len(tokenizer.words))
    return write(tmp_path_factory.mktemp("lm"), zaremba.PAPER, facts, tokenizer)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    tokenizer = train_translation_tokenizer(TEXTS, TEXTS, "bpe", 300, joint=False)
    facts = change(bahdanau.LAPTOP, **LSTM, maxout=8, cell="lstm")
    sizes = dict(zip(("source.vocab", "target.vocab"), map(len, tokenizer.sides), strict=True))
    return write(
        tmp_path_factory.mktemp("translator"), bahdanau.PAPER, change(facts, **sizes), tokenizer
    )


def write(folder, paper, facts, tokenizer):
    torch.manual_seed(3)
    folders.write(folder, LoadedModel(paper, facts, facts.build(), tokenizer))
    return folder


def recipe_of(folder, start, parts, **changes):
    content = tomllib.loads(write_owls(folder).read_text())
    content["model"] |= {"size": "last", "start": {"folder": str(start), "parts": parts}}
    content["model"]["change"] |= changes
    if "layer" not in "".join(parts) or "trunk.embed" in parts:
        del content["text"]  # the tokenizer comes with the token vectors
    return content


def run_of(folder, content):
    return prepare(make_recipe(content, "owls"), folder / "run", ALONE, data=folder)


def taken(run, start, parts):
    """Whether every weight of the parts is that of the start, and others are not."""
    ours, theirs = run.job.model.state_dict(), folders.read(start).module.state_dict()
    for name, tensor in ours.items():
        source = next((name.replace(a, b, 1) for a, b in parts.items() if name.startswith(a)), None)
        if source is not None:
            assert torch.equal(tensor, theirs[source]), name
    return [name for name in ours if name.startswith(tuple(parts))]


def test_the_layers_of_a_language_model(language_model, tmp_path):
    parts = {"trunk.embed": "trunk.embed", "trunk.layers.layers": "trunk.layers"}
    content = recipe_of(tmp_path, language_model, parts, direction="forward", scaled=False)
    run = run_of(tmp_path, content)
    assert len(taken(run, language_model, parts)) == 5
    tokenizer = folders.read(language_model).tokenizer
    assert run.facts.sizes["tokens"] == len(tokenizer.words)
    said = "trunk.embed begins with trunk.embed, trunk.layers.layers begins with trunk.layers"
    assert run.job.remarks == (f"{said} of {language_model}",)


def test_the_encoder_of_a_translator_and_its_vocabulary(translator, tmp_path):
    parts = {"trunk": "source"}
    content = recipe_of(tmp_path, translator, parts)
    run = run_of(tmp_path, content)
    assert len(taken(run, translator, parts)) == 9
    list(regard.train(content, data=tmp_path, out=tmp_path / "whole"))
    model = regard.load(tmp_path / "whole" / "model", "cpu")
    source = folders.read(translator).tokenizer.source
    assert model.tokenizer.words.fingerprint == source.fingerprint
    assert model.predict(["owl pig"])[0].label in ("no", "owl")


def test_without_token_vectors_the_vocabulary_is_learned(translator, tmp_path):
    parts = {"trunk.layers": "source.layers"}
    run = run_of(tmp_path, recipe_of(tmp_path, translator, parts))
    assert len(taken(run, translator, parts)) == 8
    source = folders.read(translator).tokenizer.source
    assert run.facts.sizes["tokens"] != len(source)


def test_a_translator_takes_layers_of_a_language_model(language_model, tmp_path):
    parts = '{"target.layers.layers" = "trunk.layers"}'
    settings = (
        *("model.paper=sutskever", "model.change={width=12, embedding=12, depth=1}"),
        *(f"model.start.folder={language_model}", f"model.start.parts={parts}"),
    )
    recipe = read(write_corpus(tmp_path), settings)
    run = prepare(recipe, tmp_path / "run", ALONE, data=tmp_path)
    assert len(taken(run, language_model, {"target.layers.layers": "trunk.layers"})) == 4
    with pytest.raises(BadInput, match="parts without token vectors"):
        read(tmp_path / "small.toml", [f"model.start={language_model}", "model.size="])


@pytest.mark.parametrize(
    ("parts", "changes", "said"),
    [
        (
            {"trunk.layers": "source.layers"},
            {"width": 6},
            "misshapen: source.layers.layers.0.kernel.weight_ih_l0 is [48, 12], not [24, 12]",
        ),
        (
            {"trunk.layers": "source.layers"},
            {"depth": 2},
            "missing: source.layers.layers.1.kernel.weight_ih_l0",
        ),
        (
            {"trunk.layers": "source.layers"},
            {"direction": "forward"},
            "unknown: source.layers.layers.0.kernel.weight_ih_l0_reverse",
        ),
        ({"trunk.layer": "source.layers"}, {}, "this model has no weights called 'trunk.layer'"),
        ({"trunk.layers": "source.rnn"}, {}, "no weights called 'source.rnn'"),
    ],
)
def test_parts_that_do_not_fit_are_one_line(translator, tmp_path, parts, changes, said):
    with pytest.raises(BadInput) as refused:
        run_of(tmp_path, recipe_of(tmp_path, translator, parts, **changes))
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert str(refused.value).startswith("model.start.parts: ")


def test_token_vectors_that_are_read_at_another_scale_are_refused(language_model, tmp_path):
    content = recipe_of(tmp_path, language_model, {"trunk.embed": "trunk.embed"}, scaled=True)
    said = (
        "trunk.embed.token.weight is multiplied by 3.464 .* by 1: set model.change.scaled = false"
    )
    with pytest.raises(BadInput, match=said):
        run_of(tmp_path, content)


def test_what_cannot_stand_beside_parts_is_refused(translator, tmp_path):
    content = recipe_of(tmp_path, translator, {"trunk": "source"})
    for more, said in (
        ({"text": {"vocab": 300}}, "text cannot be used beside model.start"),
        (
            {
                "model": {
                    "start": {"folder": "f", "parts": {"trunk.embed.token": "a", "trunk": "b"}}
                }
            },
            "model.start.parts: 'trunk.embed.token' is a part of 'trunk': name one of them",
        ),
        ({"model": {**content["model"], "layers": [0]}}, "start.parts names the layers"),
        ({"model": {**content["model"], "vectors": "glove"}}, "vectors cannot be used with start"),
    ):
        with pytest.raises(BadInput, match=said):
            make_recipe({**content, **more}, "owls")
