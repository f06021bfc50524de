"""Vocabularies: what is learnt, that it is learnt alike each time, and what is refused."""

import random
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from regard.core.errors import BadInput
from regard.text.tokenizers.plain_tokenizer import KINDS, train_subwords
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import BOS, EOS, PAD, SPECIAL_TOKENS, UNK

Texts = tuple[str, ...]


def test_special_tokens_have_the_first_ids(subwords: Subwords) -> None:
    assert (subwords.pad, subwords.bos, subwords.eos, subwords.unk) == (PAD, BOS, EOS, UNK)
    assert subwords.pieces([PAD, BOS, EOS, UNK]) == list(SPECIAL_TOKENS)


def test_frequent_words_become_one_piece(vocabularies: dict[str, Subwords]) -> None:
    spelled = {kind: v.pieces(v.encode("the storm")) for kind, v in vocabularies.items()}
    assert spelled["bpe"] == spelled["byte-bpe"] == ["▁the", "▁storm"]
    assert spelled["wordpiece"] == ["the", "storm"]


def test_a_first_word_has_the_pieces_of_any_other(bytesafe: Subwords) -> None:
    assert bytesafe.encode("storm storm") == 2 * bytesafe.encode("storm")


def test_letters_digits_and_signs_share_no_piece(subwords: Subwords) -> None:
    for text in ("storm12", "12storm", "storm,", "(storm", "12,", "<0x41>", "</s>"):
        for piece in subwords.pieces(subwords.encode(text)):
            kinds = {"a" if c.isalpha() else "1" if c.isdigit() else c for c in piece.strip("▁#")}
            assert len(kinds) <= 1 or piece.startswith("<0x") or piece == "<unk>"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_vocabulary(kind: str, english: Texts, german: Texts) -> None:
    texts = [*english, *german]
    names = {
        train_subwords(random.Random(i).sample(texts, len(texts)), kind, 330).fingerprint
        for i in range(9)
    }
    assert len(names) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_asking_for_too_much_gives_what_there_is(kind: str) -> None:
    assert len(train_subwords(["a cat", "a cat"], kind, 50_000)) < 300


@pytest.mark.parametrize("kind", KINDS)
def test_never_more_tokens_than_requested(kind: str, english: Texts) -> None:
    assert len(train_subwords(english, kind, 320)) <= 320


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_is_refused(kind: str, texts: list[str]) -> None:
    with pytest.raises(BadInput, match="no text"):
        train_subwords(texts, kind, 500)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vocab", [-1, 0, 20])
def test_too_small_for_anything_is_refused(kind: str, vocab: int, english: Texts) -> None:
    with pytest.raises(BadInput, match=f"a vocabulary of {vocab} is too small"):
        train_subwords(english, kind, vocab)


@pytest.mark.parametrize(("kind", "vocab"), [("bpe", 270), ("unigram", 270), ("wordpiece", 40)])
def test_too_small_for_the_characters_is_refused(kind: str, vocab: int, english: Texts) -> None:
    small = f"a vocabulary of {vocab} is too small for the characters"
    with pytest.raises(BadInput, match=small) as refused:
        train_subwords(english, kind, vocab)
    if least := re.findall(r"write (\d+) or more", str(refused.value)):
        train_subwords(english, kind, int(least[0]))
        with pytest.raises(BadInput, match=small.replace(str(vocab), str(int(least[0]) - 1))):
            train_subwords(english, kind, int(least[0]) - 1)
    assert bool(least) == (kind != "unigram")  # of which the library does not say it


def test_bytes_alone_are_enough_for_byte_bpe(english: Texts) -> None:
    assert len(train_subwords(english, "byte-bpe", 260)) == 260


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_wrong_in_reading_comes_out_as_it_is(kind: str) -> None:
    def reader() -> Iterator[str]:
        yield "a line"
        raise BadInput("corpus.txt:2: not UTF-8")

    with pytest.raises(BadInput, match=r"corpus\.txt:2"):
        train_subwords(reader(), kind, 500)


def test_normal_forms(english: Texts) -> None:
    def form(text: str, normalise: str, lower: bool = False) -> str:
        trained = train_subwords(english, "bpe", 320, normalise=normalise, lower=lower)
        assert trained.decode(trained.encode(text)) == trained.normalise(text)
        return trained.normalise(text)

    text = "Cafe\u0301 \ufb01x Ⅷ"
    assert form(text, "none") == text
    assert form(text, "nfc") == "Caf\u00e9 \ufb01x Ⅷ"
    assert form(text, "nfkc") == "Caf\u00e9 fix VIII"
    assert form(text, "nfkc", lower=True) == "caf\u00e9 fix viii"


def test_a_forked_child_neither_warns_nor_hangs() -> None:
    script = """
import os
from regard.text.tokenizers.plain_tokenizer import train_subwords
subwords = train_subwords(["the cat", "the mat"] * 50, "bpe", 300)
expected = subwords.encode_all(["the cat"] * 500)
child = os.fork()
if not child:
    os._exit(0 if subwords.encode_all(["the cat"] * 500) == expected else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""
    run = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
