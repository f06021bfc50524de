"""Folders for sentence-transformers: their files, and the vectors that follow from them."""

import json

import pytest
import torch
from torch.nn.functional import normalize

import regard
from bert_folders import quietly
from regard.api import Model
from small_bert import SENTENCES, small_bert
from verb import run

transformers = pytest.importorskip("transformers")
POOLS = {
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "first": "pooling_mode_cls_token",
}


def sentence_model(pool, normalise, longest=12):
    loaded = small_bert()
    settings = {"pool": pool, "normalise": normalise, "longest": longest, "lower": False}
    loaded.notes["embedding"] = settings
    return Model(loaded)


def vectors_by_the_files(folder, texts):
    """Vectors as sentence-transformers computes them: its modules one after the other."""

    def content(path):
        return json.loads((folder / path).read_text())

    kinds = [module["type"].rsplit(".", 1)[-1] for module in content("modules.json")]
    assert kinds in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
    assert [module["path"] for module in content("modules.json")][:2] == ["", "1_Pooling"]
    reading, pooling = content("sentence_bert_config.json"), content("1_Pooling/config.json")
    model = quietly(lambda: transformers.AutoModel.from_pretrained(folder)).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    longest = reading["max_seq_length"]
    read = tokenizer(texts, padding=True, truncation=True, max_length=longest, return_tensors="pt")
    assert read.input_ids.shape[1] <= longest
    with torch.no_grad():
        states = model(**read).last_hidden_state
    assert pooling["word_embedding_dimension"] == states.shape[-1]
    mask = read.attention_mask[:, :, None].bool()
    by_mode = {
        "pooling_mode_mean_tokens": (states * mask).sum(1) / mask.sum(1),
        "pooling_mode_max_tokens": states.masked_fill(~mask, -torch.inf).amax(1),
        "pooling_mode_cls_token": states[:, 0],
    }
    (mode,) = (mode for mode, on in pooling.items() if on is True)
    return normalize(by_mode[mode], dim=-1) if "Normalize" in kinds else by_mode[mode]


@pytest.mark.thinned
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("pool", POOLS)
def test_written_folders_have_the_same_vectors(pool, normalise, tmp_path):
    model = sentence_model(pool, normalise)
    model.save(tmp_path / "ours")
    run("convert", tmp_path / "ours", tmp_path / "theirs", "--to", "hf")
    pooling = json.loads((tmp_path / "theirs" / "1_Pooling" / "config.json").read_text())
    assert [mode for mode, on in pooling.items() if on is True] == [POOLS[pool]]
    expected = model.embed(SENTENCES)
    found = vectors_by_the_files(tmp_path / "theirs", [*SENTENCES])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    again = regard.load(tmp_path / "theirs", "cpu")
    assert again.notes["embedding"] == model.notes["embedding"]
    torch.testing.assert_close(again.embed(SENTENCES), expected)


def test_a_folder_that_is_read_and_written_keeps_its_files(tmp_path):
    sentence_model("mean", True).save(tmp_path / "a", "hf")
    (tmp_path / "a" / "config_sentence_transformers.json").write_text('{"prompts": {}}')
    regard.load(tmp_path / "a", "cpu").save(tmp_path / "b", "hf")
    for name in ("modules.json", "1_Pooling/config.json", "config_sentence_transformers.json"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()


def test_other_models_have_no_such_files(tmp_path):
    Model(small_bert("one")).save(tmp_path / "model", "hf")
    assert not (tmp_path / "model" / "modules.json").exists()
