"""Readers of the nine tasks of GLUE (Wang et al., 2018) and of SNLI.

Columns of GLUE are separated by tabs, without quoting. Labels of test files are hidden.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from regard.core.errors import BadInput
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import BadExample, Dropped, filled, one_of, parsed
from regard.data.readers.sources import FileSource, Lines, read_examples
from regard.data.readers.table_files import JsonLines, Table, read_cells
from regard.data.readers.table_format import UNQUOTED_TSV
from regard.data.readers.text_files import STDIN, name_of

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")


@dataclass(frozen=True)
class GlueTask:
    """Task of GLUE: the columns of texts and label, and its metrics."""

    texts: tuple[str, ...]
    label: str
    labels: tuple[str, ...]  # in this order; none for regression
    metrics: tuple[str, ...] = ("accuracy",)
    positive: str | None = None  # the class of F1
    unnamed: tuple[str, ...] = ()  # the columns of files without a header


SENTENCES = ("sentence1", "sentence2")
COLA_COLUMNS = ("source", "label", "star", "sentence")
INFERENCES = ("contradiction", "entailment", "neutral")

GLUE_TASKS = {
    "CoLA": GlueTask(("sentence",), "label", BINARY, ("Matthews",), unnamed=COLA_COLUMNS),
    "SST-2": GlueTask(("sentence",), "label", BINARY),
    "MRPC": GlueTask(("#1 String", "#2 String"), "Quality", BINARY, ("F1", "accuracy"), "1"),
    "STS-B": GlueTask(SENTENCES, "score", (), ("Pearson", "Spearman")),
    "QQP": GlueTask(("question1", "question2"), "is_duplicate", BINARY, ("F1", "accuracy"), "1"),
    "MNLI": GlueTask(SENTENCES, "gold_label", INFERENCES),
    "QNLI": GlueTask(("question", "sentence"), "label", ENTAILMENT),
    "RTE": GlueTask(SENTENCES, "label", ENTAILMENT),
    "WNLI": GlueTask(SENTENCES, "label", BINARY),
}


def glue(path: Path, name: str, dropped: Dropped = None) -> Iterator[LabelledExample]:
    """Read the examples of a task; MNLI's two test domains are two files.

    QQP as distributed has questions with line breaks: read it with `dropped`.
    """
    task = GLUE_TASKS[name]
    columns, count = (*task.texts, task.label), len(task.texts)
    table = Table(
        str(path), columns, optional=(task.label,), unnamed=task.unnamed, form=UNQUOTED_TSV
    )

    def parse(where: str, cells: tuple[str, ...]) -> LabelledExample:
        texts = tuple(filled(text, where) for text in cells[:count])
        labels = tuple(_label(task, label, where) for label in cells[count:])
        return LabelledExample(where, texts, labels or None)

    return parsed(read_cells(table, dropped), parse, dropped)


def _label(task: GlueTask, label: str, where: str) -> str:
    if task.labels:
        return one_of(task.labels, label, where)
    try:
        finite = isfinite(float(label))
    except ValueError:
        finite = False
    if not finite:
        raise BadExample(where, "not a number", f"the label {label!r} is not a number")
    return label


UNDECIDED = "-"  # annotators did not agree

_SIDES = ("s1", "s2", "labels")
_COLUMNS = (*SENTENCES, "gold_label")


def snli(path: Path, dropped: Dropped = None) -> Iterator[LabelledExample]:
    """Read SNLI (Bowman et al., 2015): the .jsonl or .txt file, or s1.dev, s2.dev and labels.dev.

    Pairs without a gold label are always left out, and counted in `dropped`.
    """

    def parse(where: str, row: tuple[str, ...]) -> LabelledExample:
        return LabelledExample(where, row[:2], (one_of(INFERENCES, row[2], where),))

    return parsed(_decided(path, dropped), parse, dropped)


def _decided(path: Path, dropped: Dropped) -> Iterator[tuple[str, tuple[str, ...]]]:
    for where, row in _rows(path, dropped):
        if row[-1] != UNDECIDED:
            yield where, row
        elif dropped is not None:
            dropped["without a gold label"] += 1


def _rows(path: Path, dropped: Dropped) -> Iterator[tuple[str, tuple[str, ...]]]:
    name = path.name.removesuffix(".gz").removesuffix(".xz")
    source: FileSource
    if name.endswith(".txt"):
        source = Table(str(path), _COLUMNS, form=UNQUOTED_TSV)
    elif name.startswith("s1."):
        rest = path.name.removeprefix("s1")
        source = Lines(tuple(str(path.with_name(f"{side}{rest}")) for side in _SIDES))
    elif name.endswith(".jsonl") or name == STDIN:
        source = JsonLines(str(path), _COLUMNS)
    else:
        raise BadInput(f"{name_of(path)}: SNLI is a file named s1.*, *.jsonl or *.txt")
    return read_examples(source, None, dropped)
