"""The vocabulary of a model that reads one text at a time, without special tokens around it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.text.subwords import Subwords
from regard.text.vocabulary import Vocabulary, check_sizes

FILE = "tokenizer.json"


@dataclass(frozen=True)
class PlainTokenizer:
    """Texts as ids, and nothing else."""

    name: ClassVar = "plain"
    FILES: ClassVar = (FILE,)

    words: Vocabulary

    @property
    def vocabularies(self) -> tuple[Vocabulary, ...]:
        """Its only one."""
        return (self.words,)

    @property
    def pad(self) -> int:
        return self.words.pad

    def check(self, known: Mapping[str, int]) -> None:
        """Refuse a model that does not know every id."""
        check_sizes({"tokens": len(self.words)}, known)

    def save(self, folder: Path) -> None:
        """Write tokenizer.json."""
        self.words.save(folder / FILE)

    @staticmethod
    def load(folder: Path) -> "PlainTokenizer":
        """Read what ``save`` wrote."""
        return PlainTokenizer(Subwords.load(folder / FILE))
