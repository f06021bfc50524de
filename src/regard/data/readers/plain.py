"""Readers of plain formats: columns of a table, or keys of JSON lines.

The texts of a group, for sentence encoders, are an anchor, a text of like meaning, and any number
of other texts; or two texts and a score of their similarity.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.data.readers.examples import LabelledExample, TaggedExample
from regard.data.readers.fields import (
    NAN,
    BadExample,
    Dropped,
    field_of,
    filled,
    label_text,
    parsed,
    present,
    typed,
    value_of,
)
from regard.data.readers.sources import Source, Unparsed, checked_text, texts_of, unparsed
from regard.data.readers.table_files import Column, Parquet, Table, read_objects
from regard.data.readers.table_format import TableFormat

NO_LABEL = "without a label"
MISSING_LABEL = "the label is missing: give one, or leave the row out"


def table(
    path: Path,
    kind: type[Table],
    dropped: Dropped = None,
    texts: tuple[Column, ...] = ("text",),
    label: Column | None = None,
    separator: str | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Iterator[LabelledExample]:
    """Read one text or two and their label from columns, by name or by number from 0.

    With `separator`, a cell holds several labels. Without `label`, labels are hidden. `TableFormat`
    describes the other options; what is not declared is found.
    """
    _check(texts, separator)
    columns = texts if label is None else (*texts, label)
    form = kind.form.declared(TableFormat(delimiter, quoting, encoding, header))
    return labelled(
        kind(str(path), columns, form=form), dropped, hidden=label is None, separator=separator
    )


def parquet(
    path: Path,
    dropped: Dropped = None,
    texts: tuple[str, ...] = ("text",),
    label: str | None = None,
    separator: str | None = None,
) -> Iterator[LabelledExample]:
    """Read one text or two and their label from columns of a Parquet file."""
    _check(texts, separator)
    source = Parquet(str(path), texts if label is None else (*texts, label))
    return labelled(source, dropped, hidden=label is None, separator=separator)


def labelled(
    source: Source,
    dropped: Dropped = None,
    *,
    hidden: bool = False,
    separator: str | None = None,
    longest_characters: int | None = None,
) -> Iterator[LabelledExample]:
    """Read examples whose last text is the label, unless labels are ``hidden``."""

    def parse(where: str, example: Unparsed) -> LabelledExample:
        cells, places = texts_of(source, example), example[0]
        count = len(cells) if hidden else len(cells) - 1
        pairs = zip(cells[:count], places, strict=False)
        texts = tuple(checked_text(text, place, longest_characters) for text, place in pairs)
        labels = None if hidden else _labels(cells[-1], separator, places[-1])
        return LabelledExample(where, texts, labels)

    return parsed(unparsed(source), parse, dropped)


def jsonl(
    path: Path,
    dropped: Dropped = None,
    texts: tuple[str, ...] = ("text",),
    label: str | None = None,
    separator: str | None = None,
) -> Iterator[LabelledExample]:
    """Read examples from the keys of JSON objects; a list holds several labels."""
    _check(texts, separator)

    def parse(where: str, record: dict[str, JSON]) -> LabelledExample:
        values = (field_of(record, key, str, where) for key in texts)
        named = zip(values, texts, strict=True)
        filled_texts = tuple(
            filled(present(text, where, f"the value of {key!r}"), where) for text, key in named
        )
        if label is None:
            return LabelledExample(where, filled_texts, None)
        value, name = value_of(record, label, where), f"the value of {label!r}"
        if value is None:
            raise BadExample(where, NO_LABEL, MISSING_LABEL)
        if isinstance(value, list):
            labels = tuple(label_text(each, name, where) for each in value)
        else:
            labels = _labels(label_text(value, name, where), separator, where)
        return LabelledExample(where, filled_texts, labels)

    return parsed(read_objects(path, dropped), parse, dropped)


def tagged_jsonl(
    path: Path, dropped: Dropped = None, words: str = "words", tags: str = "tags"
) -> Iterator[TaggedExample]:
    """Read sentences from two lists of equal length in each JSON object."""

    def parse(where: str, record: dict[str, JSON]) -> TaggedExample:
        lists = (field_of(record, key, list, where) for key in (words, tags))
        return tagged_example(where, *lists)

    return parsed(read_objects(path, dropped), parse, dropped)


def tagged_example(where: str, words: Sequence[object], tags: Sequence[object]) -> TaggedExample:
    """Example of words with a tag for each; tags may be numbers."""
    if not words or len(words) != len(tags):
        detail = f"{len(words)} words and {len(tags)} tags"
        raise BadExample(where, "not a tag for each word", detail)
    word_texts = (typed(word, str, "a word", where) for word in words)
    tag_texts = (label_text(tag, "a tag", where) for tag in tags)
    texts = (tuple(filled(text, where) for text in column) for column in (word_texts, tag_texts))
    return TaggedExample(where, *texts)


def _check(texts: tuple[Column, ...], separator: str | None) -> None:
    if not 1 <= len(texts) <= 2:
        raise BadInput(f"an example is one text or two, not {len(texts)}")
    if separator == "":
        raise BadInput("options.separator must have at least one character")


def _labels(cell: str, separator: str | None, where: str) -> tuple[str, ...]:
    if separator is None:
        if not cell.strip() or cell.strip() in NAN:
            raise BadExample(where, NO_LABEL, MISSING_LABEL)
        return (cell.strip(),)
    return tuple(part.strip() for part in cell.split(separator) if part.strip())


def group_table(
    path: Path,
    kind: type[Table],
    dropped: Dropped = None,
    texts: tuple[Column, ...] = (0, 1),
    score: Column | None = None,
    delimiter: str | None = None,
    quoting: bool | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Iterator[LabelledExample]:
    """Read texts, and a score if there is one, from columns, by name or by number from 0.

    `TableFormat` describes the other options; what is not declared is found.
    """
    form = kind.form.declared(TableFormat(delimiter, quoting, encoding, header))
    source = kind(str(path), _columns(texts, score), form=form)
    return labelled(source, dropped, hidden=score is None)


def group_jsonl(
    path: Path,
    dropped: Dropped = None,
    texts: tuple[str, ...] = ("anchor", "positive"),
    score: str | None = None,
) -> Iterator[LabelledExample]:
    """Read texts, and a score if there is one, from keys of JSON objects."""
    _columns(texts, score)

    def parse(where: str, record: dict[str, JSON]) -> LabelledExample:
        group = tuple(filled(field_of(record, key, str, where), where) for key in texts)
        if score is None:
            return LabelledExample(where, group, None)
        label = label_text(value_of(record, score, where), f"the value of {score!r}", where)
        return LabelledExample(where, group, (label,))

    return parsed(read_objects(path, dropped), parse, dropped)


def _columns(texts: tuple[Column, ...], score: Column | None) -> tuple[Column, ...]:
    if len(texts) < 2:
        raise BadInput(f"options.texts: an example is two texts or more, not {len(texts)}")
    return texts if score is None else (*texts, score)
