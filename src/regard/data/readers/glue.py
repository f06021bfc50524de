"""Readers of the nine tasks of GLUE (Wang et al., 2018), of SNLI and of SST-5.

Columns of GLUE are separated by tabs, without quoting. Labels of test files are hidden. A line of
the Stanford Sentiment Treebank (Socher et al., 2013) is a tree, ``(3 (2 It) (4 works))``: a bracket
holds a label from 0 (very negative) to 4, and a word or further brackets.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from pathlib import Path

from regard.core.errors import BadInput
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import BadExample, Dropped, filled, one_of, parsed
from regard.data.readers.sources import FileSource, Lines, read_examples, read_texts
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


LABELS = ("0", "1", "2", "3", "4")
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}

_PART = re.compile(r"[()]|[^ \t()]+")  # no other space: "8 1/2" is one word, with a no-break one


@dataclass
class Bracket:
    """Phrase of a tree: words from `start` to `stop` (exclusive)."""

    column: int
    start: int
    stop: int = -1
    label: str = ""
    holds: str = ""


def sst5(path: Path, dropped: Dropped = None, phrases: bool = False) -> Iterator[LabelledExample]:
    """Read every sentence with its label; with `phrases`, every bracket."""
    for examples in parsed(read_texts(Lines((str(path),)), dropped=dropped), _examples, dropped):
        yield from examples if phrases else islice(examples, 1)


def _examples(where: str, line: str) -> Iterator[LabelledExample]:
    words, brackets = tree(line, where)
    phrases = ((" ".join(words[part.start : part.stop]), part.label) for part in brackets)
    return (LabelledExample(where, (phrase,), (label,)) for phrase, label in phrases)


def tree(line: str, where: str) -> tuple[list[str], list[Bracket]]:
    """The words of a tree, and its brackets in the order of their opening."""
    words: list[str] = []
    brackets: list[Bracket] = []
    unclosed: list[Bracket] = []
    for part in _PART.finditer(line):
        problem = _take(part[0], part.start() + 1, words, brackets, unclosed)
        if problem:
            detail = f"{part[0]!r} at column {part.start() + 1} {problem}"
            raise BadExample(where, "not a tree", detail)
    if unclosed:
        detail = f"the bracket at column {unclosed[-1].column} is never closed"
        raise BadExample(where, "not a tree", detail)
    return words, brackets


def _take(
    text: str, column: int, words: list[str], brackets: list[Bracket], unclosed: list[Bracket]
) -> str:
    """Parse one token of a line; return a description of the error, or ""."""
    inner = unclosed[-1] if unclosed else None
    if inner is None and (text != "(" or brackets):
        return "is outside of the tree"
    if inner and not inner.label:
        inner.label = text
        return "" if text in LABELS else "is not a label from 0 to 4"
    if inner and text == ")":
        inner.stop = len(words)
        unclosed.pop()
        return "" if inner.holds else "closes an empty bracket"
    if inner and (inner.holds == "a word" or (inner.holds and text != "(")):
        return f"is beside {inner.holds}"
    if inner:
        inner.holds = "brackets" if text == "(" else "a word"
    if text == "(":
        brackets.append(Bracket(column, start=len(words)))
        unclosed.append(brackets[-1])
    else:
        words.append(ESCAPES.get(text.upper(), text).replace("\\/", "/").replace("\\*", "*"))
    return ""
