"""Readings: how a model reads its inputs. Base classes of tokenizers and of image processors."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence, Sized
from pathlib import Path
from typing import ClassVar, Never

from regard.ground.batch import ImageRow, TokenRow
from regard.ground.errors import BadInput

NO_TEXT = "this model reads images, not texts"


class Reading(ABC):
    """What a model reads, with the defaults of a model without a vocabulary.

    ``name`` is the one that config.json has.
    """

    name: ClassVar[str]
    FILES: ClassVar[tuple[str, ...]]

    @property
    def vocabularies(self) -> Sequence[Sized]:
        """Its vocabularies, each once."""
        return ()

    @property
    def sizes(self) -> dict[str, int]:
        """The facts of a model that follow from it."""
        return {}

    @property
    def special_ids(self) -> dict[str, int]:
        """The ids that a config.json has, by role."""
        return {}

    def of_side(self, side: str) -> "Reading":
        """What that side of its model reads: the same."""
        return self

    def label(self, first: str, second: str | None = None) -> Mapping[str, object]:
        """Texts as rows with a label for each token."""
        raise BadInput(NO_TEXT)

    def label_all(self, first: str, second: str) -> Sequence[Mapping[str, object]]:
        """Every kind of input that can be made of two texts, with labels."""
        return []

    @abstractmethod
    def check(self, known: Mapping[str, int], summaries: Collection[str | None]) -> None:
        """Refuse a model that cannot read what this gives."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write its files."""

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> "Reading | None":
        """The files of a folder, as ``save`` wrote them."""


class RowReading(Reading):
    """What a model with one trunk reads: every input becomes a row.

    A row has at most ``longest`` tokens, if its files say so; callers get the states of its
    ``inner`` tokens.
    """

    inner: ClassVar[slice] = slice(None)
    longest: int | None = None

    def limit(self, max_length: int | None) -> int | None:
        """The length to which rows are truncated; None: they are not."""
        return None

    def texts_of(self, given: object) -> tuple[object, ...]:
        """The parts of an input: one text or two, or an image."""
        return (given,)

    def count(self, parts: Sequence[Never], most: int) -> int:
        """The tokens of a row of these parts; exact beyond ``most``."""
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
        """A row of each input for training."""
        return self.rows(inputs, max_length)
