"""Rows through a model in batches: rows of similar length together, outputs in the order given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from regard.data.files.fields import field_of
from regard.data.packing import inference_batches
from regard.ground.batch import (
    BatchLimits,
    Ids,
    ImageRow,
    PackedTokens,
    TokenRow,
    as_row,
    pack_texts,
)
from regard.ground.checks import listed
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.inference.component import TOKENS, WINDOW, Component, Data, In, Out, Result, Row
from regard.inference.inputs import InputLimits
from regard.models.heads import AnyHead
from regard.text.labels import LabelSet
from regard.text.tokenizers.row_tokenizer import RowTokenizer

RECORDED = BatchLimits(2_048, 32, 2_048)  # with a tape, which may keep attention weights

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
    """Runs a model over many inputs, at most ``batch_size`` rows at once."""

    model: Any  # a ModelModule

    @property
    @abstractmethod
    def batch_size(self) -> int:
        """The most rows of a batch."""

    @property
    def reads_images(self) -> bool:
        """Whether its rows are images, whose files are read as late as possible."""
        return not self.model.encoder.embed.vocab

    def read_files(self, rows: Sequence[ModelRow]) -> Sequence[ModelRow]:
        """Rows that need no files any more; a bad image, or a second text, is a ``BadItem``."""
        if self.reads_images:
            return [ImageRow(partial(np.asarray, cast(ImageRow, row).read())) for row in rows]
        self.check_segments(rows)
        return rows

    def check_segments(self, rows: Rows) -> None:
        """Refuse rows of more texts than the model tells apart."""
        readable = InputLimits.of(self.model.encoder)
        for number, row in enumerate(rows, start=1):  # where an input makes several, all are pairs
            readable.check_segments(as_row(row), number)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def batches(
        self, rows: Rows, tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches with the numbers of their rows; for a live ``tape`` in the order given."""
        self.check_segments(rows)
        lengths = np.array([row_length(row) for row in rows], dtype=np.int64)
        limits = RECORDED if tape.live else BatchLimits(TOKENS, self.batch_size, TOKENS)
        for numbers in inference_batches(lengths, limits, sort=not tape.live):
            yield numbers, pack_texts([rows[i] for i in numbers]).to(self.device)

    @torch.no_grad()
    def states(self, rows: Rows, name: str) -> list[Tensor]:
        """(tokens, width) for each row: the value of the encoder that the tape calls ``name``.

        Of some tokenizers only the ``inner`` tokens count.
        """

        def states_of(batch: PackedTokens) -> Sequence[Tensor]:
            tape = Tape(name)
            layout = self.model.encode(batch, tape=tape).layout
            return self.split(tape.records[name], layout)

        return in_order((numbers, states_of(batch)) for numbers, batch in self.batches(rows))

    @torch.no_grad()
    def carried_states(self, rows: Rows, name: str) -> list[Tensor]:
        """(tokens, width) for each row, which begins with the state that the row before it left."""
        states, state = list[Tensor](), self.model.encoder.new_state(1)
        for row in rows:
            tape, batch = Tape(name), pack_texts([row]).to(self.device)
            state = self.model.encode(batch, tape=tape, state=state).state
            states += self.split(tape.records[name], batch.layout)
        return states

    def split(self, states_TD: Tensor, layout: Layout) -> Sequence[Tensor]:
        """The states of each row."""
        return layout.split(states_TD)

    @torch.no_grad()
    def logits_of(
        self,
        head: AnyHead | type[AnyHead],
        rows: Rows,
        tape: NullTape = NULL_TAPE,
        convert: Callable[[Tensor], Tensor] = lambda logits: logits,
    ) -> list[Tensor]:
        """For each row (outputs,), or (tokens, outputs) where the head reads tokens.

        The logits of a batch are converted before they are split.
        """

        def split(batch: PackedTokens, tape: NullTape) -> Sequence[Tensor]:
            logits = convert(self.model(batch, tape=tape).by_head[head.name])
            return logits.unbind() if head.per_row else batch.layout.split(logits)

        with tape.batches() as next_tape:
            batches = self.batches(rows, tape)
            return in_order((numbers, split(batch, next_tape())) for numbers, batch in batches)


class RowComponent(BatchRunner, Component[In, Data, Out]):
    """A component that reads texts or images in rows."""

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
    """A component with typed results, each of which has a line and a record.

    Texts of more than ``max_length`` tokens are truncated, or read in several rows.
    """

    reports_cuts: ClassVar[bool] = True
    model: Any  # a TrunkWithHeadsModule
    tokenizer: Any  # a RowTokenizer, or an ImageProcessor
    labels: LabelSet | None = None
    batch_size: int = 256
    max_length: int | None = None

    @property
    def own_limit(self) -> int | None:
        return self.max_length

    def prepared(self, key: int, given: In, data: Data, cost: int) -> Row[In, Data]:
        """A row of an input whose rows have ``cost`` tokens together."""
        return Row(key, given, data, cost, cut=self.is_cut(given, cost))

    def row_texts(self, given: In) -> Sequence[tuple[str, ...]]:
        """The texts of each row of an input that is read whole."""
        return [self.tokenizer.texts_of(given)]

    def token_count(self, given: In, most: int) -> int:
        return max(self.tokenizer.count(texts, most) for texts in self.row_texts(given))

    def is_cut(self, given: In, cost: int) -> bool:
        """Whether only the beginning of an input is read, whose rows have ``cost`` tokens."""
        most = self.max_length
        return most is not None and cost >= most and self.token_count(given, most) > most

    def line(self, value: Out) -> str:
        """A value in one line."""
        return cast(PredictedValue, value).line

    def lines(self, result: Result[Out]) -> list[str]:
        return [self.line(result.value)]

    def record(self, value: Out) -> dict[str, object]:
        """A value for JSON."""
        return cast(PredictedValue, value).record

    def records(self, result: Result[Out]) -> list[dict[str, object]]:
        return [self.record(result.value)]

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> Self:
        """A copy that reads words at white space, or prints entities; only taggers have these."""
        for name, given in {"pretokenised": pretokenised, "entities": entities}.items():
            if given:
                raise BadInput(f"{name} cannot be used with this model: it does not tag words")
        return self


def in_order(batches: Iterable[tuple[Sequence[int], Iterable[T]]]) -> list[T]:
    """The results of batches, each with the numbers of its rows, in the order of the rows."""
    results = {
        number: result
        for numbers, of_batch in batches
        for number, result in zip(numbers, of_batch, strict=True)
    }
    return [results[number] for number in range(len(results))]


def finite(logits: Tensor) -> Tensor:
    """Logits on the host in double precision; others than numbers are an error."""
    logits = logits.double().cpu()
    if not logits.isfinite().all():
        raise BadInput("the model is broken: its probabilities are not numbers")
    return logits


def rows_of(
    tokenizer: RowTokenizer, inputs: Iterable[object], max_length: int | None
) -> list[TokenRow]:
    """A row of each input, truncated to ``max_length``."""
    return tokenizer.rows(listed(inputs), max_length)


def row_length(row: ModelRow | Ids) -> int:
    """Number of tokens of a row."""
    return len(as_row(row).tokens)
