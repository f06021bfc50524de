"""Vocabularies for two languages, shared or not."""

from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.text.tokenizers.plain_tokenizer import train_subwords
from regard.text.tokenizers.translation_tokenizer import (
    TranslationTokenizer,
    train_translation_tokenizer,
)

Texts = tuple[str, ...]


def test_joint_is_one_vocabulary_of_both(english: Texts, german: Texts) -> None:
    both = train_translation_tokenizer(iter(english), iter(german), "bpe", 400, joint=True)
    assert both.joint and both.source is both.target
    assert both.source.fingerprint == train_subwords(english + german, "bpe", 400).fingerprint


def test_separate_is_one_vocabulary_each(english: Texts, german: Texts) -> None:
    both = train_translation_tokenizer(
        iter(english), iter(german), "unigram", 400, joint=False, normalise="nfkc", lower=True
    )
    assert not both.joint
    for side, texts in ((both.source, english), (both.target, german)):
        alone = train_subwords(texts, "unigram", 400, normalise="nfkc", lower=True)
        assert side.fingerprint == alone.fingerprint


def test_folders_keep_the_choice(english: Texts, german: Texts, tmp_path: Path) -> None:
    folder = tmp_path / "model" / "text"
    for joint, files in (
        (True, {"tokenizer.json"}),
        (False, {"source.tokenizer.json", "target.tokenizer.json"}),
        (True, {"tokenizer.json"}),
    ):
        both = train_translation_tokenizer(english, german, "bpe", 330, joint=joint)
        both.save(folder)
        assert {path.name for path in folder.iterdir()} == files
        again = TranslationTokenizer.load(folder)
        assert again.joint is joint
        assert again.source.fingerprint == both.source.fingerprint
        assert again.target.fingerprint == both.target.fingerprint


def test_missing_files_are_named(english: Texts, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"tokenizer\.json: cannot be read \(No such file"):
        TranslationTokenizer.load(tmp_path)
    train_subwords(english, "bpe", 330).save(tmp_path / "source.tokenizer.json")
    with pytest.raises(BadInput, match=r"target\.tokenizer\.json: cannot be read \(No such file"):
        TranslationTokenizer.load(tmp_path)
