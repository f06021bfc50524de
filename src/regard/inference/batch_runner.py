"""Rows through a model in batches: rows of similar length together, outputs in the order given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.batches.packing import inference_batches
from regard.data.readers.fields import field_of
from regard.ground.batch import (
    BatchLimits,
    Ids,
    ImageRow,
    PackedTokens,
    TokenRow,
    as_row,
    pack_texts,
)
from regard.ground.cancellation import check_wanted
from regard.ground.checks import listed
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, ValueTape
from regard.inference.component import (
    RECORDED,
    TOKENS,
    WINDOW,
    Component,
    Data,
    In,
    Out,
    Result,
    Row,
)
from regard.inference.inputs import InputLimits
from regard.inference.row_outputs import run_model
from regard.models.heads import AnyHead
from regard.parts.kernels.bucketed import fewest_tokens
from regard.text.labels import LabelSet
from regard.text.tokenizers.row_tokenizer import RowTokenizer

TextOrPair = str | tuple[str, str]
Rows = Sequence[TokenRow] | Sequence[Ids] | Sequence[TokenRow | ImageRow]
ModelRow = TokenRow | ImageRow
T = TypeVar("T")


class PredictedValue(Protocol):
    """A value with its line of text and its record for JSON."""

    @property
    def line(self) -> str: ...
    @property
    def record(self) -> dict[str, object]: ...


class BatchRunner(ABC):
    """Runner of a model over many inputs, at most ``batch_size`` rows at once."""

    model: Any  # a ModelModule

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """The maximum number of rows of a batch."""

    @property
    def limits(self) -> BatchLimits:
        """The maximum numbers of tokens and rows of a batch."""
        return BatchLimits(TOKENS, self.batch_size, TOKENS)

    @cached_property
    def reads_images(self) -> bool:
        """Whether rows are images, whose files are read as late as possible."""
        return not self.model.encoder.embed.vocab

    def read_files(self, rows: Sequence[ModelRow]) -> Sequence[ModelRow]:
        """Rows in memory; a bad image, or a pair for a model of single texts, is a ``BadItem``."""
        if self.reads_images:
            return [ImageRow(partial(np.asarray, cast(ImageRow, row).read())) for row in rows]
        self.check_segments(rows)
        return rows

    def check_segments(self, rows: Rows) -> None:
        """Refuse rows with more segments than the model distinguishes."""
        limits = InputLimits.of(self.model.encoder)
        if not limits.segments or not rows:
            return
        segments = np.concatenate([as_row(row).segments for row in rows])
        if np.max(segments, initial=0) < limits.segments:
            return
        for number, row in enumerate(rows, start=1):  # if an input has several rows, all are pairs
            limits.check_segments(as_row(row), number)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def batches(
        self, rows: Rows, tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches with the indices of their rows; with a live ``tape`` in the given order."""
        self.check_segments(rows)
        lengths = np.array([row_length(row) for row in rows], dtype=np.int64)
        limits = RECORDED if tape.live else self.limits
        for together in inference_batches(lengths, limits, sort=not tape.live):
            for numbers in _without_short_rows(together, lengths, fewest_tokens(self.device)):
                check_wanted()
                yield numbers, pack_texts([rows[i] for i in numbers]).to(self.device)

    @torch.no_grad()
    def states(self, rows: Rows, name: str, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """Encoder states of the tape path ``name`` for each row, (tokens, width).

        Rows are split by ``split``, which may leave out special tokens.
        """

        def states_of(batch: PackedTokens, tape: ValueTape) -> Sequence[Tensor]:
            layout = self.model.encode(batch, tape=tape).layout
            return self.split(tape.value, layout)

        with tape.batches() as run:
            return in_order(
                (numbers, states_of(batch, ValueTape(name, run.next_batch())))
                for numbers, batch in self.batches(rows, tape)
            )

    @torch.no_grad()
    def carried_states(self, rows: Rows, name: str, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """States (tokens, width) of rows; each row begins with the last state of the row before."""
        states, state = list[Tensor](), self.model.encoder.new_state(1)
        with tape.batches() as run:
            for row in rows:
                record, batch = ValueTape(name, run.next_batch()), pack_texts([row]).to(self.device)
                state = self.model.encode(batch, tape=record, state=state).state
                states += self.split(record.value, batch.layout)
        return states

    def split(self, states_TD: Tensor, layout: Layout) -> Sequence[Tensor]:
        """Split packed states into the states of each row."""
        return layout.split(states_TD)

    @torch.no_grad()
    def logits_of(
        self,
        head: AnyHead | type[AnyHead],
        rows: Rows,
        tape: NullTape = NULL_TAPE,
        convert: Callable[[Tensor], Tensor] = lambda logits: logits,
    ) -> list[Tensor]:
        """Logits of each row: (outputs,), or (tokens, outputs) if the head reads tokens.

        ``convert`` is applied to the logits of a batch before they are split. ``tape`` belongs
        to a run of batches.
        """

        def split(batch: PackedTokens, tape: NullTape) -> Sequence[Tensor]:
            logits = convert(run_model(self.model, batch, tape=tape).by_head[head.name])
            return logits.unbind() if head.per_row else batch.layout.split(logits)

        batches = self.batches(rows, tape)
        return in_order((numbers, split(batch, tape.next_batch())) for numbers, batch in batches)


class RowComponent(BatchRunner, Component[In, Data, Out]):
    """A component that reads texts or images in rows."""

    record_keys: ClassVar[tuple[tuple[str, ...], ...]] = (("text",), ("first", "second"))

    @property
    def window(self) -> int:
        return self.batch_size if self.reads_images else WINDOW

    def parse_record(self, record: Mapping[str, object], where: str) -> In:
        """The input under "text" or "image", or a pair of texts under "first" and "second"."""
        if "second" in record:
            pair = tuple(field_of(record, key, str, where) for key in ("first", "second"))
            return cast(In, pair)
        key = "image" if self.reads_images else "text"
        return self.parse(field_of(record, key, str, where), where)


@dataclass(frozen=True, eq=False)
class Predictor(RowComponent[In, Data, Out]):
    """Base class of components whose results have one line and one record each.

    Texts of more than ``max_length`` tokens are truncated, or divided into several rows. If it
    ``marks_texts``, results are marks in a text, which can be drawn in colours.
    """

    reports_cuts: ClassVar[bool] = True
    marks_texts: ClassVar[bool] = False
    model: Any  # a TrunkWithHeadsModule
    tokenizer: Any  # a RowTokenizer, or an ImageProcessor
    labels: LabelSet | None = None
    batch_size: int = 256
    max_length: int | None = None

    @property
    def own_limit(self) -> int | None:
        return self.max_length

    def prepared(self, key: int, given: In, data: Data, cost: int) -> Row[In, Data]:
        """The row of an input of ``cost`` tokens, with its key and whether it was truncated."""
        return Row(key, given, data, cost, cut=self.is_cut(given, cost))

    def row_texts(self, given: In) -> Sequence[tuple[str, ...]]:
        """The texts of each row of an input."""
        return [self.tokenizer.texts_of(given)]

    def token_count(self, given: In, most: int) -> int:
        return max(self.tokenizer.count(texts, most) for texts in self.row_texts(given))

    def is_cut(self, given: In, cost: int) -> bool:
        """Whether an input whose rows have ``cost`` tokens was truncated."""
        most = self.max_length
        return most is not None and cost >= most and self.token_count(given, most) > most

    def line(self, value: Out) -> str:
        """A value as a line of text."""
        return cast(PredictedValue, value).line

    def lines(self, result: Result[Out]) -> list[str]:
        return [self.line(result.value)]

    def record(self, value: Out) -> dict[str, object]:
        """A value as a JSON object."""
        return cast(PredictedValue, value).record

    def records(self, result: Result[Out]) -> list[dict[str, object]]:
        return [self.record(result.value)]

    def with_show(self, show: Callable[[Out], str]) -> Self:
        """A copy that prints results by ``show``, if it marks texts."""
        return self

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        """A copy that splits words at white space, or prints entities (taggers only)."""
        for name, value in {"pretokenised": pretokenised, "entities": entities}.items():
            if value:
                raise BadInput(f"{name} cannot be used with this model: it does not tag words")
        return self


def _without_short_rows(batch: list[int], lengths: np.ndarray, fewest: int) -> list[list[int]]:
    """The rows of a batch with the fewest tokens or more, and each of the others alone."""
    long = [number for number in batch if lengths[number] >= fewest]
    short = [[number] for number in batch if lengths[number] < fewest]
    return [long, *short] if long else short


def in_order(batches: Iterable[tuple[Sequence[int], Iterable[T]]]) -> list[T]:
    """Results of batches, sorted by the indices of their rows."""
    results = {
        number: result
        for numbers, of_batch in batches
        for number, result in zip(numbers, of_batch, strict=True)
    }
    return [results[number] for number in range(len(results))]


def finite(logits: Tensor) -> Tensor:
    """Logits on the host in double precision; NaN or infinite ones are an error."""
    logits = logits.double().cpu()
    if not logits.isfinite().all():
        raise BadInput("the model is broken: its logits are NaN or infinite")
    return logits


def rows_of(
    tokenizer: RowTokenizer, inputs: Iterable[object], max_length: int | None
) -> list[TokenRow]:
    """The row of each input, truncated to ``max_length``."""
    return tokenizer.rows(listed(inputs), max_length)


def row_length(row: ModelRow | Ids) -> int:
    """Number of tokens of a row."""
    return len(as_row(row).tokens)
