"""The tokenizer of a model that reads one text at a time, without special tokens around it."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.text.row_tokenizer import RowTokenizer
from regard.text.subwords import Subwords
from regard.text.templates import RowBuilder, Template

FILE = "tokenizer.json"
TEMPLATE = Template("A")


@dataclass(frozen=True)
class PlainTokenizer(RowTokenizer):
    """Texts as ids, and nothing else."""

    name: ClassVar = "plain"
    FILES: ClassVar = (FILE,)

    words: Subwords

    @property
    def template(self) -> RowBuilder:
        """A text is a row."""
        return RowBuilder(TEMPLATE, {})

    def save(self, folder: Path) -> None:
        """Write tokenizer.json."""
        self.words.save(folder / FILE)

    @staticmethod
    def load(folder: Path) -> "PlainTokenizer":
        """Read what ``save`` wrote."""
        return PlainTokenizer(Subwords.load(folder / FILE))
