"""``regard convert`` for encoders: every layer and head checked, wrong folders refused."""

import json
import shutil

import pytest
import torch

from bert_folders import HEADS, write_bert
from regard.api import load
from regard.inside import hf_reference
from regard.models.folders import hf
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights.files import read_folder, write_tensors
from verb import run

pytest.importorskip("transformers")

LAYERS = ["embedding", "block 1", "block 2"]
SAID = {
    "states": ["pooled"],
    "words": ["mlm logits"],
    "words and pairs": ["pooled", "mlm logits", "sentence_pair logits"],
    "pairs": ["pooled", "sentence_pair logits"],
    "one label": ["pooled", "label logits"],
    "several labels": ["pooled", "label logits"],
    "a number": ["pooled", "label logits"],
    "tags": ["token_label logits"],
    "answers": ["span logits"],
    "choices": ["pooled", "choice logits"],
}


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("convert") / "bert", "one label", text=True)


def table(done) -> dict[str, list[str]]:
    return {line[:20].strip(): line[20:].split() for line in done.stdout.splitlines()[1:]}


@pytest.mark.thinned
@pytest.mark.parametrize("head", HEADS)
def test_there_and_back(head, tmp_path):
    source = write_bert(tmp_path / "bert", head, text=True)
    there = run("convert", source, tmp_path / "ours", "--to", "regard", "--check")
    back = run("convert", tmp_path / "ours", tmp_path / "theirs", "--to", "hf", "--check", "--json")
    assert there.stdout.splitlines()[0].split() == [
        *("largest", "difference", "read", "back", "transformers")
    ]
    found = table(there)
    assert list(found) == [*LAYERS, *SAID[head], "ids of texts"]
    assert all(len(row) == 2 and max(map(float, row)) <= 1e-5 for row in found.values())
    assert found["ids of texts"] == ["0", "0"]
    records = [json.loads(line) for line in back.stdout.splitlines()]
    assert [record["layer"] for record in records] == list(found)
    one, other = read_folder(source), read_folder(tmp_path / "theirs")
    assert one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def test_unknown_heads_are_kept_on_request_and_go_back(labels, tmp_path):
    heads = {
        "cls.species.weight": torch.randn(6, 12).half(),
        "cls.species.bias": torch.tensor([float("nan")] * 6),
        "cls.species.seen": torch.tensor(7),
    }
    source = tmp_path / "heads"
    shutil.copytree(labels, source)
    write_tensors(source / "model.safetensors", {**read_folder(labels), **heads})
    refused = run("convert", source, tmp_path / "ours", "--to", "regard", code=2)
    assert all(name in refused.stderr for name in heads)
    assert refused.stderr.endswith("they can be kept beside the weights (keep_unknown)\n")
    assert not (tmp_path / "ours").exists()

    run("convert", source, tmp_path / "ours", "--to", "regard", "--check", "--keep-unknown")
    run("convert", tmp_path / "ours", tmp_path / "back", "--to", "hf")
    run("convert", source, tmp_path / "same", "--to", "hf", "--check", "--keep-unknown")
    before = read_folder(source)
    for written in (tmp_path / "back", tmp_path / "same"):
        after = read_folder(written)
        assert after.keys() == before.keys()
        for name, tensor in before.items():
            assert after[name].dtype == tensor.dtype
            assert after[name].numpy().tobytes() == tensor.numpy().tobytes()
    assert load(tmp_path / "ours", "cpu").predict(["a"]) == load(labels, "cpu").predict(["a"])


def test_a_layer_out_of_place_is_no_unknown_head(labels, tmp_path):
    source = tmp_path / "deeper"
    shutil.copytree(labels, source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    done = run("convert", source, tmp_path / "ours", "--to", "regard", "--keep-unknown", code=2)
    assert "unknown: bert.encoder.layer.1." in done.stderr
    assert "keep_unknown" not in done.stderr


def test_a_wrong_tensor_leaves_nothing(labels, tmp_path, monkeypatch):
    def spoilt(path, tensors):
        name = "bert.encoder.layer.1.output.LayerNorm.bias"
        write_tensors(path, {**tensors, name: tensors[name] + 1e-3})

    monkeypatch.setattr(hf, "write_tensors", spoilt)
    done = run("convert", labels, tmp_path / "copy", "--to", "hf", "--check", code=1)
    found = table(done)
    assert float(found["block 1"][0]) == 0 < 1e-5 < float(found["block 2"][0])
    assert float(found["label logits"][1]) > 1e-5
    assert "not written: differs by" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_head_that_is_lost_leaves_nothing(labels, tmp_path, monkeypatch):
    def headless(path, tensors):
        write_tensors(path, {n: one for n, one in tensors.items() if "classifier" not in n})

    monkeypatch.setattr(hf, "write_tensors", headless)
    monkeypatch.setattr(hf, "check_tokenizer", lambda *_: None)  # which would notice before
    done = run("convert", labels, tmp_path / "copy", "--to", "hf", "--check", code=1)
    assert table(done)["label logits"][0] == "inf" and list(tmp_path.iterdir()) == []


def test_a_disagreement_with_transformers_leaves_nothing(labels, tmp_path, monkeypatch):
    model_in = hf_reference.load_model

    def spoilt(folder, facts):
        model = model_in(folder, facts)
        model.classifier.bias.data += 1e-3
        return model

    monkeypatch.setattr(hf_reference, "load_model", spoilt)
    done = run("convert", labels, tmp_path / "ours", "--to", "regard", "--check", code=1)
    assert float(table(done)["pooled"][1]) <= 1e-5 < float(table(done)["label logits"][1])
    assert list(tmp_path.iterdir()) == []


def test_other_ids_leave_nothing(labels, tmp_path, monkeypatch):
    row = EncoderTokenizer.row

    def swapped(text, a, b=None, longest=None):
        made = row(text, a, b, longest)
        return made if b is None else made._replace(segments=[0] * len(made.tokens))

    monkeypatch.setattr(EncoderTokenizer, "row", swapped)
    done = run("convert", labels, tmp_path / "ours", "--to", "regard", "--check", code=1)
    assert table(done)["ids of texts"] == ["0", "8"]
    assert list(tmp_path.iterdir()) == []


def test_without_vocabulary_and_without_transformers(tmp_path, monkeypatch):
    bare = write_bert(tmp_path / "bert", "words")
    done = run("convert", bare, tmp_path / "ours", "--to", "regard", "--check")
    assert list(table(done)) == [*LAYERS, "mlm logits"]
    monkeypatch.setattr(hf_reference, "is_installed", lambda: False)
    done = run("convert", bare, tmp_path / "again", "--to", "hf", "--check")
    assert "transformers is not installed" in done.stderr
    assert all(len(row) == 1 for row in table(done).values())


def test_what_transformers_does_not_have_is_shown(tmp_path):
    """A pooled state beside words: its class for words drops that."""
    source = write_bert(tmp_path / "bert", "words")
    pooler = {
        "bert.pooler.dense.weight": torch.randn(12, 12),
        "bert.pooler.dense.bias": torch.randn(12),
    }
    write_tensors(source / "model.safetensors", read_folder(source) | pooler)
    done = run("convert", source, tmp_path / "ours", "--to", "regard", "--check")
    assert list(table(done)) == [*LAYERS, "pooled", "mlm logits"]
    assert table(done)["pooled"] == ["0.0e+00", "–"]
