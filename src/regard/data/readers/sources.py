"""Text from plain lines, columns of a table or fields of JSON lines; also .gz, .xz, standard input.

A bad line is an error with file and line, or left out and counted.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from regard.core.errors import BadInput
from regard.core.files import JSON, status_of
from regard.data.readers.fields import BadExample, Dropped, filled, parsed, typed
from regard.data.readers.text_files import STDIN, Arrivals, decoded, name_of, raw_lines, read_lines
from regard.text.hansards import LANGUAGES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LARGEST_JSON = 1 << 30  # bytes of a JSON file that is read as a whole, perhaps in one line
Unparsed = tuple[list[str], Callable[[], tuple[str, ...]]]
"""The place of every text of an example, and a function that parses its texts."""
Examples = Iterator[Unparsed]
HEADING = re.compile(rb"\s*((?:= )+)(.*?\S)((?: =)+)\s*")

_Line = tuple[bytes, str]  # and where it stands
NumberedLines = Iterator[tuple[int, bytes]]  # lines of a file, counted from 1


class Source(Protocol):
    """Examples of one text or several, in files or in memory."""

    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def spaced(self) -> tuple[str, ...]: ...
    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> dict[str, object]: ...
    def examples(self) -> Examples: ...


class FileSource:
    """Base class of examples in the lines of files, all of which are ``paths``.

    A source may name, for each text of an example, a language of ``regard.text.hansards`` by whose
    rules words are separated (``spaced``).
    """

    paths: Any
    spaced: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return ", ".join(map(name_of, self.paths))

    @property
    def origin(self) -> dict[str, object]:
        """Settings of the source, and sizes and times of its files, to detect changes."""
        stats = [(path, status_of(path)) for path in self.paths if path != STDIN]
        return {
            "kind": type(self).__name__,
            "source": asdict(cast("DataclassInstance", self)),
            "files": [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
        }

    def examples(self) -> Examples:
        """All examples, not yet parsed."""
        raise NotImplementedError


@dataclass(frozen=True)
class Lines(FileSource):
    """Plain text, one file for each side: ``Lines(("train.en", "train.de.gz"))``."""

    paths: tuple[str, ...]
    spaced: tuple[str, ...] = ()

    def examples(self) -> Examples:
        names = [name_of(path) for path in self.paths]
        for number, raws in enumerate(_aligned(self.paths), start=1):
            places = [f"{name}:{number}" for name in names]
            yield places, partial(tuple, map(decoded, raws, places))


@dataclass(frozen=True)
class OneFile(FileSource):
    """Base class of sources in one file."""

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)

    def lines(self, arrivals: Arrivals | None = None) -> NumberedLines:
        """The lines of the file; ``arrivals`` polls a stream."""
        return enumerate(raw_lines(self.path, arrivals), start=1)

    def where(self, number: int) -> str:
        """The place of a line in messages."""
        return f"{name_of(self.path)}:{number}"


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
                heading, section = (title, self.where(number)), []
            elif raw.strip():
                section.append((raw, self.where(number)))
        yield from _pair(heading, section)


def read_pairs(
    source: Source, longest_characters: int | None = 5_000, dropped: Dropped = None
) -> Iterator[tuple[str, str, str]]:
    """Read (where, source text, target text) of every pair.

    A line that is empty, not UTF-8, longer than `longest_characters`, not JSON, or lacks a column
    or key is an error; with `dropped`, it is left out and counted.
    """
    for where, (first, second) in read_examples(source, longest_characters, dropped):
        yield where, first, second


def read_texts(
    source: Source, longest_characters: int | None = None, dropped: Dropped = None
) -> Iterator[tuple[str, str]]:
    """Read (where, text) of every example with one text; otherwise as `read_pairs`."""
    for where, (text,) in read_examples(source, longest_characters, dropped):
        yield where, text


def read_examples(
    source: Source, longest_characters: int | None, dropped: Dropped
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read (where, texts) of every example, with any number of texts; otherwise as `read_pairs`."""

    def parse(where: str, example: Unparsed) -> tuple[str, tuple[str, ...]]:
        texts = texts_of(source, example)
        pairs = zip(texts, example[0], strict=True)
        return where, tuple(checked_text(text, place, longest_characters) for text, place in pairs)

    return parsed(unparsed(source), parse, dropped)


def unparsed(source: Source) -> Iterator[tuple[str, Unparsed]]:
    """Yield (where, example) of every example, not yet parsed."""
    return ((example[0][0], example) for example in source.examples())


def texts_of(source: Source, example: Unparsed) -> tuple[str, ...]:
    """The texts of an example; words are separated as the source says."""
    texts = example[1]()
    if not source.spaced:
        return texts
    languages = zip(source.spaced, texts, strict=True)
    return tuple(LANGUAGES[language](text) for language, text in languages)


def checked_text(text: str, where: str, longest_characters: int | None) -> str:
    """Return a text; refuse an empty one, and one of more than ``longest_characters``."""
    length = len(filled(text, where))
    if longest_characters is not None and length > longest_characters:
        most = f"more than the {longest_characters:,} allowed (data.longest_characters)"
        raise BadExample(where, "too long", f"{length:,} characters, {most}")
    return text


def sample_texts(texts: Iterable[str], share: float) -> Iterator[str]:
    """Evenly sampled texts that together have at most this share of all characters."""
    seen = sampled = 0
    for text in texts:
        seen += len(text)
        if sampled + len(text) <= seen * share:
            sampled += len(text)
            yield text


def read_json_file(path: Path) -> dict[str, JSON]:
    """The JSON object in a file."""
    name, text = name_of(path), "\n".join(read_lines(path, Arrivals(LARGEST_JSON)))
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadInput(f"{name}:{error.lineno}: not JSON ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: not JSON ({error})") from None
    return typed(content, dict, "the file", name)


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


def _aligned(paths: tuple[str, ...]) -> Iterator[tuple[bytes, ...]]:
    """The lines of parallel files; different numbers of lines are an error."""
    if paths.count(STDIN) > 1:
        raise BadInput("-: standard input can only be read once; name files instead")
    files = [raw_lines(path) for path in paths]
    for number, lines in enumerate(zip_longest(*files)):
        if None in lines:
            ends = zip(lines, files, strict=True)
            lengths = [number + (line is not None) + sum(1 for _ in file) for line, file in ends]
            other = next(i for i, length in enumerate(lengths) if length != lengths[0])
            first, second = (f"{name_of(paths[i])} has {lengths[i]}" for i in (0, other))
            raise BadInput(f"parallel files must have equally many lines: {first}, {second}")
        yield lines
