"""Examples that the caller has in memory: read by the same rules as those of files.

Messages call them by their name and index, as in ``data['train'][3]``.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from regard.data.files.fields import DropCounts, parsed
from regard.data.pretraining.text_parts import DocumentReader
from regard.data.readers.given import PARSERS, parse_document, parse_pair, parse_whole


@dataclass(frozen=True, eq=False)
class MemoryExamples(DocumentReader):
    """A source of pairs or documents, and the examples of any task."""

    paths: ClassVar[tuple[str, ...]] = ()
    spaced: ClassVar[tuple[str, ...]] = ()
    sides: ClassVar[int] = 2
    name: str
    values: Sequence[Any]

    @cached_property
    def fingerprint(self) -> str:
        """How many there are, and a checksum of their content."""
        checksum = 0
        for value in self.values:
            checksum = zlib.crc32(_content(value), checksum)
        return f"{len(self.values)} examples, {checksum:08x}"

    @property
    def origin(self) -> dict[str, Any]:
        """What they are, in short."""
        return {"kind": type(self).__name__, "source": self.fingerprint}

    def numbered(self) -> Iterator[tuple[str, Any]]:
        """(where, value) of each."""
        return ((f"{self.name}[{number}]", value) for number, value in enumerate(self.values))

    def examples(self) -> Iterator[tuple[list[str], Callable[[], tuple[str, ...]]]]:
        """The place of every pair, and what parses its texts."""
        for where, value in self.numbered():
            yield [where, where], partial(parse_pair, where, value)

    def documents(self, dropped: DropCounts | None) -> Iterator[tuple[str, list[str]]]:
        """(where, sentences) of every document."""
        return parsed(self.numbered(), parse_document, dropped)

    def texts(self, dropped: DropCounts | None) -> Iterator[tuple[str, str]]:
        """(where, text) of every document."""
        return parsed(self.numbered(), parse_whole, dropped)

    def read(self, task: str, dropped: DropCounts | None) -> Iterator[Any]:
        """The examples of a task."""
        return parsed(self.numbered(), PARSERS[task], dropped)


def _content(value: Any) -> bytes:
    """A value as bytes; of arrays all numbers, which their texts leave out."""
    parts = value if isinstance(value, tuple | list) else (value,)
    pixels = b"".join(part.tobytes() for part in parts if isinstance(part, np.ndarray))
    return pixels + repr(value).encode("utf-8", "surrogatepass")
