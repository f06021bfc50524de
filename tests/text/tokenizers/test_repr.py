"""The ``repr`` of every tokenizer: kind, size and special tokens, in one line."""

import pytest

import regard
from regard.text.tokenizers.list import TOKENIZERS
from regard.text.tokenizers.plain_tokenizer import PlainTokenizer, train_subwords
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from safety import frozen_folders as frozen
from small_gpt import TEXTS
from small_mistakes import TRANSLATORS, small_translator

FOLDERS = sorted(path for path in frozen.MODELS.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def tokenizers():
    every = {folder.name: regard.load(folder, "cpu").tokenizer for folder in FOLDERS}
    every["translation"] = small_translator(next(iter(TRANSLATORS))).tokenizer
    every["plain"] = PlainTokenizer(train_subwords(TEXTS, "bpe", 300))
    texts = {name: one for name, one in every.items() if one is not None and one.vocabularies}
    known = {TOKENIZERS[name] for name in ("translation", "marian", "encoder", "plain")}
    assert {type(one) for one in texts.values()} >= known
    return texts


def test_kind_size_and_special_tokens_are_in_the_repr(tokenizers):
    for tokenizer in tokenizers.values():
        shown = repr(tokenizer)
        assert shown.startswith(f"{type(tokenizer).__name__}(") and "\n" not in shown
        assert " object at " not in shown and len(shown) < 500
        for words in tokenizer.vocabularies:
            assert f"{words.kind}, {len(words):,} tokens" in shown
        if isinstance(tokenizer, TranslationTokenizer):
            assert ("both sides: " in shown) == tokenizer.joint
        assert "special: " in shown


def test_special_tokens_have_their_ids(tokenizers):
    (bert,) = (tokenizers[name] for name in tokenizers if name == "hf-bert-base-uncased")
    for role in ("pad", "cls", "sep", "mask", "unk"):
        number = getattr(bert, role)
        assert f"{bert.words.pieces([number])[0]} {number}" in repr(bert)
