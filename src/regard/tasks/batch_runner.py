"""Rows through a model in batches: rows of similar length together, outputs in the order given."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits, Ids, PackedTokens, TokenRow, as_row, pack_texts
from regard.ground.errors import BadInput, BadItem, shown
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.tasks.inputs import check_text, listed
from regard.text.row_tokenizer import RowTokenizer

TOKENS = 8_192  # of a batch
RECORDED = BatchLimits(2_048, 32, 2_048)  # with a tape, which may keep attention weights
WINDOW = 4_096  # texts read ahead, so that rows of similar length come together

TextOrPair = str | tuple[str, str]


class BatchRunner:
    """Runs a model over many inputs, at most ``batch_size`` rows at once."""

    model: nn.Module
    batch_size: int

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def with_batch_size(self, batch_size: int) -> Self:
        """The same, with at most ``batch_size`` rows at once."""
        return replace(cast(Any, self), batch_size=batch_size)

    def batches(
        self, rows: Sequence[TokenRow] | Sequence[Ids], tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches with the numbers of their rows; for a live ``tape`` in the order given."""
        self._check_segments(rows)
        lengths = np.array([row_length(row) for row in rows], dtype=np.int64)
        limits = RECORDED if tape.live else BatchLimits(TOKENS, self.batch_size, TOKENS)
        for numbers in inference_batches(lengths, limits, sort=not tape.live):
            yield numbers, pack_texts([rows[i] for i in numbers]).to(self.device)

    @torch.no_grad()
    def states(self, rows: Sequence[TokenRow] | Sequence[Ids], name: str) -> list[Tensor]:
        """(tokens, width) for each row: the value of the encoder that the tape calls ``name``."""
        model: Any = self.model
        states: list[Tensor] = [torch.empty(0)] * len(rows)
        for numbers, batch in self.batches(rows):
            tape = Tape(name)
            model.encode(batch, tape=tape)
            for i, value in zip(numbers, batch.layout.split(tape.records[name]), strict=True):
                states[i] = value
        return states

    @torch.no_grad()
    def outputs(
        self,
        rows: Sequence[TokenRow] | Sequence[Ids],
        split: Callable[[Any, Layout], Sequence[Tensor]],
        tape: NullTape = NULL_TAPE,
    ) -> list[Tensor]:
        """A tensor for each row; ``split`` takes the outputs of a batch apart."""
        outputs: list[Tensor] = [torch.empty(0)] * len(rows)
        with tape.batches() as next_tape:
            for numbers, batch in self.batches(rows, tape):
                of_batch = split(self.model(batch, tape=next_tape()), batch.layout)
                for i, value in zip(numbers, of_batch, strict=True):
                    outputs[i] = value
        return outputs

    @torch.inference_mode()
    def row_logits(
        self, rows: Sequence[TokenRow] | Sequence[Ids], head: str, outputs: int
    ) -> Tensor:
        """(rows, outputs): the logits of a head that reads whole rows."""
        logits_NV = torch.zeros(len(rows), outputs, dtype=torch.float64)
        for chosen, batch in self.batches(rows):
            logits_NV[chosen] = finite(self.model(batch).by_head[head])
        return logits_NV

    @torch.inference_mode()
    def token_logits(self, rows: Sequence[TokenRow], head: str) -> list[Tensor]:
        """(tokens, outputs) for each row: the logits of a head that reads tokens."""
        logits: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, batch in self.batches(rows):
            logits_TV = finite(self.model(batch).by_head[head])
            for i, of_row in zip(chosen, batch.layout.split(logits_TV), strict=True):
                logits[i] = of_row
        return logits

    def _check_segments(self, rows: Sequence[TokenRow] | Sequence[Ids]) -> None:
        """A model with one segment cannot read pairs of texts."""
        model: Any = self.model
        if model.encoder.embed.segments != 1:
            return
        for number, row in enumerate(rows, start=1):  # where one input makes several, all are pairs
            if np.any(as_row(row).segments):
                raise BadItem(number, "the model reads one text at a time, not two")


class Predictor(BatchRunner):
    """A model that predicts: from inputs to typed results, with their lines and JSON records."""

    empty_record: ClassVar[dict[str, Any]]  # of an empty line: the same keys, and nothing
    max_length: int | None  # tokens of a row; longer texts are truncated, or read in several rows

    def predict(self, inputs: Sequence[Any]) -> list[Any]:
        """A result for each input, which does not depend on the others."""
        raise NotImplementedError

    def parse(self, line: str, where: str) -> Any:
        """The input in a line of a file."""
        raise NotImplementedError

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


def finite(logits: Tensor) -> Tensor:
    """Logits on the host in double precision; others than numbers are an error."""
    logits = logits.double().cpu()
    if not logits.isfinite().all():
        raise BadInput("the model is broken: its probabilities are not numbers")
    return logits


def rows_of(
    tokenizer: RowTokenizer, inputs: Sequence[TextOrPair], max_length: int | None
) -> list[TokenRow]:
    """A row of each text or pair of texts, truncated to ``max_length``."""
    texts = [_texts(given, number) for number, given in enumerate(listed(inputs), start=1)]
    ids = iter(tokenizer.words.encode_all([*chain(*texts)]))
    return [
        tokenizer.row(next(ids), next(ids) if len(given) == 2 else None, max_length)
        for given in texts
    ]


def _texts(given: Any, number: int) -> tuple[str, ...]:
    """One text or two."""
    pair = isinstance(given, tuple | list) and len(given) == 2
    if not isinstance(given, str) and not (pair and all(isinstance(text, str) for text in given)):
        raise BadItem(number, f"{shown(given)} is neither a text nor a pair of texts")
    texts = (given,) if isinstance(given, str) else given
    return tuple(check_text(text, number) for text in texts)


def row_length(row: TokenRow | Ids) -> int:
    """How many tokens it has."""
    return len(as_row(row).tokens)
