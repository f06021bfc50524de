"""Rows through an encoder: like lengths are put together, and what is said comes back in order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.packing import in_order
from regard.ground.batch import Budget, Ids, Packed, Row, pack_texts
from regard.ground.errors import BadInput
from regard.models.encoder import Encoder
from regard.models.facts import EncoderFacts
from regard.parts.position import Learned
from regard.text.encoder import EncoderText

TOKENS = 8_192  # read at once
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
        coming = iter(asked)
        while window := list(islice(coming, WINDOW)):
            yield from self.predict(window)

    def batches(self, rows: Sequence[Row] | Sequence[Ids]) -> Iterator[tuple[list[int], Packed]]:
        """Rows by their numbers, as many at once as fit."""
        self._check_segments(rows)
        lengths = np.array([_length(row) for row in rows], dtype=np.int64)
        for chosen in in_order(lengths, Budget(TOKENS, self.rows, TOKENS)):
            yield chosen, pack_texts([rows[i] for i in chosen]).to(self.device)

    def _check_segments(self, rows: Sequence[Row] | Sequence[Ids]) -> None:
        """A model that knows one text at a time cannot read two."""
        knows_one = isinstance(self.model, Encoder) and self.model.segments == 1
        if knows_one and any(np.any(row.segments) for row in rows if isinstance(row, Row)):
            raise BadInput("this model reads one text at a time, not two")

    @torch.inference_mode()
    def of_rows(self, rows: Sequence[Row] | Sequence[Ids], outputs: int) -> Tensor:
        """What the model says of each row as a whole."""
        logits_NV = torch.zeros(len(rows), outputs, dtype=torch.float64)
        for chosen, read in self.batches(rows):
            logits_NV[chosen] = numbers(self.model(read.tokens_T, read.layout))
        return logits_NV

    @torch.inference_mode()
    def of_tokens(self, rows: Sequence[Row]) -> list[Tensor]:
        """What the model says of each token of each row, (tokens, outputs)."""
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, read in self.batches(rows):
            logits_TV = numbers(self.model(read.tokens_T, read.layout))
            for i, of_row in zip(chosen, read.layout.split(logits_TV), strict=True):
                found[i] = of_row
        return found


def numbers(said: Tensor) -> Tensor:
    """What a model said, on the host and in double precision; it must be numbers."""
    said = said.double().cpu()
    if not said.isfinite().all():
        raise BadInput("the model is broken: its probabilities are not numbers")
    return said


def rows_of(text: EncoderText, asked: Sequence[Asked], longest: int | None) -> list[Row]:
    """A row of each text or pair of texts, cut to ``longest``."""
    texts = [_texts(one, number) for number, one in enumerate(asked, start=1)]
    ids = iter(text.words.encode_all([*chain(*texts)]))
    return [text.row(next(ids), next(ids) if len(one) == 2 else None, longest) for one in texts]


def _texts(one: Any, number: int) -> tuple[str, ...]:
    """One text or two."""
    if isinstance(one, str):
        return (one,)
    pair = isinstance(one, tuple | list) and len(one) == 2
    if not pair or not all(isinstance(text, str) for text in one):
        raise BadInput(f"input {number}: {one!r} is neither a text nor a pair of texts")
    return tuple(one)


def longest_row(facts: EncoderFacts, text: EncoderText) -> int | None:
    """The most tokens a row may have, if anything limits them."""
    position = facts.embed.position
    known = [text.longest, position.longest if isinstance(position, Learned) else None]
    return min((one for one in known if one is not None), default=None)


def _length(row: Row | Ids) -> int:
    return len(row.tokens if isinstance(row, Row) else row)
