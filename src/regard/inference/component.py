"""Components, each one thing that a model can do (embed, translate), and the loop that runs them.

Inputs are parsed, prepared as rows on the host, run in batches of rows of similar cost, and come
back as results in the order of the inputs. A bad input is a ``BadItem`` in its place; the other
inputs run. The command line, the Python API, worker processes and servers all loop over rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from regard.core.batch import BatchLimits
from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput, BadItem
from regard.core.tape import NULL_TAPE, NullTape
from regard.core.workers import Workers
from regard.data.batches.packing import inference_batches
from regard.data.readers.fields import field_of

TOKENS = 8_192  # the maximum of a batch
TOKENS_ON_GPU = 65_536  # of a batch of states that are pooled: few launches for many tokens
WINDOW = 4_096  # inputs prepared ahead, so that rows of similar length come together
RECORDED = BatchLimits(2_048, 32, 2_048)  # with a tape, which may record attention weights

In = TypeVar("In")
Data = TypeVar("Data")
Out = TypeVar("Out")


@dataclass(frozen=True, eq=False)
class Row(Generic[In, Data]):
    """An input, prepared on the host for a model.

    ``key`` is the index of the input, on which random draws depend. ``cost`` counts tokens,
    generated ones included. Only rows of one ``group`` may share a batch. ``cut``: the input was
    truncated.
    """

    key: int
    given: In
    data: Data
    cost: int
    cut: bool = False
    group: Hashable = None


@dataclass(frozen=True)
class Result(Generic[Out]):
    """The value for an input, with the key of its row; ``usage`` is its cost in tokens."""

    key: int
    value: Out
    cut: bool = False
    usage: int = 0


AnyRow = Row[Any, Any]
AnyResult = Result[Any]
BlockWorkers = Workers[list[AnyResult | BadItem]]
"""Workers that run blocks of inputs, each with its own copy of a component."""


class ResultFormat(ABC, Generic[Out]):
    """How the results of a component are written: lines, JSON objects, cells of a table.

    ``is_numbered``: records have the line number of their input; ``reports_cuts``: they say whether
    it was truncated.
    """

    is_numbered: ClassVar[bool] = True
    reports_cuts: ClassVar[bool] = False

    @abstractmethod
    def lines(self, result: Result[Out]) -> list[str]:
        """A result as lines of text."""

    @abstractmethod
    def records(self, result: Result[Out]) -> list[dict[str, object]]:
        """A result as JSON objects."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of results in a table; default: the keys of records."""
        return tuple(self.empty_record)

    def cells(self, result: Result[Out]) -> list[dict[str, object]]:
        """A result as cells of a table, by column; several results are several rows."""
        return [{key: record.get(key) for key in self.columns} for record in self.records(result)]

    def arrays(self, result: Result[Out]) -> dict[str, np.ndarray]:
        """The vectors of a result, for files other than JSON."""
        return {}

    @property
    def empty_record(self) -> Mapping[str, object]:
        """The record of an empty or bad line."""
        return {}

    def remark(self, result: Result[Out]) -> str:
        """A remark about a result, for standard error; empty: none."""
        return ""

    def word_labels(self, result: Result[Out]) -> Sequence[str] | None:
        """A label for each word of a sentence; None: the results are no labels of words."""
        return None


class InputFormat(ABC, Generic[In]):
    """How the inputs of a component are read: lines, JSON objects, rows of tables.

    ``reads_empty``: an empty line is an input. ``record_keys`` are the keys of an input in a
    record: one text, or several, by alternatives; it may have ``more_keys`` besides.
    ``reads_source``: of a table of translations, the source column is the input. ``words_key`` is
    the key of a sentence in a record, as a list of words; "": none are read.
    """

    reads_empty: ClassVar[bool] = False
    record_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("text",),)
    more_keys: ClassVar[tuple[str, ...]] = ()
    reads_source: ClassVar[bool] = False
    words_key: ClassVar[str] = ""

    @property
    def reads_images(self) -> bool:
        """Whether inputs are images."""
        return False

    @abstractmethod
    def parse(self, line: str, where: str) -> In:
        """The input in a line of a file."""

    def parse_record(self, record: Mapping[str, object], where: str) -> In:
        """The input in a JSON object, or in a row of a table."""
        return self.parse(field_of(record, "text", str, where), where)

    def is_blank(self, given: In) -> bool:
        """Whether an input has no text, so that its result is not counted."""
        return False

    def as_input(self, given: Any) -> In:
        """A value of Python as an input."""
        return cast(In, given)

    @abstractmethod
    def token_count(self, given: In, most: int) -> int:
        """The number of tokens of an input, with special tokens; exact only above ``most``."""


