"""SNLI (Bowman et al., 2015): natural language inference."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.files.fields import DropCounts, one_of, parsed
from regard.data.files.sources import FileSource, JsonLines, Lines, Table, read_examples
from regard.data.files.text_files import STDIN, name_of
from regard.data.readers.examples import LabelledExample
from regard.ground.errors import BadInput

LABELS = ("contradiction", "entailment", "neutral")
UNDECIDED = "-"  # annotators did not agree

_SIDES = ("s1", "s2", "labels")
_COLUMNS = ("sentence1", "sentence2", "gold_label")


def snli(path: Path, dropped: DropCounts | None = None) -> Iterator[LabelledExample]:
    """From the official .jsonl or .txt file, or from s1.dev, s2.dev and labels.dev.

    Pairs without a gold label are always left out, and counted in `dropped`.
    """

    def parse(where: str, row: tuple[str, ...]) -> LabelledExample:
        return LabelledExample(where, row[:2], (one_of(LABELS, row[2], where),))

    return parsed(_decided(path, dropped), parse, dropped)


def _decided(path: Path, dropped: DropCounts | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    for where, row in _rows(path, dropped):
        if row[-1] != UNDECIDED:
            yield where, row
        elif dropped is not None:
            dropped["without a gold label"] += 1


def _rows(path: Path, dropped: DropCounts | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    name = path.name.removesuffix(".gz").removesuffix(".xz")
    source: FileSource
    if name.endswith(".txt"):
        source = Table(str(path), _COLUMNS)
    elif name.startswith("s1."):
        rest = path.name.removeprefix("s1")
        source = Lines(tuple(str(path.with_name(f"{side}{rest}")) for side in _SIDES))
    elif name.endswith(".jsonl") or name == STDIN:
        source = JsonLines(str(path), _COLUMNS)
    else:
        raise BadInput(f"{name_of(path)}: SNLI is a file named s1.*, *.jsonl or *.txt")
    return read_examples(source, 3, None, dropped)
