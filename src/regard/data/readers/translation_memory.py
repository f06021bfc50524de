"""Reader of translation memories (TMX 1.4): units with a segment in each of several languages."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from regard.core.errors import BadInput
from regard.data.readers.fields import BadExample, filled
from regard.data.readers.sources import Examples
from regard.data.readers.table_files import ColumnFile
from regard.data.readers.text_files import name_of, opened

CHUNK = 1 << 16  # bytes parsed at once
SAMPLE = 200  # units at the beginning of a file
CODES = ("bpt", "ept", "ph", "it", "ut")  # elements of a segment whose content is no text
ANY_SOURCE = "*all*"


class Unit(NamedTuple):
    """A translation unit: the line where it begins, and its segments by language."""

    line: int
    segments: dict[str, str]


@dataclass
class _Units:
    """Handlers of a parser that collect units."""

    name: str
    units: list[Unit] = field(default_factory=list)
    source: str = ""  # language of the header
    line: int = 0
    segments: dict[str, str] = field(default_factory=dict)
    language: str = ""
    texts: list[str] | None = None  # of the segment
    codes: int = 0  # open elements whose content is no text

    def start(self, name: str, attributes: dict[str, str], line: int) -> None:
        if name == "header":
            self.source = attributes.get("srclang", "")
        elif name == "tu":
            self.line, self.segments = line, {}
        elif name == "tuv":
            self.language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name == "seg":
            self.texts = []
        elif name in CODES:
            self.codes += 1

    def end(self, name: str) -> None:
        if name == "tu":
            self.units.append(Unit(self.line, self.segments))
        elif name == "seg" and self.texts is not None:
            text = " ".join("".join(self.texts).split())
            self.segments.setdefault(self.language, text)
            self.texts = None
        elif name in CODES:
            self.codes -= 1

    def text(self, text: str) -> None:
        if self.texts is not None and not self.codes:
            self.texts.append(text)

    def refuse_entity(self, *declaration: object) -> None:
        raise BadInput(f"{self.name}: declares entities, which are not read; write the characters")


@dataclass(frozen=True)
class TranslationMemory(ColumnFile):
    """Segments of a TMX file in two languages, which ``columns`` name as the file does, or in part.

    "en" stands for "en-US", unless there is "en". Tags inside of segments are left out.
    """

    def units(self) -> Iterator[Unit]:
        """All units, as they are parsed."""
        return (unit for units in self._parsed() for unit in units.units)

    def languages(self) -> list[str]:
        """Languages of the first units, the source language first."""
        counts, source = Counter[str](), ""
        for units in self._parsed():
            source = units.source
            for unit in units.units:
                counts.update(unit.segments.keys())
            if counts.total() > SAMPLE * len(counts):
                break
        return sorted(counts, key=lambda language: not _is_language(language, source))

    def records(self) -> Iterator[dict[str, str]]:
        """Segments of the first units, by language."""
        languages = self.languages()
        for unit in islice(self.units(), SAMPLE):
            yield {name: text for name in languages if (text := unit.segments.get(name, ""))}

    def examples(self) -> Examples:
        for unit in self.units():
            where = self.where(unit.line)
            yield [where] * len(self.columns), partial(self._texts, unit, where)

    def _texts(self, unit: Unit, where: str) -> tuple[str, ...]:
        return tuple(_segment(unit, str(language), where) for language in self.columns)

    def _parsed(self) -> Iterator[_Units]:
        """The units of every part of the file."""
        name = name_of(self.path)
        units, parser = _Units(name), ParserCreate()
        parser.StartElementHandler = lambda tag, attributes: units.start(
            tag, attributes, parser.CurrentLineNumber
        )
        parser.EndElementHandler, parser.CharacterDataHandler = units.end, units.text
        parser.EntityDeclHandler = units.refuse_entity
        with opened(self.path) as file:
            ended = False
            while not ended:
                chunk = file.read(CHUNK)
                ended = not chunk
                try:
                    parser.Parse(chunk, ended)
                except ExpatError as error:
                    reason = ErrorString(error.code)
                    raise BadInput(f"{name}:{error.lineno}: not TMX ({reason})") from None
                yield units
                units.units.clear()


def _segment(unit: Unit, language: str, where: str) -> str:
    """The segment of a unit in a language."""
    names = [name for name in unit.segments if _is_language(name, language)]
    name = next((name for name in names if len(name) == len(language)), next(iter(names), None))
    if name is None:
        known = ", ".join(unit.segments)
        raise BadExample(where, "without a translation", f"no segment in {language!r} ({known})")
    return filled(unit.segments[name], where)


def _is_language(name: str, language: str) -> bool:
    """Whether a name is a language or a variety of it, as en-US is of en."""
    name, language = (code.lower().replace("_", "-") for code in (name, language))
    return bool(language) and (name == language or name.startswith(f"{language}-"))
