"""One vector for each text: its states pooled, perhaps scaled to length 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.batch import TokenRow
from regard.ground.errors import BadInput
from regard.ground.layout import Layout
from regard.inference.batch_runner import BatchRunner, TextOrPair, row_length, rows_of
from regard.parts.attention import EncoderOutput
from regard.text.tokenizers.ids_only import require_tokenizer
from regard.text.tokenizers.row_tokenizer import RowTokenizer

POOLS = ("mean", "max", "first", "pooled")


@dataclass(frozen=True, eq=False)
class Embedder(BatchRunner):
    """An encoder, and how its states become one: their mean or maximum, or the "first" of them.

    That is the state of the summary token, wherever it stands. "pooled" is the output of the pool
    that the model was trained with. ``lower`` reads texts in lower case.
    """

    model: Any
    tokenizer: RowTokenizer | None
    width: int
    batch_size: int = 256
    max_length: int | None = None
    pool: str = "mean"
    normalise: bool = False
    lower: bool = False
    summary: str | None = None  # where the summary token stands; None: rows have none

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise BadInput(f"pool is {', '.join(POOLS[:-1])} or {POOLS[-1]}, not {self.pool!r}")
        if self.pool == "pooled" and self.model.pool is None:
            raise BadInput("pool 'pooled': this model has no layer for it")

    @property
    def inner(self) -> slice:
        """The tokens of a row that count."""
        return slice(None) if self.tokenizer is None else self.tokenizer.inner

    def rows_of(self, texts: Sequence[TextOrPair]) -> list[TokenRow]:
        """How texts are read."""
        tokenizer = require_tokenizer(self.tokenizer)
        if self.lower:
            texts = [
                one.lower() if isinstance(one, str) else (one[0].lower(), one[1].lower())
                for one in texts
            ]
        return rows_of(tokenizer, texts, self.max_length)

    @torch.no_grad()
    def vectors(self, rows: Sequence[Any]) -> Tensor:
        """(rows, width) in float32, where the model is; zeros for a row without tokens."""
        vectors_ND = torch.zeros(len(rows), self.width, device=self.device)
        lengths = (len(range(row_length(row))[self.inner]) for row in rows)
        numbers = [number for number, length in enumerate(lengths) if length]
        for chosen, read in self.batches([rows[number] for number in numbers]):
            pooled_BD = self._pooled(self.model.encode(read))
            vectors_ND[[numbers[i] for i in chosen]] = pooled_BD.float()
        if numbers and not vectors_ND.isfinite().all():
            raise BadInput("the model is broken: its states are not numbers")
        return nn.functional.normalize(vectors_ND, dim=-1) if self.normalise else vectors_ND

    def _inner(self, encoded: EncoderOutput) -> tuple[Tensor, Layout]:
        """The states of the inner tokens."""
        if self.inner == slice(None):
            return encoded.states_TD, encoded.layout
        rows = [row[self.inner] for row in encoded.layout.split(encoded.states_TD)]
        return torch.cat(rows), Layout.ragged([*map(len, rows)], self.device)

    def _pooled(self, encoded: EncoderOutput) -> Tensor:
        states_TD, layout = self._inner(encoded)
        match self.pool:
            case "pooled":
                pooled_BD = self.model.pooled(encoded)
                assert pooled_BD is not None
                return pooled_BD
            case "first":
                last = self.summary == "last"
                return states_TD[(layout.offsets[1:] - 1 if last else layout.offsets[:-1]).long()]
            case "max":
                padded_BLD = layout.pad(states_TD)
                return padded_BLD.masked_fill(~layout.real_BL[:, :, None], -torch.inf).amax(1)
            case _:
                return layout.pad(states_TD.float()).sum(1) / layout.lengths_B[:, None]
