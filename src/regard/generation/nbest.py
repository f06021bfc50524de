"""n-best lists, as ``regard translate --best n --json`` writes them, for reranking."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.data.readers.fields import json_value
from regard.data.readers.text_files import name_of, read_lines
from regard.generation.beam_rules import LENGTHS, Length, check_length_penalty
from regard.generation.candidates import place


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


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
    """n-best lists: one entry per hypothesis, in the order of the file, grouped by sentence."""

    texts: list[str]
    sentence: np.ndarray
    logprob: np.ndarray
    n: np.ndarray
    finished: np.ndarray
    coverage: np.ndarray | None

    @cached_property
    def place(self) -> np.ndarray:
        """Index of each hypothesis within its sentence, from 0."""
        return place(self.sentence)

    @cached_property
    def first(self) -> np.ndarray:
        """Index of the first hypothesis of each sentence."""
        return np.flatnonzero(self.place == 0)

    @cached_property
    def eligible(self) -> np.ndarray:
        """Mask of finished hypotheses, and of all in sentences without a finished one."""
        any_finished = np.bincount(self.sentence, self.finished) > 0
        return self.finished | ~any_finished[self.sentence]

    def ranked_first(self, length: Length, alpha: float, coverage: float = 0.0) -> np.ndarray:
        """Index of the hypothesis that ``rescore`` ranks first in each sentence."""
        check_length_penalty(length, alpha, lowest=-math.inf)
        score = self.logprob / LENGTHS[length][0](np.maximum(self.n, 1), alpha)
        if coverage:
            if self.coverage is None:
                raise BadInput("a coverage penalty needs hypotheses with a coverage term")
            score = score + coverage * self.coverage
        return self.highest(np.where(self.eligible, score, -np.inf))

    def highest(self, value: np.ndarray) -> np.ndarray:
        """Index of the highest value in each sentence; ties go to the earlier one."""
        table = np.full((len(self.first), self.place.max() + 1), -np.inf)
        table[self.sentence, self.place] = value
        return self.first + table.argmax(axis=1)


def read_nbest(path: str | Path) -> NBestLists:
    """Read the n-best lists of a file of JSON lines; an error names the line."""
    records = list(_records(path))
    if not records:
        raise BadInput(f"{name_of(path)}: no hypotheses")
    names = "line", "logprob", "n", "finished"
    line, logprob, n, finished = (
        np.array([record[name] for _, record in records]) for name in names
    )
    texts = [" ".join(record["text"].split("\n")) for _, record in records]
    logprob, coverage = logprob.astype(np.float64), _coverage(records)
    return NBestLists(texts, line - 1, logprob, n, finished, coverage)


def _records(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place (file:line) and the checked record of each hypothesis."""
    before = 0
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{name_of(path)}:{number}"
        record = _checked(json_value(line, where), where)
        if record["line"] not in (before, before + 1) or record["line"] == 0:
            raise BadInput(
                f"{where}: 'line' is {record['line']} after {before}: lines must be in order from 1"
            )
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
    """Coverage terms, if there are any; empty translations need none."""
    if not any("coverage" in record for _, record in records):
        return None
    for where, record in records:
        if "coverage" not in record and record["n"]:
            raise BadInput(f"{where}: 'coverage' is missing, though other lines have it")
    return np.array([record.get("coverage", 0.0) for _, record in records], dtype=np.float64)
