"""Readings: how a model reads its inputs. Base classes of tokenizers and of image processors."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence, Sized
from pathlib import Path
from typing import ClassVar, Never

from regard.core.batch import ImageRow, TokenRow
from regard.core.errors import BadInput

NO_TEXT = "this model reads images, not texts"


class Reading(ABC):
    """Base class of tokenizers and image processors; defaults are for models without vocabulary.

    ``name`` is its name in config.json.
    """

    name: ClassVar[str]
    FILES: ClassVar[tuple[str, ...]]

    @property
    def vocabularies(self) -> Sequence[Sized]:
        """Vocabularies of the model; a shared one occurs once."""
        return ()

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the model that the vocabularies decide, by fact."""
        return {}

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids of special tokens, as stored in config.json, by role."""
        return {}

    def of_side(self, side: str) -> "Reading":
        """Reading of one side of an encoder-decoder; default: this one, for both sides."""
        return self

    def label(self, first: str, second: str | None = None) -> Mapping[str, object]:
        """Rows of texts, with the names of their tokens."""
        raise BadInput(NO_TEXT)

    def label_all(self, first: str, second: str) -> Sequence[Mapping[str, object]]:
        """Rows of every kind that can be made of two texts, with the names of their tokens."""
        return []

    @abstractmethod
    def check(self, known: Mapping[str, int], summaries: Collection[str | None]) -> None:
        """Refuse a model whose sizes or summary token do not fit this tokenizer or processor."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the files of the tokenizer or image processor."""

    def json_files(self) -> dict[str, str]:
        """tokenizer.json and tokenizer_config.json for programs that read no other files.

        Default: none, as ``save`` writes what there is.
        """
        return {}

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> "Reading | None":
        """Read the files that ``save`` wrote to a folder."""


class RowReading(Reading):
    """Reading of a model with one trunk: every input becomes a row.

    A row has at most ``longest`` tokens, if its files set a limit; callers get the states of its
    ``inner`` tokens.
    """

    inner: ClassVar[slice] = slice(None)
    longest: int | None = None

    def limit(self, max_length: int | None, plain_rows: bool = False) -> int | None:
        """Length to which rows are truncated; None: no truncation.

        With ``plain_rows``, also of rows without special tokens.
        """
        return None

    def texts_of(self, given: object) -> tuple[object, ...]:
        """The parts of an input: one text or two, or an image."""
        return (given,)

    def count(self, parts: Sequence[Never], most: int) -> int:
        """Number of tokens of a row of these parts; exact above ``most``."""
        return len(parts)

    @abstractmethod
    def parse(self, line: str, where: str) -> object:
        """The input in a line of a file."""

    @abstractmethod
    def rows(
        self, inputs: Sequence[Never], max_length: int | None = None
    ) -> Sequence[TokenRow | ImageRow]:
        """A row of each input, truncated to ``max_length``."""

    def training_rows(
        self, inputs: Sequence[Never], max_length: int | None = None
    ) -> Sequence[TokenRow | ImageRow]:
        """A row of each input for training; default: the rows of inference."""
        return self.rows(inputs, max_length)
