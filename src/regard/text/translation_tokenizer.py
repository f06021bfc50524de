"""The vocabularies of a translator: one for both languages, or one for each."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import ClassVar

from regard.text.subwords import Subwords
from regard.text.train_tokenizer import train
from regard.text.vocabulary import Vocabulary

_JOINT = "tokenizer.json"
_SOURCE = "source.tokenizer.json"
_TARGET = "target.tokenizer.json"
OTHERS = ("source.spm", "target.spm", "labels.json")  # of another kind, once in the same folder


@dataclass(frozen=True)
class TranslationTokenizer:
    """How the two sides of a pair are written in ids."""

    FILES: ClassVar = (_JOINT, _SOURCE, _TARGET)

    source: Vocabulary
    target: Vocabulary

    @property
    def sides(self) -> tuple[Vocabulary, Vocabulary]:
        """What an example consists of."""
        return self.source, self.target

    @property
    def joint(self) -> bool:
        """Do both sides share one vocabulary (and may a model share its embeddings)?"""
        return self.source is self.target

    def save(self, folder: Path) -> None:
        """Write the vocabulary files of ``folder``, and take away those of an earlier choice."""
        files = (
            {_JOINT: self.source} if self.joint else {_SOURCE: self.source, _TARGET: self.target}
        )
        for name, subwords in files.items():
            subwords.save(folder / name)
        for name in {*TranslationTokenizer.FILES, *OTHERS} - files.keys():
            (folder / name).unlink(missing_ok=True)

    @staticmethod
    def load(folder: Path) -> "TranslationTokenizer":
        """Read what ``save`` wrote."""
        if (folder / _SOURCE).exists():
            return TranslationTokenizer(
                Subwords.load(folder / _SOURCE), Subwords.load(folder / _TARGET)
            )
        shared = Subwords.load(folder / _JOINT)
        return TranslationTokenizer(shared, shared)


def train_translation_tokenizer(
    sources: Iterable[str],
    targets: Iterable[str],
    kind: str,
    vocab: int,
    *,
    joint: bool,
    normalise: str = "nfc",
    lower: bool = False,
) -> TranslationTokenizer:
    """One vocabulary of ``vocab`` pieces for both sides, or one of that size for each."""
    if joint:
        both = train(chain(sources, targets), kind, vocab, normalise=normalise, lower=lower)
        return TranslationTokenizer(both, both)
    return TranslationTokenizer(
        train(sources, kind, vocab, normalise=normalise, lower=lower),
        train(targets, kind, vocab, normalise=normalise, lower=lower),
    )
