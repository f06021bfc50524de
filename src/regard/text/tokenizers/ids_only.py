"""Vocabularies of a folder without tokenizer files: ids can be used, texts cannot."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from regard.ground.errors import BadInput
from regard.text.tokenizers.list import Tokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer

MISSING = "this folder has no tokenizer files: only token ids can be used (from Python)"


def require_tokenizer(tokenizer: RowTokenizer | Tokenizer | None) -> Any:
    """Return the tokenizer of a folder; refuse a folder without one."""
    if tokenizer is None:
        raise BadInput(MISSING)
    return tokenizer


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
        """Fingerprint of the size and the special ids."""
        return f"{self.size}-{self.pad}-{self.bos}-{self.eos}"

    def decode(self, ids: Sequence[int]) -> str:
        """The empty text, because the pieces are not known."""
        return ""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The ids as strings, because the pieces are not known."""
        return [str(int(i)) for i in ids]

    def encode(self, *texts: object, **options: object) -> NoReturn:
        """Refuse texts, which need tokenizer files."""
        raise BadInput(MISSING)

    encode_all = encode_dropped = segment = unknown = encode

    def save(self, path: Path) -> None:
        """Write nothing."""


def ids_only(source: int, target: int, *, pad: int, bos: int, eos: int) -> TranslationTokenizer:
    """Vocabularies of these sizes that share their special ids."""
    return TranslationTokenizer(*(IdVocabulary(size, pad, bos, eos) for size in (source, target)))
