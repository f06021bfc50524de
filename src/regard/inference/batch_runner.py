"""Rows through a model in batches: rows of similar length together, outputs in the order given."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits, Ids, PackedTokens, TokenRow, as_row, pack_texts
from regard.ground.checks import listed
from regard.ground.errors import BadInput, BadItem
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.inference.inputs import InputLimits
from regard.models.heads import AnyHead
from regard.text.labels import LabelSet

TOKENS = 8_192  # of a batch
RECORDED = BatchLimits(2_048, 32, 2_048)  # with a tape, which may keep attention weights
WINDOW = 4_096  # texts read ahead, so that rows of similar length come together

TextOrPair = str | tuple[str, str]
Rows = Sequence[TokenRow] | Sequence[Ids]
Result = TypeVar("Result")


class BatchRunner:
    """Runs a model over many inputs, at most ``batch_size`` rows at once."""

    model: Any
    batch_size: int

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def batches(
        self, rows: Rows, tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches with the numbers of their rows; for a live ``tape`` in the order given."""
        readable = InputLimits.of(self.model.encoder)
        for number, row in enumerate(rows, start=1):  # where an input makes several, all are pairs
            readable.check_segments(as_row(row), number)
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
        """The same, where each row begins with the state in which the row before it ended."""
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


@dataclass(frozen=True, eq=False)
class Predictor(BatchRunner):
    """A model that predicts: from inputs to typed results, with their lines and JSON records.

    Texts of more than ``max_length`` tokens are truncated, or read in several rows.
    """

    empty_record: ClassVar[dict[str, Any]]  # of an empty line: the same keys, and nothing
    model: Any
    tokenizer: Any  # of texts, or a processor of images
    labels: LabelSet | None = None
    batch_size: int = 256
    max_length: int | None = None

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """A result for each input, which does not depend on the others."""
        raise NotImplementedError

    def parse(self, line: str, where: str) -> Any:
        """The input in a line of a file."""
        raise NotImplementedError

    def row_texts(self, given: Any) -> Sequence[tuple[Any, ...]]:
        """The texts of each row of an input that is read whole."""
        return [self.tokenizer.texts_of(given)]

    def token_count(self, given: Any, most: int) -> int:
        """The tokens of its longest row, special ones counted; exact beyond ``most``."""
        return max(self.tokenizer.count(texts, most) for texts in self.row_texts(given))

    def is_cut(self, given: Any) -> bool:
        """Whether only the beginning of its texts is read."""
        most = self.max_length
        return most is not None and self.token_count(given, most) > most

    @property
    def cut_reason(self) -> str:
        """What is wrong with an input that is cut."""
        return f"more than {self.max_length} tokens, special ones counted"

    def line(self, result: Any) -> str:
        """A result in one line."""
        return result.line

    def record(self, result: Any) -> dict[str, Any]:
        """A result for JSON."""
        return result.record

    def with_options(self, *, pretokenised: bool = False, entities: bool = False) -> "Predictor":
        """The same, reading words at white space, or printing entities: taggers can."""
        for name, given in {"pretokenised": pretokenised, "entities": entities}.items():
            if given:
                raise BadInput(f"{name} cannot be used with this model: it does not tag words")
        return self

    def stream(self, inputs: Iterable[Any]) -> Iterator[Any]:
        """Results as inputs come, window by window."""
        coming, before = iter(inputs), 0
        while window := list(islice(coming, WINDOW)):
            try:
                yield from self.predict(window)
            except BadItem as bad:
                raise BadItem(before + bad.number, bad.reason) from None
            before += len(window)


def in_order(batches: Iterable[tuple[Sequence[int], Iterable[Result]]]) -> list[Result]:
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


def rows_of(tokenizer: Any, inputs: Sequence[Any], max_length: int | None) -> list[Any]:
    """A row of each input, truncated to ``max_length``."""
    return tokenizer.rows(listed(inputs), max_length)


def row_length(row: TokenRow | Ids) -> int:
    """How many tokens it has."""
    return len(as_row(row).tokens)
