"""Readers of published benchmarks and of plain files into examples of each task."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import get_type_hints

from pydantic import TypeAdapter, ValidationError

from regard.core.errors import BadInput, did_you_mean
from regard.data.readers.conll import conll, conllu
from regard.data.readers.coreference_documents import (
    coreference_columns,
    coreference_jsonl,
    gap,
    winobias,
    winogender,
)
from regard.data.readers.examples import Example
from regard.data.readers.fields import Dropped
from regard.data.readers.generated import modular_sums, repeats
from regard.data.readers.glue import GLUE_TASKS, glue, snli, sst5
from regard.data.readers.image_files import cifar, digits, idx, image_csv, image_folder, npz
from regard.data.readers.plain import group_jsonl, group_table, jsonl, parquet, table, tagged_jsonl
from regard.data.readers.propbank import conll2005, conll2012, conllu_roles, role_jsonl
from regard.data.readers.questions import race, squad, swag
from regard.data.readers.table_files import Csv, Table
from regard.data.table_columns import InputColumns

Reader = Callable[..., Iterator[Example]]

READERS: dict[str, dict[str, Reader]] = {
    "classify": {
        **{name: partial(glue, name=name) for name in GLUE_TASKS},
        **{"SST-5": sst5, "SNLI": snli, "jsonl": jsonl},
        **{"tsv": partial(table, kind=Table), "csv": partial(table, kind=Csv)},
        "parquet": parquet,
        **{"image-folder": image_folder, "image-csv": image_csv, "npz": npz, "idx": idx},
        **{"CIFAR": cifar, "digits": digits, "modular-sums": modular_sums},
    },
    "tag": {"CoNLL": conll, "CoNLL-U": conllu, "jsonl": tagged_jsonl},
    "roles": {
        **{"CoNLL-2005": conll2005, "CoNLL-2012": conll2012},
        **{"CoNLL-U": conllu_roles, "jsonl": role_jsonl},
    },
    "answer": {"SQuAD": squad},
    "choose": {"SWAG": swag, "RACE": race},
    "coreference": {
        **{"CoNLL-2012": coreference_columns, "jsonl": coreference_jsonl},
        **{"GAP": gap, "Winogender": winogender, "WinoBias": winobias},
    },
    "embed": {
        **{name: partial(glue, name=name) for name in ("STS-B", "MRPC", "QQP")},
        **{"tsv": partial(group_table, kind=Table), "csv": partial(group_table, kind=Csv)},
        "jsonl": group_jsonl,
    },
    "pretrain": {"repeats": repeats},
}
"""The readers of each task; names are not case-sensitive."""


def read(
    task: str, reader: str, path: Path, dropped: Dropped = None, /, **options: object
) -> Iterator[Example]:
    """Read the examples of a file for a task.

    A bad example is an error with file and line; with `dropped`, it is left out and counted.
    """
    name = _name_of(task, reader)
    chosen = READERS[task][name]
    return chosen(Path(path), dropped=dropped, **_checked(chosen, name, options))


def input_columns(task: str, reader: str, options: Mapping[str, object]) -> InputColumns:
    """Columns that a reader of the task reads inputs from, if its file has any."""
    if not (readers := READERS.get(task)):
        return InputColumns()
    bound = partial(readers[_name_of(task, reader)])
    parameters = inspect.signature(bound.func).parameters
    values = {name: options.get(name, each.default) for name, each in parameters.items()}
    inputs = values.get("texts", values.get("words", values.get("word")))
    columns = [*inputs] if isinstance(inputs, list | tuple) else [inputs]
    return InputColumns.of_notes({"columns": columns, "tag_column": values.get("tag")})


def _name_of(task: str, reader: str) -> str:
    """The name of a reader of the task, in whatever case it is written."""
    if (readers := READERS.get(task)) is None:
        raise BadInput(f"unknown task {task!r}{did_you_mean(task, list(READERS))}")
    name = next((name for name in readers if name.lower() == reader.lower()), None)
    if name is None:
        wrong = did_you_mean(reader, list(readers))
        raise BadInput(f"no reader for task {task!r} is called {reader!r}{wrong}")
    return name


def _checked(reader: Reader, name: str, options: dict[str, object]) -> dict[str, object]:
    """Options converted to the types of the reader's signature; lists become tuples."""
    bound = partial(reader)  # of a partial: the same function and keywords
    hints, names = get_type_hints(bound.func), inspect.signature(bound.func).parameters
    known = [option for option in names if option not in bound.keywords][2:]
    checked = {}
    for option, value in options.items():
        if option not in known:
            raise BadInput(f"{name} has no option {option!r}{did_you_mean(option, known)}")
        try:
            checked[option] = TypeAdapter(hints[option]).validate_python(value)
        except ValidationError as error:
            problem = error.errors()[0]["msg"]
            raise BadInput(f"{name}: option {option!r} cannot be {value!r} ({problem})") from None
    return checked
