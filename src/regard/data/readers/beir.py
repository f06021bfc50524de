"""Files of retrieval benchmarks as BEIR has them (Thakur et al., 2021, arXiv:2104.08663).

Queries and documents are JSON lines with "_id", "text" and, for documents, perhaps "title".
Judgements are lines of query, document and relevance, separated by tabs, under a header.
"""

from dataclasses import replace
from pathlib import Path

from regard.core.errors import BadInput, shown
from regard.data.readers.fields import field_of, label_text, typed, value_of
from regard.data.readers.table_files import Table, read_cells, read_objects
from regard.data.readers.table_format import UNQUOTED_TSV
from regard.data.readers.text_files import name_of

Relevances = dict[str, dict[str, float]]
"""The relevance of documents by query and document."""


def read_texts_by_id(path: Path) -> dict[str, str]:
    """Read queries, or documents; the title of a document stands before its text."""
    texts: dict[str, str] = {}
    for where, record in read_objects(path, None):
        if absent := {"_id", "text"} - {*record}:
            fault = f"no key {max(absent)!r}"
            raise BadInput(f'{where}: {fault}; each line is {{"_id": …, "text": …}}')
        name = label_text(value_of(record, "_id", where), "the value of '_id'", where)
        if name in texts:
            raise BadInput(f"{where}: a second text with the _id {shown(name)}")
        title = typed(record.get("title") or "", str, "the value of 'title'", where)
        texts[name] = f"{title} {field_of(record, 'text', str, where)}".strip()
    if not texts:
        raise BadInput(f"{name_of(path)}: no texts")
    return texts


def read_judgements(path: Path) -> Relevances:
    """Read the relevance of documents for queries, from the first three columns of a table."""
    relevances: Relevances = {}
    table = Table(str(path), (0, 1, 2), form=replace(UNQUOTED_TSV, header=False))
    for number, (where, cells) in enumerate(read_cells(table)):
        query, document, relevance = cells
        try:
            value = float(relevance)
        except ValueError:
            if number:  # not the header
                raise BadInput(f"{where}: the relevance {relevance!r} is not a number") from None
            continue
        relevances.setdefault(query, {})[document] = value
    if not relevances:
        raise BadInput(f"{name_of(path)}: no judgements")
    return relevances
