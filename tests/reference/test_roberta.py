"""RoBERTa: positions after the pad, byte-level tokenizer, template, and masked LM."""

from dataclasses import replace

import numpy as np
import pytest

from encoder_families import FAMILIES
from encoder_family import SENTENCES
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.papers import roberta
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.text.words import word_spans

transformers = pytest.importorskip("transformers")

FAMILY = FAMILIES["roberta"]


@pytest.mark.parametrize("pad", [0, 1, 4])
def test_positions_begin_after_the_pad(pad, tmp_path):
    settings = {"pad_token_id": pad, "max_position_embeddings": 21 + pad}
    family = replace(FAMILY, first_id=5)  # no text has a pad in it
    family.check_values("RobertaForMaskedLM", settings, tmp_path / "values")
    family.check_folder("RobertaForMaskedLM", tmp_path, **settings)
    facts = change(roberta.BASE, offset=pad + 1, longest=20)
    assert {**roberta.HF.config_of(facts), **settings} == roberta.HF.config_of(facts)


@pytest.mark.parametrize("pad", [-1, None, "1", True, 20])
def test_a_pad_that_is_no_id(pad):
    with pytest.raises(
        BadInput, match=r"^pad_token_id must be an id below max_position_embeddings \(20\)"
    ):
        roberta.HF.facts_of({"pad_token_id": pad, "max_position_embeddings": 20}, ())


def test_sizes_are_those_of_the_published_models():
    assert roberta.PAPER.parameters(roberta.BASE) == 124_645_632
    assert roberta.PAPER.parameters(roberta.LARGE) == 355_359_744


@pytest.fixture(scope="module")
def tokenizer():
    return train_encoder_tokenizer(SENTENCES * 3, "byte-bpe", 320, lower=False, longest=20)


def test_the_tokenizer_is_read_by_the_reference_and_gives_the_same_ids(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in (*SENTENCES, "a", " ", "naïve🙂x", "the\n\nsea", "</s> is text"):
        if "</s>" not in text:
            expected = theirs(text).input_ids
            assert tokenizer.row(tokenizer.words.encode(text)).tokens.tolist() == expected
    pair = tokenizer.row(*tokenizer.words.encode_all(["the sea", "a storm"]))
    assert pair.tokens.tolist() == theirs("the sea", "a storm").input_ids
    assert not np.any(pair.segments)


def test_words_to_be_tagged_are_read_with_a_space_before_each(tokenizer, tmp_path):
    """As transformers reads lists of words; its pipeline reads the text as it is."""
    tokenizer.save(tmp_path)
    kind, text = transformers.AutoTokenizer, "Ada met Babbage, in London."
    theirs = kind.from_pretrained(tmp_path, add_prefix_space=True, local_files_only=True)
    words = [text[start:end] for start, end in word_spans(text)]
    ours = [token for word in tokenizer.pieces(words) for token in word]
    assert ours == theirs(words, is_split_into_words=True, add_special_tokens=False).input_ids
    assert ours != kind.from_pretrained(tmp_path)(text, add_special_tokens=False).input_ids


def test_masked_lm_trains_on_full_rows_and_fills_masks(tmp_path):
    model = FAMILY.pretrain(tmp_path, "masked-lm = {}\nnext-sentence = false")
    (filled,) = model.fill(["The old<mask> mended his nets."])
    assert len(filled.blanks) == 1 and len(filled.blanks[0]) == 5
    model.save(tmp_path / "hf", "hf")
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "hf", local_files_only=True
    )
    assert type(theirs) is transformers.RobertaForMaskedLM
