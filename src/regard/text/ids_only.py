"""The vocabularies of a folder without tokenizer files: ids can be used, texts cannot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.ground.errors import BadInput
from regard.text.offsets import Segmentation
from regard.text.translation_tokenizer import TranslationTokenizer
from regard.text.words import Span

MISSING = "this folder has no tokenizer files: only token ids can be used"


@dataclass(frozen=True)
class IdVocabulary:
    """A ``Vocabulary`` of which only the size and the special ids are known."""

    size: int
    pad: int
    bos: int
    eos: int
    unk: int = -1  # only texts have unknown words
    kind: str = "ids"

    def __len__(self) -> int:
        return self.size

    @property
    def fingerprint(self) -> str:
        """Made of the size and the special ids."""
        return f"{self.size}-{self.pad}-{self.bos}-{self.eos}"

    def decode(self, ids: Sequence[int]) -> str:
        """The empty text."""
        return ""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The ids themselves."""
        return [str(int(i)) for i in ids]

    def encode(self, text: str) -> list[int]:
        """Not possible."""
        raise BadInput(MISSING)

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """Not possible."""
        raise BadInput(MISSING)

    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """Not possible."""
        raise BadInput(MISSING)

    def segment(self, text: str) -> Segmentation:
        """Not possible."""
        raise BadInput(MISSING)

    def unknown(self, text: str) -> list[Span]:
        """Not possible."""
        raise BadInput(MISSING)

    def save(self, path: Path) -> None:
        """There is nothing to write."""


def ids_only(source: int, target: int, *, pad: int, bos: int, eos: int) -> TranslationTokenizer:
    """Vocabularies of these sizes that share their special ids."""
    return TranslationTokenizer(*(IdVocabulary(size, pad, bos, eos) for size in (source, target)))
