"""A classifier that begins with a language model or a sequence autoencoder (Dai & Le, 2015)."""

import tomllib

import pytest
import torch

import regard
from small import RECIPE
from small_labels import write_owls
from small_rnn import write_streams

LSTM = {"width": 12, "embedding": 10}


def train(content, folder, out):
    list(regard.train(content, data=folder, out=out))
    return regard.load(out / "model", "cpu")


@pytest.fixture(scope="module")
def owls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("owls")
    write_owls(folder)
    return folder


def classifier(owls, start, parts):
    content = tomllib.loads((owls / "owls.toml").read_text())
    del content["text"]
    given = {"folder": str(start), "parts": parts}
    content["model"] = {"paper": "dai", "size": "classifier", "change": LSTM, "start": given}
    return content


def test_an_autoencoder_writes_what_it_reads_and_gives_its_encoder(owls, tmp_path):
    content = tomllib.loads(RECIPE)
    texts = {name: {"table": f"{name}.tsv", "columns": ["text", "text"]} for name in ("train",)}
    content["data"] = {**texts, "dev": {"held_out": 10}}
    content["model"] = {"paper": "dai", "size": "autoencoder", "change": LSTM}
    autoencoder = train(content, owls, tmp_path / "autoencoder")
    assert isinstance(autoencoder.translate(["owl"])[0][0].text, str)

    content = classifier(owls, tmp_path / "autoencoder" / "model", {"trunk": "source"})
    content["train"] |= {"steps": 40, "evaluate_every": 40}
    model = train(content, owls, tmp_path / "run")
    assert model.tokenizer.words.fingerprint == autoencoder.tokenizer.source.fingerprint
    assert [one.label for one in model.predict(["dog owl pig", "dog pig"])] == ["owl", "no"]


def test_a_language_model_gives_its_layers(owls, tmp_path):
    folder = write_streams(tmp_path)
    content = tomllib.loads((folder / "lstm.toml").read_text())
    content["model"]["change"] = {**LSTM, "depth": 1}
    content["train"] |= {"steps": 2, "evaluate_every": 2}
    lm = train(content, folder, tmp_path / "lm")
    parts = {"trunk.embed": "trunk.embed", "trunk.layers.layers": "trunk.layers"}
    content = classifier(owls, tmp_path / "lm" / "model", parts)
    content["optimiser"]["freeze"] = ["trunk"]
    model = train(content, owls, tmp_path / "run")
    ours, theirs = model.module.trunk, lm.module.trunk
    assert torch.equal(ours.embed.token.weight, theirs.embed.token.weight)
    for name, weight in theirs.layers.state_dict().items():
        assert torch.equal(ours.layers.layers.state_dict()[name], weight)
    states = model.encode(["one two"])[0]
    torch.testing.assert_close(states, lm.encode(["one two"])[0])
    assert model.predict(["dog"])[0].label in ("no", "owl")
