"""n-best lists, as ``regard translate --best n --json`` writes them, for reranking."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.files.fields import json_value
from regard.data.files.text_files import name_of, read_lines
from regard.ground.checks import is_whole
from regard.ground.errors import BadInput
from regard.ground.files import JSON
from regard.search.beam_rules import LENGTHS, Length, check_length_penalty
from regard.search.candidates import place


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= one <= "\udfff" for one in value)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < HUGE  # which is not true of NaN


def _is_count(value: object) -> bool:
    return is_whole(value, 0, HUGE - 1)


HUGE = 10**12
FITS: dict[str, Callable[[object], bool]] = {
    "line": _is_count,
    "text": _is_text,
    "n": _is_count,
    "logprob": _is_number,
    "finished": lambda value: isinstance(value, bool),
    "coverage": _is_number,
}


@dataclass(frozen=True, eq=False)
class NBestLists:
    """One entry for each hypothesis; those of a sentence are adjacent, in the order of the file."""

    texts: list[str]
    sentence: np.ndarray
    logprob: np.ndarray
    n: np.ndarray
    finished: np.ndarray
    coverage: np.ndarray | None

    @cached_property
    def place(self) -> np.ndarray:
        """0, 1, 2, ... within each sentence."""
        return place(self.sentence)

    @cached_property
    def first(self) -> np.ndarray:
        """The first hypothesis of each sentence, as an index."""
        return np.flatnonzero(self.place == 0)

    @cached_property
    def eligible(self) -> np.ndarray:
        """Finished hypotheses, and unfinished ones of sentences that have no finished one."""
        any_finished = np.bincount(self.sentence, self.finished) > 0
        return self.finished | ~any_finished[self.sentence]

    def ranked_first(self, length: Length, alpha: float, coverage: float = 0.0) -> np.ndarray:
        """The index of the hypothesis that ``rescore`` ranks first in each sentence."""
        check_length_penalty(length, alpha, lowest=-math.inf)
        score = self.logprob / LENGTHS[length][0](np.maximum(self.n, 1), alpha)
        if coverage:
            if self.coverage is None:
                raise BadInput("a coverage penalty needs hypotheses with a coverage term")
            score = score + coverage * self.coverage
        return self.highest(np.where(self.eligible, score, -np.inf))

    def highest(self, value: np.ndarray) -> np.ndarray:
        """The index of the highest value in each sentence; ties by the order of the file."""
        table = np.full((len(self.first), self.place.max() + 1), -np.inf)
        table[self.sentence, self.place] = value
        return self.first + table.argmax(axis=1)


def read_nbest(path: str | Path) -> NBestLists:
    """The lists of a file of JSON lines; an error names the line that cannot be used."""
    records = list(_records(path))
    if not records:
        raise BadInput(f"{name_of(path)}: no hypotheses")

    def column(name: str) -> list[Any]:
        return [one[name] for _, one in records]

    return NBestLists(
        texts=[" ".join(text.split("\n")) for text in column("text")],
        sentence=np.array(column("line")) - 1,
        logprob=np.array(column("logprob"), dtype=np.float64),
        n=np.array(column("n")),
        finished=np.array(column("finished")),
        coverage=_coverage(records),
    )


def _records(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, record) of each hypothesis, with checked values."""
    before = 0
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{name_of(path)}:{number}"
        record = _checked(json_value(line, where), where)
        if record["line"] not in (before, before + 1) or record["line"] == 0:
            raise BadInput(f"{where}: translates line {record['line']}, after line {before}")
        before = record["line"]
        yield where, record


def _checked(record: JSON, where: str) -> dict[str, Any]:
    if not isinstance(record, dict):
        raise BadInput(f"{where}: not a JSON object")
    for name, fits in FITS.items():
        if name not in record and name != "coverage":
            raise BadInput(f"{where}: {name!r} is missing")
        if name in record and not fits(record[name]):
            raise BadInput(f"{where}: {name!r} cannot be {json.dumps(record[name])[:40]}")
    return record


def _coverage(records: list[tuple[str, dict[str, Any]]]) -> np.ndarray | None:
    """The coverage terms, if there are any; empty translations need none."""
    if not any("coverage" in one for _, one in records):
        return None
    for where, one in records:
        if "coverage" not in one and one["n"]:
            raise BadInput(f"{where}: 'coverage' is missing, though other lines have it")
    return np.array([one.get("coverage", 0.0) for _, one in records], dtype=np.float64)
