"""Interface of vocabularies, whichever library implements them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from regard.ground.checks import is_whole
from regard.ground.errors import BadInput
from regard.text.offsets import Segmentation
from regard.text.words import Span


class Vocabulary(Protocol):
    """Vocabulary for one language or for both; text never becomes a special id."""

    def __len__(self) -> int: ...

    @property
    def kind(self) -> str:
        """One of ``regard.text.vocabularies.train_tokenizer.KINDS``, or "sentencepiece"."""

    @property
    def pad(self) -> int: ...

    @property
    def bos(self) -> int:
        """The first input of a decoder."""

    @property
    def eos(self) -> int: ...

    @property
    def unk(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the content."""

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, without any special tokens."""

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, on all cores."""

    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """A random segmentation, the same for the same ``key``."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special tokens are left out."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token in readable form."""

    def segment(self, text: str) -> Segmentation:
        """The ids of ``text`` with their characters and words; ``ids`` equals ``encode(text)``."""

    def unknown(self, text: str) -> list[Span]:
        """The words of ``text`` with an unknown token."""

    def save(self, path: Path) -> None:
        """Write the file of the vocabulary."""


def token_count(texts: Iterable[str], vocabulary: Vocabulary, special: int, most: int) -> int:
    """The number of tokens in a row of texts, including ``special`` tokens.

    It is exact above ``most``; otherwise an upper bound, computed without tokenising.
    """
    texts = list(texts)
    bytes_of_all = sum(len(text.encode()) for text in texts)  # a token has at least one
    if bytes_of_all + special <= most:
        return bytes_of_all + special
    return sum(map(len, vocabulary.encode_all(texts))) + special


def matching_ids(vocabulary: Vocabulary, other: Vocabulary) -> list[int | None]:
    """For each piece, its id in another vocabulary; None if that vocabulary lacks it."""
    ids = {piece: number for number, piece in enumerate(other.pieces(range(len(other))))}
    return [ids.get(piece) for piece in vocabulary.pieces(range(len(vocabulary)))]


def check_sizes(sizes: Mapping[str, int], known: Mapping[str, int]) -> None:
    """Refuse a model with fewer ids than its tokenizer; ``sizes`` and ``known`` are by name."""
    for name, count in sizes.items():
        if count > known.get(name, 0):
            raise BadInput(
                f"the tokenizer has {count} {name}, but the model has {known.get(name, 0)}"
            )


def check_pieces(pieces: object, path: Path, *, distinct: bool = True) -> dict[str, int]:
    """Return a vocabulary; refuse ids that are not distinct or far above the number of pieces.

    Libraries allocate memory by the largest id, so this is checked first. Equal ids are allowed if
    they need not be ``distinct``.
    """
    if not isinstance(pieces, dict) or not all(
        is_whole(number, 0, 2 * len(pieces) - 1) for number in pieces.values()
    ):
        raise BadInput(f"{path}: its vocabulary must map pieces to ids")
    if distinct and len(set(pieces.values())) < len(pieces):
        raise BadInput(f"{path}: two pieces of its vocabulary have the same id")
    return pieces
