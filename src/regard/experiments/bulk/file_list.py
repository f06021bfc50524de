"""Several files as one input: named one by one, by a pattern, or by their folder."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from regard.core.errors import ArgumentName, BadInput
from regard.core.files import is_file, reading
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import STDIN, Arrivals, name_of, suffix_of
from regard.experiments.bulk.line_source import InputSettings, Line, LineSource, Parse, ResultForm
from regard.experiments.bulk.table_source import FORMATS, is_empty_table, table_or_lines

if TYPE_CHECKING:
    from regard.tasks.components import AnyComponent


PATTERN = "*?["  # characters of a pattern
HIDDEN = (".", "_")  # files and folders that begin with these are read only if named


@dataclass(frozen=True, kw_only=True)
class FileList(LineSource):
    """Files of one form, read one after the other; their lines are numbered in that order."""

    sources: tuple[LineSource, ...]
    starts: list[int] = field(default_factory=list)  # lines before each file, as far as known

    @property
    def name(self) -> str:
        return f"{self.file} and {len(self.sources) - 1} more"

    def where(self, number: int) -> str:
        source, own_number = self._at(number)
        return source.where(own_number)

    def with_parse(self, change: Callable[[Parse], Parse]) -> "FileList":
        return replace(self, sources=tuple(source.with_parse(change) for source in self.sources))

    def title(self, line: Line) -> str:
        source, own_line = self._own(line)
        return source.title(own_line)

    def record(self, line: Line) -> dict[str, object]:
        source, own_line = self._own(line)
        return source.record(own_line)

    def numbered(self, arrivals: Arrivals) -> NumberedLines:
        self.starts.clear()
        last = 0
        for source in self.sources:
            self.starts.append(last)
            for number, raw in source.numbered(arrivals):
                last = self.starts[-1] + number
                yield last, raw

    def parsed(self, number: int, raw: bytes) -> Line:
        source, own_number = self._at(number)
        return source.parsed(own_number, raw)._replace(number=number)

    @property
    def has_columns(self) -> bool:
        return self.sources[0].has_columns

    @property
    def streams(self) -> bool:
        return self.sources[0].streams

    def head(self, component: "AnyComponent", form: ResultForm) -> str:
        return self.sources[0].head(component, form)

    def printed(self, line: Line, component: "AnyComponent", form: ResultForm) -> Iterator[str]:
        source, own_line = self._own(line)
        return source.printed(own_line, component, form)

    def finish(self, form: ResultForm, more: Sequence[LineSource] = ()) -> bytes:
        first, *more_sources = self.sources
        return first.finish(form, [*more_sources, *more])

    def _at(self, number: int) -> tuple[LineSource, int]:
        """The source of a line, and the number of the line in it."""
        index = bisect_left(self.starts, number) - 1
        return self.sources[index], number - self.starts[index]

    def _own(self, line: Line) -> tuple[LineSource, Line]:
        source, own_number = self._at(line.number)
        return source, line._replace(number=own_number)


def list_files(*names: str) -> list[str]:
    """The files of texts that are meant by names: of a pattern all that match, of a folder all.

    A folder that has images or folders is a folder of images, and stays as it is.
    """
    files = [file for name in match_patterns(*names) for file in _files_of(name)]
    if len(files) > 1 and STDIN in files:
        raise BadInput(f"{STDIN}: standard input cannot be read beside files; name only files")
    kinds = {FORMATS.get(suffix_of(file)): file for file in reversed(files)}
    if len(kinds) > 1:
        first, second, *_ = reversed(kinds.values())
        raise BadInput(f"{first} and {second}: files of one call have one format; name one kind")
    return files


def check_apart(options: Mapping[str, object]) -> None:
    """Refuse an ``out`` that is a file which another option names, also by a link."""
    out = options["out"]
    results = [*filter(is_file, (Path(str(out)), Path(f"{out}.partial")))]
    if not results:
        return
    named = {key: _names_in(value) for key, value in options.items() if key != "out"}
    files = list_files(*named.pop("file", ()), *named.pop("more", ()))
    for name in chain(files, *named.values()):
        file = Path("/dev/stdin" if name == STDIN else name)
        if is_file(file) and any(map(file.samefile, results)):
            fault = f"{name_of(name)} is read, and would be lost"
            raise BadInput((ArgumentName("out"), f" {out}: {fault}; name another file"))


def _names_in(value: object) -> list[str]:
    """The value of an option, or its values, that may be names of files."""
    values = value if isinstance(value, list) else [value]
    return [str(name) for name in values if isinstance(name, str | Path)]


def match_patterns(*names: str) -> list[str]:
    """Names of files and folders, with all files that match in place of a pattern."""
    return [file for name in names for file in _matches(name)]


def _matches(name: str) -> list[str]:
    path = Path(name)
    if not {*name} & {*PATTERN} or path.exists():
        return [name]
    files = filter(Path.is_file, Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    named = [part for part in path.parts if part.startswith(HIDDEN)]
    matches = [
        str(file)
        for file in files
        if all(_matches_any(part, named) for part in file.parts if part.startswith(HIDDEN))
    ]
    if not matches:
        raise BadInput(f"{name}: no file matches this pattern")
    return sorted(matches)


def _matches_any(part: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(part, pattern) for pattern in patterns)


def _files_of(name: str) -> list[str]:
    from regard.images.decode import SUFFIXES  # here: it imports NumPy

    path = Path(name)
    if not path.is_dir():
        return [name]
    with reading(path):
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith(HIDDEN))
    of_images = any(entry.is_dir() or entry.suffix.lower() in SUFFIXES for entry in entries)
    return [name] if of_images or not entries else [*map(str, entries)]


def text_source(
    component: "AnyComponent", files: Sequence[str], settings: InputSettings
) -> LineSource:
    """The texts of files, lines or rows of tables, which must have the form of the first file.

    Of several files, empty tables are left out.
    """
    columns, form = settings.columns, settings.form
    if len(files) == 1:
        return table_or_lines(component, files[0], settings)
    parts = [file for file in files if not is_empty_table(file, columns, form)] or files[:1]
    sources = [first := table_or_lines(component, parts[0], settings)]
    same = replace(settings, columns=first.columns or columns)
    for file in parts[1:]:
        source = table_or_lines(component, file, same)
        if source.schema != first.schema:
            raise BadInput(f"{file}: has other columns than {first.file}; run them one by one")
        sources.append(source)
    members = tuple(replace(source, is_one_of_several=True) for source in sources)
    return FileList(first.file, first.parse, first.window, first.skip_bad, sources=members)
