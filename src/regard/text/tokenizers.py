"""The tokenizers by name, as config.json has it; and those that are learned, by family."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.text.characters import CharacterTokenizer
from regard.text.config import EncoderTextConfig
from regard.text.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.families import FAMILIES, family_of_kind
from regard.text.marian import MarianTokenizer
from regard.text.row_tokenizer import PlainTokenizer, RowTokenizer
from regard.text.train_tokenizer import train
from regard.text.translation_tokenizer import TranslationTokenizer

PLAIN = PlainTokenizer.name  # the family of subwords without special tokens

Tokenizer = TranslationTokenizer | EncoderTokenizer | PlainTokenizer | CharacterTokenizer
TOKENIZERS: dict[str, type[Tokenizer]] = {
    one.name: one
    for one in (
        *(TranslationTokenizer, MarianTokenizer, EncoderTokenizer, PlainTokenizer),
        CharacterTokenizer,
    )
}


def learn_tokenizer(
    family: str,
    texts: Iterable[str],
    config: EncoderTextConfig,
    longest: int | None,
    special_tokens: Sequence[str] = (),
) -> RowTokenizer:
    """A tokenizer of that family, learned from texts as a recipe says.

    Families with special tokens can have further ones.
    """
    if family != PLAIN:
        kind = family_of_kind(config.kind, family)
        return train_encoder_tokenizer(
            texts,
            kind,
            config.vocab,
            lower=config.lower,
            longest=longest,
            special_tokens=special_tokens,
        )
    kind = config.kind or "bpe"
    words = train(texts, kind, config.vocab, normalise=config.normalise, lower=config.lower)
    return PlainTokenizer(words)


def load_tokenizer(family: str, folder: Path) -> RowTokenizer | None:
    """The tokenizer of that family in a folder; None where there is none."""
    kind = PlainTokenizer if family == PLAIN else EncoderTokenizer
    return kind.load(folder) if any(folder.glob("*tokenizer.json")) else None


def unread_settings(family: str, config: EncoderTextConfig) -> Iterator[str]:
    """The keys of a recipe's table that tokenizers of that family do not have."""
    if family != PLAIN and config.kind not in (None, *(one.kind for one in FAMILIES)):
        yield "kind"
    unread = () if family == PLAIN else ("normalise", "dropout")
    yield from (key for key in unread if key in config.model_fields_set)
