"""Files of annotated examples as inputs: words in columns (CoNLL, CoNLL-U), and SQuAD.

Words are printed again with their tags beside them, answers with the id of their question.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, AnyStr

from regard.core.errors import BadInput
from regard.data.file_formats import COLUMNS_IN, FORMATS, WordColumns, is_squad, words_format
from regard.data.readers.conll import (
    counted_words,
    even_rows,
    is_boundary,
    is_word_line,
    split_cells,
)
from regard.data.readers.fields import BadExample, json_object
from regard.data.readers.questions import squad
from regard.data.readers.sources import NumberedLines
from regard.data.readers.text_files import STDIN, Arrivals, decoded, suffix_of
from regard.data.table_columns import InputColumns
from regard.experiments.bulk.line_source import (
    InputSettings,
    Line,
    LineSource,
    Parse,
    ResultForm,
    parser_of,
    token_limit,
    with_limit,
)
from regard.experiments.notes import Note

if TYPE_CHECKING:
    from regard.tasks.components import AnyComponent

QUESTION = ("question", "context")  # keys of records
ID = "id"


@dataclass(frozen=True, kw_only=True)
class WordSource(LineSource):
    """Sentences of a file with a word on each line; an input is a sentence.

    Predicted tags are printed in a further column, those of CoNLL-U in its column of tags.
    """

    words: WordColumns

    def numbered(self, arrivals: Arrivals) -> NumberedLines:
        return _sentences(super().numbered(arrivals))

    def decoded(self, raw: bytes, where: str) -> str:
        return "\n".join(decoded(line, place) for place, line in _numbered(raw, b"\n", where))

    def printed(self, line: Line, component: "AnyComponent", form: ResultForm) -> Iterator[str]:
        labels = None if line.value is None else component.word_labels(line.value)
        if form.as_json or (labels is None and line.value is not None):
            yield from super().printed(line, component, form)
            return
        rest = iter(labels or ())
        for row in line.text.split("\n"):
            is_word = labels is not None and is_word_line(row, self.words.counted)
            yield f"{self._with_tag(row, next(rest)) if is_word else row}\n"

    def _with_tag(self, row: str, tag: str) -> str:
        if not self.words.counted:
            separator = "\t" if "\t" in row else " "
            return separator.join([*split_cells(row), tag])
        cells = row.split("\t")
        cells[self.words.tag] = tag
        return "\t".join(cells)


@dataclass(frozen=True, kw_only=True)
class QuestionSource(LineSource):
    """Questions of a SQuAD file, numbered from 1; the id of each is printed before its answer."""

    def where(self, number: int) -> str:
        return f"{self.name}: question {number}"

    def numbered(self, arrivals: Arrivals) -> NumberedLines:
        for number, example in enumerate(squad(Path(self.file)), start=1):
            record = {ID: example.id, "question": example.question, "context": example.context}
            yield number, json.dumps(record).encode()

    def title(self, line: Line) -> str:
        return f"{self._id(line)}\t"

    def record(self, line: Line) -> dict[str, object]:
        return {**super().record(line), ID: self._id(line)}

    def _id(self, line: Line) -> object:
        return json_object(line.text, self.where(line.number))[ID]


def annotated_source(
    component: "AnyComponent", file: str, settings: InputSettings
) -> LineSource | None:
    """The examples of a CoNLL, CoNLL-U or SQuAD file, by its suffix and content; else None.

    A model that reads something else refuses such a file: its lines are no texts.
    """
    if file == STDIN or not Path(file).is_file():
        return None
    suffix = suffix_of(file)
    form = FORMATS.get(suffix, "")
    if suffix == ".json" and is_squad(file):
        if QUESTION not in component.record_keys:
            raise BadInput(f"{file}: questions about texts (SQuAD), which this model does not read")
        parse = parser_of(component, settings.max_length)
        return QuestionSource(file, parse, **settings.of_lines)
    if form == "tmx":
        raise BadInput(f"{file}: a translation memory; name a file with a text on each line")
    if not form and component.words_key:
        form = words_format(file)
    if form not in COLUMNS_IN:
        return None
    if not component.words_key:
        fault = f"words in columns ({form}), and this model reads texts"
        raise BadInput(f"{file}: {fault}; name a file with a text on each line, or a table")
    words = _word_columns(file, form, settings.trained)
    to = f"in column {words.tag}" if words.counted else "in a further column"
    chosen = f"reads words of column {words.word}; tags are printed {to}"
    settings.on_event(Note(f"{file}: {form}, {chosen}"))
    parse = _sentence_parser(component, words, settings.max_length)
    return WordSource(file, parse, **settings.of_lines, words=words)


def _word_columns(file: str, form: str, trained: InputColumns) -> WordColumns:
    """Columns of words and tags: those of training, if they are known; else by the content."""
    words = COLUMNS_IN[form](file)
    if trained.tag is None:
        return words
    if words.counted:
        return replace(words, tag=trained.tag)
    (word, *more) = trained.inputs or ("",)
    return WordColumns(word, trained.tag) if isinstance(word, int) and not more else words


def _sentence_parser(
    component: "AnyComponent", columns: WordColumns, max_length: int | None
) -> Parse:
    """Parser of the lines of a sentence; None if they have no words."""
    limit = token_limit(component, max_length)
    limited = with_limit(component.parse_record, component.token_count, limit)

    def parse(text: str, where: str) -> object:
        lines = [(place, line) for place, line in _numbered(text, "\n", where) if line.strip()]
        lines = [(place, line) for place, line in lines if not is_boundary(line)]
        if not lines:
            return None
        rows = counted_words(where, lines) if columns.counted else even_rows(lines)
        for place, cells in rows:
            if not -len(cells) <= columns.word < len(cells) or not cells[columns.word]:
                detail = f"no word in column {columns.word}, counted from 0"
                raise BadExample(place, "without a column", detail)
        return limited({component.words_key: [cells[columns.word] for _, cells in rows]}, where)

    return parse


def _sentences(lines: NumberedLines) -> NumberedLines:
    """Sentences, each with the boundaries after it, by the number of its first line."""
    first, block, ended = 1, list[bytes](), False
    for number, raw in lines:
        boundary = is_boundary(raw.decode(errors="replace"))
        if block and ended and not boundary:
            yield first, b"\n".join(block)
            block = []
        first = first if block else number
        block.append(raw)
        ended = boundary
    if block:
        yield first, b"\n".join(block)


def _numbered(text: AnyStr, end: AnyStr, where: str) -> Sequence[tuple[str, AnyStr]]:
    """The lines of a text with their places; ``where`` is the place of the first."""
    name, _, first = where.rpartition(":")
    return [(f"{name}:{number}", line) for number, line in enumerate(text.split(end), int(first))]
