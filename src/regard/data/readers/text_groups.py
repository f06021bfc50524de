"""Readers of groups of texts, for sentence encoders: columns of a table, or keys of JSON lines.

The texts of a group are an anchor, a text of like meaning, and any number of other texts; or two
texts and a score of their similarity.
"""

from collections.abc import Iterator
from pathlib import Path

from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import Dropped, field_of, filled, label_text, parsed, value_of
from regard.data.readers.plain import labelled
from regard.data.readers.table_files import Column, Table, read_objects
from regard.data.readers.table_format import TableFormat


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
