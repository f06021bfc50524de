"""Learning a vocabulary as BERT has it."""

import random

import pytest

from regard.core.errors import BadInput
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.text.tokenizers.family import TokenizerSettings
from regard.text.tokenizers.wordpiece import SPECIALS, learn_wordpiece


def test_the_special_tokens_come_first_in_berts_order(english):
    text = train_encoder_tokenizer(english, "wordpiece", 200)
    assert (
        text.pad,
        text.unk,
        text.template.special["cls"],
        text.template.special["sep"],
        text.mask,
    ) == (0, 1, 2, 3, 4)
    assert text.words.pieces(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(text.words) <= 200
    assert text.longest == 512


def test_the_order_of_texts_does_not_matter(english, german):
    texts = [*english, *german, "naïve 日本 猫 🙂"]
    first = train_encoder_tokenizer(texts, "wordpiece", 180, lower=False)
    for seed in range(4):
        random.Random(seed).shuffle(texts)
        again = train_encoder_tokenizer(iter(texts), "wordpiece", 180, lower=False)
        assert again.files == first.files
        assert again.words.fingerprint == first.words.fingerprint


def test_words_are_made_of_pieces(english):
    text = train_encoder_tokenizer(english, "wordpiece", 200)
    pieces = text.words.pieces(text.words.encode("The stormkeeper."))
    assert pieces[0] == "the" and pieces[-1] == "."
    assert [piece[:2] for piece in pieces[2:-1]] == ["##"] * (len(pieces) - 3)
    assert text.decode(text.words.encode("The storm, the Cat.")) == "the storm, the cat."


def test_letters_are_lowercased_by_default(german):
    small, as_written = (
        train_encoder_tokenizer(german, "wordpiece", 150, lower=lower) for lower in (True, False)
    )
    assert small.words.encode("WÄRTER") == small.words.encode("warter")
    assert as_written.words.encode("Sturm") != as_written.words.encode("sturm")
    assert as_written.decode(as_written.words.encode("Möwen")) == "Möwen"


def test_only_the_most_frequent_letters_are_kept():
    texts = ["aaa aab bb b", "c d", "dc ee"]  # c, d and e are equally frequent
    kept = learn_wordpiece(texts, 100, TokenizerSettings({}), letters=3)
    assert {piece.removeprefix("##")[0] for piece in kept if piece not in SPECIALS.values()} == {
        "a",
        "b",
        "c",
    }


@pytest.mark.parametrize("vocab", [4, 12])
def test_too_small(english, vocab):
    with pytest.raises(BadInput, match=f"a vocabulary of {vocab} "):
        train_encoder_tokenizer(english, "wordpiece", vocab)


@pytest.mark.parametrize("texts", [[], ["", " \n"], ["\x00"]])
def test_nothing_to_learn_from(texts):
    with pytest.raises(BadInput, match="no text"):
        train_encoder_tokenizer(texts, "wordpiece", 100)