class Component(InputFormat[In], ResultFormat[Out], Generic[In, Data, Out]):
    """One thing that a model can do; options and limits are fields of the component.

    ``own_limit`` is the number of tokens above which the component itself truncates, divides or
    refuses inputs; None: no limit.
    """

    writes: ClassVar[bool] = False  # texts, token by token

    @property
    def streams(self) -> bool:
        """Whether a result is known piece by piece."""
        return False

    @property
    def joins(self) -> bool:
        """Whether rows can enter a running batch, decoded step by step."""
        return False

    @property
    def copies(self) -> int:
        """The number of hypotheses that are decoded for an input."""
        return 1

    @property
    def longest_row(self) -> int | None:
        """Tokens of a row above which it would keep a server from other work; None: no limit.

        Where the component itself truncates or refuses longer ones, there is none.
        """
        return self.limits.tokens if self.own_limit is None else None

    def excess(self, row: Row[In, Data]) -> str:
        """Why a row would keep a server from other work for too long; empty: it would not."""
        most = self.longest_row
        if most is None or row.cost <= most:
            return ""
        return f"a text of {row.cost} tokens is more than the {most} of one text; divide it"

    def candidates(self, row: Row[In, Data]) -> int:
        """The number of tokens that the result of a row lists with their probabilities."""
        return 0

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the component: a verb."""

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """The maximum number of rows of a batch."""

    @property
    def limits(self) -> BatchLimits:
        """The maximum numbers of tokens and rows of a batch."""
        return BatchLimits(TOKENS, self.batch_size, TOKENS)

    @property
    def window(self) -> int:
        """The maximum number of inputs that are prepared at once."""
        return WINDOW

    @property
    def own_limit(self) -> int | None:
        return None

    def figures(self, result: Result[Out]) -> dict[str, float]:
        """Figures of a result, to be summed over all results."""
        return {"cut": float(result.cut), "inputs": 1}

    def total(self, sums: Mapping[str, float]) -> str:
        """The summed figures in one line, for standard error; empty: none."""
        if not sums.get("cut"):
            return ""
        return f"{sums['cut']:,.0f} of {sums['inputs']:,.0f} inputs were cut: {self.cut_reason}"

    @property
    def cut_reason(self) -> str:
        """The reason why inputs are truncated."""
        return f"more than {self.own_limit} tokens, special ones counted"

    @abstractmethod
    def rows(self, inputs: Sequence[In], keys: Sequence[int]) -> list[Row[In, Data]]:
        """A row for each input; a bad input raises ``BadItem`` with its number from 1."""

    def prepare(self, inputs: Sequence[In], keys: Sequence[int]) -> list[Row[In, Data] | BadItem]:
        """A row for each input, or a ``BadItem`` in its place."""
        try:
            return [*self.rows(inputs, keys)]
        except BadItem:
            return [self._row(given, key) for given, key in zip(inputs, keys, strict=True)]

    def _row(self, given: In, key: int) -> Row[In, Data] | BadItem:
        try:
            return self.rows([given], [key])[0]
        except BadItem as bad:
            return BadItem(key + 1, bad.reason)

    @abstractmethod
    def values(self, rows: Sequence[Row[In, Data]], tape: NullTape = NULL_TAPE) -> Sequence[Out]:
        """The value of each row of a batch, which does not depend on the other rows.

        ``tape`` belongs to a run: each forward pass takes its ``next_batch``.
        """

    def run(self, rows: Sequence[Row[In, Data]], tape: NullTape = NULL_TAPE) -> list[Result[Out]]:
        """The results of one batch."""
        check_wanted()
        return results_of(rows, self.values(rows, tape))

    def run_batches(
        self, batches: list[list[Row[In, Data]]], tape: NullTape = NULL_TAPE
    ) -> Iterable[list[Result[Out]]]:
        """The results of each batch, in order."""
        return (self.run(batch, tape) for batch in batches)

    def results(
        self, rows: Sequence[Row[In, Data] | BadItem], tape: NullTape = NULL_TAPE
    ) -> list[Result[Out] | BadItem]:
        """The results of any number of rows, run in batches; a ``BadItem`` keeps its place.

        With a live ``tape``, rows run in the given order.
        """
        good = {n: row for n, row in enumerate(rows) if not isinstance(row, BadInput)}
        results: dict[int, Result[Out] | BadItem] = {
            number: row for number, row in enumerate(rows) if isinstance(row, BadInput)
        }
        batches = list(self._batches_in_order(good) if tape.live else self.batches_by_cost(good))
        jobs = [[good[number] for number in batch] for batch in batches]
        for batch, of_batch in zip(batches, self.run_batches(jobs, tape), strict=True):
            results |= zip(batch, of_batch, strict=True)
        return [results[number] for number in range(len(rows))]

    def run_block(
        self, inputs: Sequence[In], keys: Sequence[int], skip_bad: bool
    ) -> list[Result[Out] | BadItem]:
        """The results of a block of inputs; without ``skip_bad``, up to the first bad one."""
        rows = self.prepare(inputs, keys)
        bad = (number for number, row in enumerate(rows) if isinstance(row, BadInput))
        first = None if skip_bad else next(bad, None)
        return self.results(rows if first is None else rows[: first + 1])

    def batches_by_cost(self, rows: Mapping[int, Row[In, Data]]) -> Iterator[list[int]]:
        """The batches in which ``results`` runs rows: numbers of one group and of similar cost."""
        groups: dict[Hashable, list[int]] = {}
        for number, row in rows.items():
            groups.setdefault(row.group, []).append(number)
        for numbers in groups.values():
            costs = np.array([rows[number].cost for number in numbers])
            for chosen in inference_batches(costs, self.limits):
                yield [numbers[i] for i in chosen]

    def _batches_in_order(self, rows: Mapping[int, Row[In, Data]]) -> Iterator[list[int]]:
        """Numbers of successive rows of one group."""
        for _, successive in groupby(rows, lambda number: rows[number].group):
            numbers = list(successive)
            costs = np.array([rows[number].cost for number in numbers])
            for chosen in inference_batches(costs, RECORDED, sort=False):
                yield [numbers[i] for i in chosen]

    def stream(
        self,
        inputs: Iterable[In],
        *,
        first: int = 0,
        strict: bool = False,
        tape: NullTape = NULL_TAPE,
    ) -> Iterator[Result[Out] | BadItem]:
        """Results of a stream of inputs, window by window, with keys from ``first``.

        If ``strict``, a bad input is an error before its window is run.
        """
        coming = iter(inputs)
        while window := list(islice(coming, self.window)):
            rows = self.prepare(window, range(first, first + len(window)))
            for row in rows if strict else ():
                if isinstance(row, BadInput):
                    raise row
            yield from self.results(rows, tape)
            first += len(window)

    def predict(
        self, inputs: Iterable[In], *, first: int = 0, tape: NullTape = NULL_TAPE
    ) -> list[Out]:
        """The value of each input; a bad input is an error."""
        with tape.batches() as run:
            results = self.stream(inputs, first=first, strict=True, tape=run)
            return [result.value for result in results if not isinstance(result, BadInput)]

    def session(self, slots: int) -> "Session[In, Data, Out]":
        """Queue for the rows of many requests, with room for ``slots`` rows."""
        return Session(self, slots)


def results_of(rows: Sequence[Row[In, Data]], values: Sequence[Out]) -> list[Result[Out]]:
    """The values of rows as results."""
    pairs = zip(rows, values, strict=True)
    return [Result(row.key, value, row.cut, row.cost) for row, value in pairs]


class Session(Generic[In, Data, Out]):
    """Queue of rows that wait for a component, run a batch at a time."""

    def __init__(self, component: Component[In, Data, Out], slots: int):
        self.component, self.slots = component, slots
        self.waiting: dict[int, Row[In, Data]] = {}

    @property
    def free(self) -> int:
        """The number of rows that can be added."""
        return self.slots - len(self.waiting)

    def add(self, row: Row[In, Data]) -> None:
        """Add a row to the queue; keys of waiting rows are unique."""
        self.waiting[row.key] = row

    def cancel(self, key: int) -> None:
        """Remove a waiting row."""
        self.waiting.pop(key, None)

    def step(self) -> list[Result[Out]]:
        """Run a batch: the longest-waiting row, and rows that may share its batch."""
        first = next(iter(self.waiting.values()), None)
        rows = [row for row in self.waiting.values() if first and row.group == first.group]
        rows = rows[: self.component.batch_size]
        for row in rows:
            self.cancel(row.key)
        return self.component.run(rows) if rows else []
