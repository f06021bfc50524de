"""The tokens of states: names, ids, characters and words, for every kind of input."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import regard
from bert_folders import quietly, write_bert
from marian_folders import reference_tokenizer, write_marian
from regard import BadInput, Model, TextTokens
from small_bert import SENTENCES
from small_bert import model as small_encoder
from small_elmo import write_elmo
from small_gpt import write_gpt2
from small_images import small_vit

MANY = " ".join(SENTENCES)  # more tokens than the encoder reads
INPUTS = [*SENTENCES, MANY, (SENTENCES[0], MANY), (MANY, SENTENCES[1]), SENTENCES[2].split(), [5]]


def covered(text: str, tokens: TextTokens, number: int = 0) -> list[str]:
    """What each token covers of one text, without spaces."""
    pairs = zip(tokens.spans, tokens.texts, strict=True)
    return [text[span.start : span.end].strip() for span, of in pairs if of == number]


@pytest.mark.parametrize("limits", [{}, {"max_length": 11}], ids=str)
def test_every_state_has_a_token(limits):
    model = small_encoder("states")
    rows, states = model.tokens(INPUTS, **limits), model.encode(INPUTS, **limits)
    for given, row, states_TD in zip(INPUTS, rows, states, strict=True):
        assert len(row) == len(row.tokens) == len(row.ids) == len(states_TD) == len(row.spans)
        assert_close(model.encode([regard.TokenRow(*row_of(model, row))])[0], states_TD)
        assert [*row.tokens] == model.tokenizer.words.pieces(row.ids.tolist()), given


def row_of(model: Model, row: TextTokens) -> tuple[list[int], list[int]]:
    """Token ids and segments: special tokens have the segment of the text before them."""
    segments, now = [], 0
    for number in row.texts:
        now = now if number is None else number
        segments.append(now)
    return row.ids.tolist(), segments


def test_tokens_cover_the_characters_of_their_text():
    model = small_encoder("states")
    for text, row in zip(SENTENCES, model.tokens(SENTENCES), strict=True):
        pieces = [token.removeprefix("##") for token in row.tokens[1:-1]]
        assert covered(text.lower(), row) == pieces
        assert row.spans[0] is row.spans[-1] is None
        groups = [["".join(covered(text, row)[at - 1] for at in g)] for g in row.groups]
        assert [*row.words] == [word for (word,) in groups]


def test_pairs_and_truncated_texts():
    first, second = SENTENCES[0], MANY
    (row,) = small_encoder("states").tokens([(first, second)])
    assert {*row.texts} == {None, 0, 1} and row.texts.count(None) == 3
    assert covered(first.lower(), row) == [
        t.removeprefix("##") for t in row.tokens[1:][: len(covered(first, row))]
    ]
    kept = covered(second.lower(), row, 1)
    assert kept == [t.removeprefix("##") for t in row.tokens[-1 - len(kept) : -1]]
    assert max(map(max, row.groups)) < len(row) and row.words[0] == "The"


def test_words_of_a_list_are_those_of_the_list():
    words = ["Singing", "sailors", "\u200b", "Ada-Lovelace"]  # the third has no tokens
    (row,) = small_encoder("states").tokens([words])
    text = " ".join(words)
    assert row.tokens[0] == "[CLS]" and "[UNK]" in row.tokens
    assert covered(text, row)[0].lower() == row.tokens[1]
    assert row.words[:2] == ("Singing", "sailors")
    assert [span.end for span in row.spans if span][-1] == len(text)


def test_states_of_words_are_means():
    model = small_encoder("states")
    (row,), (states_TD,) = model.tokens(SENTENCES[:1]), model.encode(SENTENCES[:1])
    means_WD = row.of_words(states_TD)
    assert means_WD.shape == (len(row.words), states_TD.shape[1])
    for group, mean_D in zip(row.groups, means_WD, strict=True):
        assert_close(mean_D, torch.stack([states_TD[at] for at in group]).mean(0))
    array = row.of_words(states_TD.numpy())
    assert isinstance(array, np.ndarray)
    np.testing.assert_allclose(array, means_WD, rtol=1e-5, atol=1e-6)
    (empty,) = model.tokens([""])
    assert empty.of_words(model.encode([""])[0]).shape == (0, states_TD.shape[1])


def test_offsets_are_those_of_transformers(tmp_path):
    from transformers import BertTokenizerFast

    folder = write_bert(tmp_path / "bert", text=True)
    theirs = quietly(lambda: BertTokenizerFast.from_pretrained(folder))
    for text, row in zip(SENTENCES, regard.load(folder, "cpu").tokens(SENTENCES), strict=True):
        expected = theirs(text, return_offsets_mapping=True, truncation=True, max_length=len(row))
        assert row.ids.tolist() == expected["input_ids"]
        assert [tuple(span or (0, 0)) for span in row.spans] == expected["offset_mapping"]


def test_a_translator(tmp_path):
    folder = write_marian(tmp_path / "marian")
    model, theirs = regard.load(folder, "cpu"), reference_tokenizer(folder)
    texts = ["the old man reads a book", "a dog"]
    for text, row, states in zip(texts, model.tokens(texts), model.encode(texts), strict=True):
        ids = theirs(text)["input_ids"]
        assert row.ids.tolist() == ids and len(states) == len(ids)
        assert [*row.tokens] == theirs.convert_ids_to_tokens(ids)
        assert row.words == tuple(text.split()) and row.spans[-1] is None
        assert "".join(covered(text, row)) == text.replace(" ", "")
    (ids_only,) = model.tokens([[5, 6]])
    assert len(ids_only) == 2 and ids_only.words == () and ids_only.spans == (None, None)


def test_a_prefix_has_no_characters(small_run):
    loaded = regard.load(small_run / "run" / "model", "cpu")._loaded
    model = Model(replace(loaded, notes={**loaded.notes, "prompt": {"prefix": "cow owl "}}))
    (row,), (plain,) = model.tokens(["dog pig"]), Model(loaded).tokens(["dog pig"])
    added = len(row) - len(plain)
    assert added > 0 and row.spans == (None,) * added + plain.spans
    assert row.words == plain.words == ("dog", "pig")
    assert row.groups == tuple(tuple(at + added for at in group) for group in plain.groups)
    assert len(model.encode(["dog pig"])[0]) == len(row)


def test_byte_level_tokens(tmp_path):
    model = regard.load(write_gpt2(tmp_path / "gpt2"), "cpu")
    text = "The naïve café €5 🙂"
    (row,), (states,) = model.tokens([text]), model.encode([text])
    assert len(row) == len(states) and row.words == ("The", "naïve", "café", "€", "5", "🙂")
    assert {at for group in row.groups for at in group} == {*range(len(row))}


def test_whole_words_of_elmo(tmp_path):
    pytest.importorskip("h5py")
    model = regard.load(write_elmo(tmp_path / "elmo"), "cpu")
    (row,), (states,) = (
        model.tokens(["The old sailor sings."]),
        model.encode(["The old sailor sings."]),
    )
    assert row.tokens == row.words == ("The", "old", "sailor", "sings", ".")
    assert len(states) == 5 and row.groups == tuple((at,) for at in range(5))
    assert covered("The old sailor sings.", row) == [*row.words]


def test_models_without_a_tokenizer_name_ids():
    model = Model(replace(small_encoder("states")._loaded, tokenizer=None))
    (row,) = model.tokens([[5, 6, 7]])
    assert row.tokens == ("5", "6", "7") and row.texts == (None, None, None)
    with pytest.raises(BadInput, match="no tokenizer"):
        model.tokens(["a text"])


def test_images_have_no_tokens():
    with pytest.raises(BadInput, match="reads images, not texts"):
        small_vit().tokens([np.zeros((8, 8, 3), np.uint8)])
    with pytest.raises(BadInput, match="give a list of texts, not one text"):
        small_encoder("states").tokens("a text")
