"""Tokenizers by their name in config.json, and learned tokenizers by family."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers import FAMILIES, family_of_kind
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.tokenizers.marian_spm import MarianTokenizer
from regard.text.tokenizers.plain_tokenizer import PlainTokenizer, train_subwords
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.t5 import T5Tokenizer
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.tokenizers.unigram import T5Unigram
from regard.text.tokenizers.word_level import (
    CharacterTokenizer,
    CharacterVocabulary,
    RawWords,
    WordLevel,
    WordTokenizer,
    WordVocabulary,
)
from regard.text.vocabulary import Lexicon, Spelling
from regard.text.words import Sentence, joined

PLAIN = PlainTokenizer.name  # the family of subwords without special tokens

TrunkTokenizer = EncoderTokenizer | PlainTokenizer | CharacterTokenizer | WordTokenizer
Tokenizer = TranslationTokenizer | TrunkTokenizer
LEARNED: dict[str, type[PlainTokenizer | CharacterTokenizer | WordTokenizer]] = {
    tokenizer.name: tokenizer for tokenizer in (PlainTokenizer, CharacterTokenizer, WordTokenizer)
}
"""Tokenizers of the families that ``EncoderTokenizer`` does not have."""
_MORE = (TranslationTokenizer, MarianTokenizer, T5Tokenizer, EncoderTokenizer)
TOKENIZERS: dict[str, type[Tokenizer]] = {**{kind.name: kind for kind in _MORE}, **LEARNED}


UNREAD: dict[str, tuple[str, ...]] = {
    PLAIN: ("unknown",),
    WordTokenizer.name: ("normalise", "dropout"),
    CharacterTokenizer.name: ("normalise", "dropout", "lower", "unknown"),
    T5Unigram.name: ("kind", "normalise", "dropout", "lower", "unknown"),
    "images": ("vocab", "normalise", "dropout", "lower", "unknown", "long", "stride"),
}
"""Keys of the table ``text`` that a family does not read; others: the default below."""
REMOVE = "remove the key"


def family_of(of_paper: str, config: EncoderTextConfig) -> str:
    """The family of the paper; a recipe may replace plain subwords by whole words."""
    whole_words = of_paper == PLAIN and config.kind == WordTokenizer.name
    return WordTokenizer.name if whole_words else of_paper


def learn_tokenizer(
    family: str,
    sentences: Iterable[Sentence],
    config: EncoderTextConfig,
    longest: int | None,
    special_tokens: Sequence[str] = (),
    spelling: Spelling | None = None,
    more_words: Sequence[str] = (),
) -> RowTokenizer:
    """Learn a tokenizer of a family from texts, or lists of words, by a recipe.

    Families with special tokens can have further ones. ``spelling`` adds ids of characters or
    pieces to each word; ``more_words`` are added to the words of the texts.
    """
    if family in (CharacterTokenizer.name, WordTokenizer.name):
        lexicon = Lexicon.learn(sentences, config.vocab, lower=config.lower)
        if family == WordTokenizer.name:
            known = lexicon.extended(more_words)
            return WordTokenizer(WordVocabulary(known, config.lower, spelling))
        return CharacterTokenizer(cast(CharacterVocabulary, spelling), lexicon)
    texts = map(joined, sentences)
    if family != PLAIN:
        kind, options = family_of_kind(config.kind, family), (config.lower, longest, special_tokens)
        return train_encoder_tokenizer(texts, kind, config.vocab, *options)
    kind = config.kind or "bpe"
    words = train_subwords(
        texts, kind, config.vocab, normalise=config.normalise, lower=config.lower
    )
    return PlainTokenizer(words)


def load_tokenizer(family: str, folder: Path) -> RowTokenizer | None:
    """Read the tokenizer of a family from a folder; None if it has none."""
    kind = LEARNED.get(family, EncoderTokenizer)
    exists = any((folder / name).exists() for name in kind.FILES)
    return kind.load(folder) if exists else None


def unread_settings(family: str, config: EncoderTextConfig) -> dict[str, str]:
    """The keys of the recipe table ``text`` that a family does not read, each with the remedy."""
    every = (family,) if family in LEARNED else tuple(each.kind for each in FAMILIES)
    only = {RawWords.kind: WordLevel.name}  # kinds that one family has
    kinds = {kind for kind in every if family in (kind, only.get(kind, family))}
    unread = {}
    if family != PLAIN and config.kind not in (None, *kinds):
        usable = sorted(kinds.intersection(config.known_kinds()))
        unread["kind"] = f"choose {' or '.join(usable)}" if usable else REMOVE
    keys = UNREAD.get(family, ("normalise", "dropout", "unknown"))
    return unread | {key: REMOVE for key in keys if key in config.model_fields_set}
