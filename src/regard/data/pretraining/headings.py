"""Sections and their headings, as WikiText writes them: `` = = Plot = = ``."""

import re
from dataclasses import dataclass
from functools import partial

from regard.data.files.sources import Examples, OneFile
from regard.data.files.text_files import decoded

HEADING = re.compile(rb"\s*((?:= )+)(.*?\S)((?: =)+)\s*")

_Line = tuple[bytes, str]  # and where it stands


@dataclass(frozen=True)
class Headings(OneFile):
    """Source of pairs (text of a section, its heading); sections without text are left out.

    A section ends at the next heading of any level; its paragraphs are joined by spaces.
    """

    spaced: tuple[str, ...] = ()

    def examples(self) -> Examples:
        heading: _Line | None = None
        section: list[_Line] = []
        for number, raw in self.lines():
            if (title := title_of(raw)) is not None:
                yield from _pair(heading, section)
                heading, section = (title, self.place(number)), []
            elif raw.strip():
                section.append((raw, self.place(number)))
        yield from _pair(heading, section)


def title_of(line: bytes) -> bytes | None:
    """The heading in a line, with as many equals signs before as after it, or None."""
    match = HEADING.fullmatch(line)
    if match is None or match[1].count(b"=") != match[3].count(b"="):
        return None
    return match[2]


def _pair(heading: _Line | None, section: list[_Line]) -> Examples:
    """Yield a section and its heading, unless one is missing."""
    if heading is not None and section:
        yield [heading[1]] * 2, partial(_texts, heading, section)


def _texts(heading: _Line, section: list[_Line]) -> tuple[str, str]:
    return " ".join(decoded(*line).strip() for line in section), decoded(*heading)
