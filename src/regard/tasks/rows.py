"""Rows through an encoder: like lengths are put together, and what is said comes back in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.packing import inference_batches
from regard.ground.batch import BatchLimits, Ids, PackedTokens, TokenRow, pack_texts
from regard.ground.errors import BadInput, BadItem, shown
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.models.facts import TrunkWithHeads
from regard.tasks.inputs import check_text, listed
from regard.text.encoder_tokenizer import EncoderTokenizer

TOKENS = 8_192  # read at once
RECORDED = BatchLimits(2_048, 32, 2_048)  # with a tape, which may keep attention weights
WINDOW = 4_096  # texts read ahead, so that like lengths can be put together

Asked = str | tuple[str, str]  # one text or two


class Runner:
    """What all have in common that run a model over many inputs."""

    model: nn.Module
    rows: int

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def predict(self, asked: Sequence[Any]) -> list[Any]:
        """What is said of each input, which does not depend on the others."""
        raise NotImplementedError

    def stream(self, asked: Iterable[Any]) -> Iterator[Any]:
        """The same as inputs come, window by window."""
        coming, before = iter(asked), 0
        while window := list(islice(coming, WINDOW)):
            try:
                yield from self.predict(window)
            except BadItem as bad:
                raise BadItem(before + bad.number, bad.reason) from None
            before += len(window)

    def batches(
        self, rows: Sequence[TokenRow] | Sequence[Ids], tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Rows by their numbers, as many at once as fit; for a live ``tape`` in the order given."""
        self._check_segments(rows)
        lengths = np.array([_length(row) for row in rows], dtype=np.int64)
        limits = RECORDED if tape.live else BatchLimits(TOKENS, self.rows, TOKENS)
        for chosen in inference_batches(lengths, limits, sort=not tape.live):
            yield chosen, pack_texts([rows[i] for i in chosen]).to(self.device)

    @torch.no_grad()
    def states(self, rows: Sequence[TokenRow] | Sequence[Ids], name: str) -> list[Tensor]:
        """(tokens, width) for each row: the value that the tape calls ``name``."""
        model: Any = self.model
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, read in self.batches(rows):
            tape = Tape(name)
            model.encode(read, tape=tape)
            for i, one in zip(chosen, read.layout.split(tape.kept[name]), strict=True):
                found[i] = one
        return found

    @torch.no_grad()
    def outputs(
        self,
        rows: Sequence[TokenRow] | Sequence[Ids],
        split: Callable[[Any, Layout], Sequence[Tensor]],
        tape: NullTape = NULL_TAPE,
    ) -> list[Tensor]:
        """What the model says of each row; ``split`` takes what it says of a batch apart."""
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        with tape.batches() as next_tape:
            for chosen, read in self.batches(rows, tape):
                said = self.model(read, tape=next_tape())
                for i, one in zip(chosen, split(said, read.layout), strict=True):
                    found[i] = one
        return found

    def _check_segments(self, rows: Sequence[TokenRow] | Sequence[Ids]) -> None:
        """A model that knows one text at a time cannot read two."""
        model: Any = self.model
        if model.encoder.embed.segments != 1:
            return
        for number, row in enumerate(rows, start=1):  # where one input makes several, all are pairs
            if isinstance(row, TokenRow) and np.any(row.segments):
                raise BadItem(number, "the model reads one text at a time, not two")

    @torch.inference_mode()
    def of_rows(self, rows: Sequence[TokenRow] | Sequence[Ids], head: str, outputs: int) -> Tensor:
        """The logits of a head for each row as a whole."""
        logits_NV = torch.zeros(len(rows), outputs, dtype=torch.float64)
        for chosen, read in self.batches(rows):
            logits_NV[chosen] = numbers(self.model(read).by_head[head])
        return logits_NV

    @torch.inference_mode()
    def of_tokens(self, rows: Sequence[TokenRow], head: str) -> list[Tensor]:
        """The logits of a head for each token of each row, (tokens, outputs)."""
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, read in self.batches(rows):
            logits_TV = numbers(self.model(read).by_head[head])
            for i, of_row in zip(chosen, read.layout.split(logits_TV), strict=True):
                found[i] = of_row
        return found


@dataclass(frozen=True, eq=False)
class RowReader(Runner):
    """Any model that reads rows of ids, and how many rows it takes at once."""

    model: nn.Module
    rows: int = 256


def numbers(said: Tensor) -> Tensor:
    """What a model said, on the host and in double precision; it must be numbers."""
    said = said.double().cpu()
    if not said.isfinite().all():
        raise BadInput("the model is broken: its probabilities are not numbers")
    return said


def rows_of(text: EncoderTokenizer, asked: Sequence[Asked], longest: int | None) -> list[TokenRow]:
    """A row of each text or pair of texts, cut to ``longest``."""
    texts = [_texts(one, number) for number, one in enumerate(listed(asked), start=1)]
    ids = iter(text.words.encode_all([*chain(*texts)]))
    return [text.row(next(ids), next(ids) if len(one) == 2 else None, longest) for one in texts]


def _texts(one: Any, number: int) -> tuple[str, ...]:
    """One text or two."""
    pair = isinstance(one, tuple | list) and len(one) == 2
    if not isinstance(one, str) and not (pair and all(isinstance(text, str) for text in one)):
        raise BadItem(number, f"{shown(one)} is neither a text nor a pair of texts")
    return tuple(check_text(text, number) for text in ((one,) if isinstance(one, str) else one))


def longest_row(facts: TrunkWithHeads, text: EncoderTokenizer) -> int | None:
    """The most tokens a row may have, if anything limits them."""
    known = [text.longest, facts.trunk.embed.limit]
    return min((one for one in known if one is not None), default=None)


def _length(row: TokenRow | Ids) -> int:
    return len(row.tokens if isinstance(row, TokenRow) else row)
