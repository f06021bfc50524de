"""Columns of a table, a JSON lines or a Parquet file: which hold texts, and which the label."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple, cast

from regard.core.errors import BadInput, did_you_mean, first_names
from regard.core.files import JSON
from regard.data.readers.fields import BadExample
from regard.data.readers.table_files import (
    Column,
    ColumnFile,
    Csv,
    JsonLines,
    Parquet,
    Table,
    parquet_records,
    read_objects,
)
from regard.data.readers.table_format import TableFormat
from regard.data.readers.text_files import decoded
from regard.data.readers.translation_memory import TranslationMemory

SAMPLE = 2_000  # rows at the beginning of a file
LABELS = ["label", "labels", "class", "category", "sentiment", "target", "intent", "topic", "tag"]
LABELS += ["rating", "stars", "score", "similarity", "quality", "y"]
TEXTS = ["text", "sentence", "review", "comment", "content", "body", "message", "tweet"]
TEXTS += ["utterance", "document", "description", "question", "title"]
PAIRS: tuple[tuple[str, str], ...] = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
)
PAIRS += (("text1", "text2"), ("text_a", "text_b"), ("question1", "question2"), ("first", "second"))
PAIRS += (("question", "sentence"),)
TRANSLATIONS = (("source", "target"), ("src", "tgt"))
LANGUAGE = re.compile(r"[a-z]{2}(?:[-_][a-z]{2,4})?", re.IGNORECASE)
FEW_WORDS = 3  # of a label
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class InputColumns(NamedTuple):
    """Columns of the files that a model was trained on: of its inputs, and of tags (CoNLL).

    A model stores them in its notes, to read like files in the same way.
    """

    inputs: tuple[int | str, ...] = ()
    tag: int | None = None

    @classmethod
    def of_notes(cls, notes: Mapping[str, object]) -> "InputColumns":
        """The columns in the notes of a model, if it has any."""
        inputs, tag = notes.get("columns"), notes.get("tag_column")
        columns = inputs if isinstance(inputs, list) else []
        known = tuple(name for name in columns if isinstance(name, int | str))
        return cls(known, tag if isinstance(tag, int) else None)

    @property
    def notes(self) -> dict[str, object]:
        """The columns as notes of a model."""
        columns: dict[str, object] = {"columns": [*self.inputs]} if self.inputs else {}
        return columns if self.tag is None else {**columns, "tag_column": self.tag}


@dataclass(frozen=True)
class TableColumns:
    """The first cells of every column of a file, by name or number, and its format in words."""

    path: Path
    cells: Mapping[Column, Sequence[JSON]]
    format: str

    @property
    def names(self) -> str:
        """The columns, for messages."""
        return first_names(self.cells)

    def check(self, columns: Sequence[str]) -> tuple[Column, ...]:
        """Columns that the user named, by name or by number from 0."""
        known = {str(column): column for column in self.cells}
        for name in columns:
            if name not in known:
                wrong = did_you_mean(name, list(known))
                raise BadInput(f"{self.path}: no column {name!r}{wrong}")
        return tuple(known[name] for name in columns)

    def task(self, tasks: Sequence[str]) -> str:
        """The first of these tasks that the columns fit."""
        fits = {
            "tag": len(self.lists()) == 2,
            "translate": len(self.translation()) == 2,
            "pretrain": len(self.cells) == 1,
        }
        return next((task for task in tasks if fits.get(task)), tasks[0])

    def pair_of(
        self, matches: Sequence[Column], chosen: Sequence[Column], what: str
    ) -> tuple[Column, Column]:
        """The two columns that the user chose, or that match."""
        if len(columns := chosen or matches) != 2:
            remedy = "name the two"
            raise BadInput(f"{self.path}: no two columns of {what} ({self.names}); {remedy}")
        return columns[0], columns[1]

    def lists(self) -> list[Column]:
        """The columns whose values are all lists."""
        types = {column: {type(cell) for cell in cells} for column, cells in self.cells.items()}
        return [column for column, of_cells in types.items() if of_cells == {list}]

    def translation(self) -> Sequence[Column]:
        """The columns of source and target, if their names, or two texts alone, say so."""
        by_name = self._by_name()
        for source, target in TRANSLATIONS:
            if source in by_name and target in by_name and self.words(by_name[target]) > FEW_WORDS:
                return by_name[source], by_name[target]
        languages = [column for column in self.cells if LANGUAGE.fullmatch(str(column))]
        texts = [column for column in languages or self.cells if self._is_text(column)]
        alone = languages or len(self.cells) == 2
        return texts if alone and len(texts) == 2 else ()

    def texts_and_label(self) -> tuple[tuple[Column, ...], tuple[Column]]:
        """The columns of one text or two, and of their label."""
        label = self._label()
        by_name = self._by_name()
        for first, second in PAIRS:
            if first in by_name and second in by_name:
                return (by_name[first], by_name[second]), (label,)
        inputs = [column for column in self.cells if column != label]
        if not inputs:
            raise BadInput(f"{self.path}: one column ({self.names}); a text and its label need two")
        named = [by_name[name] for name in TEXTS if name in by_name and by_name[name] != label]
        return (named[0] if named else max(inputs, key=self.words),), (label,)

    def _label(self) -> Column:
        by_name = self._by_name()
        for name in LABELS:
            if name in by_name and self.words(by_name[name]) <= FEW_WORDS:
                return by_name[name]
        fewest = {column: self._distinct(column) for column in self.cells}
        short = [
            column
            for column in self.cells
            if self.words(column) <= FEW_WORDS and 1 < fewest[column] * 2 <= self._rows(column)
        ]
        if not short:
            remedy = "name the columns of text and label"
            raise BadInput(f"{self.path}: no column looks like labels ({self.names}); {remedy}")
        return min(short, key=lambda column: fewest[column])

    def words(self, column: Column) -> float:
        """The mean number of words of a cell."""
        return sum(len(str(cell).split()) for cell in self.cells[column]) / self._rows(column)

    def _rows(self, column: Column) -> int:
        return max(1, len(self.cells[column]))

    def _distinct(self, column: Column) -> int:
        return len({str(cell) for cell in self.cells[column]})

    def _is_text(self, column: Column) -> bool:
        return self.words(column) >= 2 and self._distinct(column) * 2 > self._rows(column)

    def _by_name(self) -> dict[str, Column]:
        return {str(column).strip().casefold(): column for column in self.cells}


def delimited_columns(path: Path, kind: type[Table]) -> TableColumns:
    """Columns of a CSV or tab-separated file, named by its header or numbered from 0."""
    source, names, lines = kind(str(path), ()).opened()
    table = cast(Table, source)
    rows = []
    for number, raw in islice(lines, SAMPLE):
        try:
            rows.append(table.cells(decoded(raw, table.where(number)), table.where(number)))
        except BadExample:  # reported when all examples are read
            continue
    if not rows:
        raise BadInput(f"{path}: no rows{' below the header' if names else ''}")
    width = len(names) or max(map(len, rows))
    columns: Sequence[Column] = names or range(width)
    cells = {
        column: [row[index] for row in rows if index < len(row)]
        for index, column in enumerate(columns)
        if column != ""
    }
    return TableColumns(path, cells, _format(table.form, names))


def _format(form: TableFormat, names: Sequence[str]) -> str:
    between = DELIMITERS.get(form.delimiter or ",", repr(form.delimiter))
    quoted = "cells may be quoted" if form.quoting else "no quoting"
    header = (
        f"header {first_names(filter(None, names))}"
        if names
        else "no header, columns are numbered from 0"
    )
    return f"{between} between columns, {quoted}, {form.encoding}, {header}"


def record_columns(path: Path, records: Iterator[Mapping[str, JSON]], format: str) -> TableColumns:
    """Columns of records: the keys of the first, with the values of as many as are sampled."""
    rows = [*islice(records, SAMPLE)]
    if not rows:
        raise BadInput(f"{path}: no rows")
    cells: dict[Column, Sequence[JSON]] = {
        key: [row[key] for row in rows if row.get(key) is not None] for key in rows[0]
    }
    return TableColumns(path, cells, f"{format}, keys {first_names(rows[0])}")


def jsonl_columns(path: Path) -> TableColumns:
    """Keys of JSON lines."""
    records = (record for _, record in read_objects(path, None))
    return record_columns(path, records, "a JSON object per line")


def parquet_columns(path: Path) -> TableColumns:
    """Columns of a Parquet file."""
    return record_columns(path, parquet_records(str(path)), "Parquet")


def memory_columns(path: Path) -> TableColumns:
    """Languages of a translation memory, the source language first."""
    memory = TranslationMemory(str(path), ())
    rows, languages = [*memory.records()], memory.languages()
    if not languages:
        raise BadInput(f"{path}: no translation units")
    cells: dict[Column, Sequence[JSON]] = {
        name: [row[name] for row in rows if name in row] for name in languages
    }
    return TableColumns(path, cells, f"a translation memory (TMX), {first_names(languages)}")


TABLES: dict[str, type[ColumnFile]]
TABLES = {"table": Table, "csv": Csv, "jsonl": JsonLines, "parquet": Parquet}
TABLES |= {"tmx": TranslationMemory}
"""Tables by the key of a recipe that names their file."""
COLUMNS: dict[str, Callable[[Path], TableColumns]] = {
    "csv": partial(delimited_columns, kind=Csv),
    "tsv": partial(delimited_columns, kind=Table),
    "jsonl": jsonl_columns,
    "parquet": parquet_columns,
    "tmx": memory_columns,
}
