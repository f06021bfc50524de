"""Readers of semantic roles: a frame for each predicate of a sentence, with labelled spans.

CoNLL-2005 (Carreras and Màrquez, 2005), CoNLL-2012 (Pradhan et al., 2012), Universal Propositions
in CoNLL-U Plus, and JSON lines. A frame without an argument "V" gets one: its predicate.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.data.readers.conll import (
    Numbered,
    Rows,
    column_sentences,
    counted_words,
    even_rows,
    split_cells,
)
from regard.data.readers.examples import Frame, RoleExample
from regard.data.readers.fields import BadExample, Dropped, field_of, filled, parsed, typed
from regard.data.readers.table_files import read_objects
from regard.metrics.entities import OUTSIDE, LabelledSpan, spans
from regard.metrics.roles import CONTINUED, VERB

NO_PREDICATE, NO_CELL = "-", "_"
WORD_2012, SENSE_2012, LEMMA_2012, FRAMES_2012 = 3, 7, 6, 11  # columns of CoNLL-2012, from 0
GLOBAL_COLUMNS = "global.columns"
CONLLU_COLUMNS = (
    *("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"),
    "UP:PRED",
)
SENSES, SPANS = ("UP:PRED", "UP:PREDS"), "UP:ARGSPANS"

_BRACKETS = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
_TAG = re.compile(r"O|[BI]-.+")
_SPAN = re.compile(r"(.+):([0-9]+)-([0-9]+)")


def conll2005(
    path: Path, dropped: Dropped = None, word: int = 0, predicate: int | None = None
) -> Iterator[RoleExample]:
    """Read sentences in columns, of which the last ones have the brackets of a predicate each.

    The column `predicate` has the lemma of a predicate or "-"; default: the column before the last
    ones in which every cell has an asterisk.
    """

    def parse(where: str, lines: Numbered) -> RoleExample:
        rows = even_rows(lines)
        columns = [*zip(*(cells for _, cells in rows), strict=True)]
        first = len(columns)
        while first and all("*" in cell for cell in columns[first - 1]):
            first -= 1
        at = first - 1 if predicate is None else predicate
        if not 0 <= word < at < len(columns):
            places = f"words in column {word}, predicates in column {at}, of {len(columns)}"
            raise BadExample(where, "without a column", f"no {places}, counted from 0")
        lemmas = [(index, cell) for index, cell in enumerate(columns[at]) if cell != NO_PREDICATE]
        brackets = [_bracketed(rows, number) for number in range(at + 1, len(columns))]
        _check_count(where, len(lemmas), len(brackets))
        frames = [
            _frame(where, len(rows), index, arguments, lemma)
            for (index, lemma), arguments in zip(lemmas, brackets, strict=True)
        ]
        return _example(where, _words(rows, word), frames)

    return parsed(column_sentences(path), parse, dropped)


def conll2012(path: Path, dropped: Dropped = None) -> Iterator[RoleExample]:
    """Read sentences of CoNLL-2012: brackets from the twelfth column on, coreference in the last.

    The predicate of a column is the first word of its argument "V".
    """

    def parse(where: str, lines: Numbered) -> RoleExample:
        rows = even_rows(lines)
        columns = [*zip(*(cells for _, cells in rows), strict=True)]
        if len(columns) <= FRAMES_2012:
            detail = f"{len(columns)} columns, fewer than {FRAMES_2012 + 1}"
            raise BadExample(where, "of uneven columns", detail)
        frames = []
        for number in range(FRAMES_2012, len(columns) - 1):
            arguments = _bracketed(rows, number)
            verbs = [span.start for span in arguments if span.label == VERB]
            if not verbs:
                raise BadExample(where, "without a predicate", f"column {number} has no (V*)")
            lemma, sense = columns[LEMMA_2012][verbs[0]], columns[SENSE_2012][verbs[0]]
            name = lemma if sense == NO_PREDICATE else f"{lemma}.{sense}"
            frames.append(_frame(where, len(rows), verbs[0], arguments, name))
        return _example(where, _words(rows, WORD_2012), frames)

    sentences = ((where, _without_comments(lines)) for where, lines in column_sentences(path))
    return parsed(((lines[0][0], lines) for _, lines in sentences if lines), parse, dropped)


def conllu_roles(path: Path, dropped: Dropped = None) -> Iterator[RoleExample]:
    """Read Universal Propositions: CoNLL-U with a column of senses and arguments after it.

    If `# global.columns` names UP:ARGSPANS, the row of a predicate has its arguments there, as
    `A0:1-3|A1:5-9`. Otherwise each predicate has a column, as brackets, as tags (B-A0, I-A0, O), or
    as a label at the one word that heads an argument; that word is then the whole argument.
    """
    names: Sequence[str] = CONLLU_COLUMNS

    def parse(where: str, lines: Numbered) -> RoleExample:
        nonlocal names
        names = next((named for named in map(_global_columns, lines) if named), names)
        sense = next((names.index(name) for name in SENSES if name in names), None)
        if "FORM" not in names or sense is None:
            missing = "FORM" if "FORM" not in names else SENSES[0]
            raise BadInput(f"{where}: no column {missing}; merge the file with its treebank first")
        width = max((line.count("\t") + 1 for _, line in lines if line[0] != "#"), default=0)
        rows = counted_words(where, lines, width)
        if width < len(names):
            raise BadExample(where, "of uneven columns", f"{width} columns, not {len(names)}")
        cells = enumerate(row[sense] for _, row in rows)
        senses = {number: cell for number, cell in cells if cell != NO_CELL}
        if SPANS in names:
            written = [rows[number][1][names.index(SPANS)] for number in senses]
            arguments = [_listed(rows, *one) for one in zip(senses, written, strict=True)]
        else:
            _check_count(where, len(senses), width - len(names))
            arguments = [_column_spans(rows, number) for number in range(len(names), width)]
        frames = [
            _frame(where, len(rows), number, own, senses[number])
            for number, own in zip(senses, arguments, strict=True)
        ]
        return _example(where, _words(rows, names.index("FORM")), frames)

    return parsed(column_sentences(path), parse, dropped)


def role_jsonl(
    path: Path, dropped: Dropped = None, words: str = "tokens", predicates: str = "predicates"
) -> Iterator[RoleExample]:
    """Read sentences from JSON objects: `{"tokens": […], "predicates": [{"index": 1, "args": …}]}`.

    Arguments are `[first word, last word, label]`; a predicate may have a "roleset".
    """

    def parse(where: str, record: dict[str, JSON]) -> RoleExample:
        lists = (field_of(record, key, list, where) for key in (words, predicates))
        return role_example(where, *lists)

    return parsed(read_objects(path, dropped), parse, dropped)


def role_example(where: str, words: Sequence[object], predicates: Sequence[object]) -> RoleExample:
    """Example of words with their predicates, each as a JSON object."""
    if not words:
        raise BadExample(where, "empty", "a sentence without words")
    texts = tuple(filled(typed(word, str, "a word", where), where) for word in words)
    frames = []
    for predicate in predicates:
        record = typed(predicate, dict, "a predicate", where)
        index = field_of(record, "index", int, where)
        listed = field_of({"args": [], **record}, "args", list, where)
        arguments = [_argument(where, argument) for argument in listed]
        sense = field_of({"roleset": "", **record}, "roleset", str, where)
        frames.append(_frame(where, len(texts), index, arguments, sense))
    return _example(where, texts, frames)


def _example(where: str, words: tuple[str, ...], frames: Sequence[Frame]) -> RoleExample:
    """Example whose predicates are different words."""
    counts = Counter(frame.predicate for frame in frames)
    for predicate, count in counts.items():
        if count > 1:
            detail = f"the predicate {predicate} ({words[predicate]}) has {count} frames"
            raise BadExample(where, "with two frames of a predicate", detail)
    return RoleExample(where, words, tuple(frames))


def _argument(where: str, value: object) -> LabelledSpan:
    parts = list(value) if isinstance(value, tuple) else typed(value, list, "an argument", where)
    if len(parts) != 3:
        detail = f"an argument has {len(parts)} parts, not [first word, last word, label]"
        raise BadExample(where, "not an argument", detail)
    first, last = (typed(part, int, "the place of an argument", where) for part in parts[:2])
    return LabelledSpan(first, last + 1, typed(parts[2], str, "the label of an argument", where))


def _frame(
    where: str, words: int, predicate: int, arguments: Sequence[LabelledSpan], sense: str
) -> Frame:
    """Checked frame, with an argument "V"; arguments are sorted."""
    if not 0 <= predicate < words:
        detail = (
            f"the predicate is word {predicate}, but the sentence has the words 0 to {words - 1}"
        )
        raise BadExample(where, "with a predicate out of place", detail)
    verbs = [span for span in arguments if span.label in (VERB, CONTINUED + VERB)]
    if not verbs:
        arguments = [*arguments, LabelledSpan(predicate, predicate + 1, VERB)]
    elif not any(span.start <= predicate < span.end for span in verbs):
        places = f"words {verbs[0].start} to {verbs[0].end - 1}"
        detail = f"the predicate is word {predicate}, but {VERB} has the {places}"
        raise BadExample(where, "with a predicate out of place", detail)
    end = 0
    for span in sorted(arguments):
        if not span.label:
            raise BadExample(where, "not an argument", "an argument has an empty label")
        if not 0 <= span.start < span.end <= words:
            detail = f"no words {span.start} to {span.end - 1} of {words} for {span.label!r}"
            raise BadExample(where, "with an argument out of place", detail)
        if not verbs and span.label != VERB and span.start <= predicate < span.end:
            detail = f"{span.label} contains the predicate, word {predicate}; only {VERB} may"
            raise BadExample(where, "with overlapping arguments", detail)
        if span.start < end:
            detail = f"{span.label} overlaps another argument of the predicate {predicate}"
            raise BadExample(where, "with overlapping arguments", detail)
        end = span.end
    return Frame(predicate, tuple(sorted(arguments)), sense)


def _bracketed(rows: Rows, number: int) -> list[LabelledSpan]:
    """Spans of a column of brackets: `(A0*`, `*`, `*)`, `(V*)`."""
    closed, label, start = list[LabelledSpan](), "", 0
    for index, (where, cells) in enumerate(rows):
        cell = cells[number]
        match = _BRACKETS.fullmatch(cell)
        if match is None or (match[1] and label) or (match[2] and not (match[1] or label)):
            detail = f"column {number}: {cell!r} after {label or 'no'} open bracket"
            raise BadExample(where, "of uneven brackets", detail)
        if match[1]:
            label, start = match[1], index
        if match[2]:
            closed.append(LabelledSpan(start, index + 1, label))
            label = ""
    if label:
        raise BadExample(
            rows[-1][0], "of uneven brackets", f"column {number}: ({label} is not closed"
        )
    return closed


def _column_spans(rows: Rows, number: int) -> list[LabelledSpan]:
    """Spans of the column of a predicate: brackets, tags, or labels at heads."""
    column = [cells[number] for _, cells in rows]
    if any("*" in cell for cell in column):
        return _bracketed(rows, number)
    cells = [OUTSIDE if cell == NO_CELL else cell for cell in column]
    if all(map(_TAG.fullmatch, cells)):
        return spans(cells)
    return [
        LabelledSpan(index, index + 1, cell) for index, cell in enumerate(cells) if cell != OUTSIDE
    ]


def _listed(rows: Rows, predicate: int, cell: str) -> list[LabelledSpan]:
    """Spans in the row of a predicate: `A0:1-3|A1:5-9`, by the ids of words."""
    places = {cells[0]: number for number, (_, cells) in enumerate(rows)}
    arguments = []
    for text in () if cell == NO_CELL else cell.split("|"):
        match = _SPAN.fullmatch(text)
        if match is None or not {match[2], match[3]} <= places.keys():
            detail = f"{text!r} is not a label and the ids of words, such as A0:1-3"
            raise BadExample(rows[predicate][0], "not an argument", detail)
        arguments.append(LabelledSpan(places[match[2]], places[match[3]] + 1, match[1]))
    return arguments


def _words(rows: Rows, column: int) -> tuple[str, ...]:
    for where, cells in rows:
        if not cells[column]:
            raise BadExample(where, "empty", "a word is empty")
    return tuple(cells[column] for _, cells in rows)


def _check_count(where: str, predicates: int, columns: int) -> None:
    if predicates != columns:
        detail = f"{predicates} predicates, but {columns} columns of arguments"
        raise BadExample(where, "without a column for each predicate", detail)


def _without_comments(lines: Numbered) -> Numbered:
    """Lines of CoNLL-2012 without the first and last line of a document."""
    return [
        (where, line) for where, line in lines if split_cells(line)[0] not in ("#begin", "#end")
    ]


def _global_columns(line: tuple[str, str]) -> list[str]:
    """Names of columns in a comment of CoNLL-U Plus; empty: the line is none."""
    key, _, value = line[1].lstrip("# ").partition("=")
    return value.split() if line[1][0] == "#" and key.strip() == GLOBAL_COLUMNS else []
