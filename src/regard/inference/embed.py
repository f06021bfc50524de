"""The component "embed": one vector for each input, its pooled states."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import BatchLimits, Ids, TokenRow
from regard.ground.errors import BadInput
from regard.ground.pytree import move_tensor
from regard.ground.tape import NULL_TAPE, NullTape
from regard.inference.batch_runner import ModelRow, RowComponent, TextOrPair, row_length
from regard.inference.component import TOKENS, TOKENS_ON_GPU, Result, Row, results_of
from regard.models.row_pooling import ROW_POOLS, RowPooling
from regard.parts.attention import EncoderOutput

POOLS = (*ROW_POOLS, "pooled")

EncoderInput = TextOrPair | TokenRow | Ids | Sequence[str]
EmbedRow = Row[EncoderInput, ModelRow]


class Reader(Protocol):
    """Interface of a model that an embedder needs."""

    @property
    def model(self) -> Any: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def truncation(self) -> int | None: ...
    @property
    def position_limit(self) -> int | None: ...
    def parse(self, line: str, where: str) -> object: ...
    def token_count(self, given: Any, most: int) -> int: ...


@dataclass(frozen=True, eq=False)
class Embedder(RowComponent[EncoderInput, ModelRow, np.ndarray]):
    """Component "embed": an encoder with a ``pool`` over the states of a row.

    "mean" and "max" read all states; "first" is the state of the summary token, even if it is last;
    "pooled" is the output of the pool that the model was trained with. ``read`` makes rows of
    inputs, of which only ``inner`` tokens are pooled. With ``normalise``, vectors have length 1.
    """

    name = "embed"
    runner: Reader
    read: Callable[[Sequence[EncoderInput]], Sequence[ModelRow]]
    width: int
    pool: str = "mean"
    normalise: bool = False
    summary: str | None = None  # "first" or "last" token of a row; None: no summary token
    inner: slice = field(default_factory=lambda: slice(None))
    longest: int | None = None  # tokens to which ``read`` cuts a text

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise BadInput(f"pool is {', '.join(POOLS[:-1])} or {POOLS[-1]}, not {self.pool!r}")
        if self.pool == "pooled" and self.model.pool is None:
            raise BadInput("pool 'pooled': this model has no pool; use mean, max or first")

    @property
    def model(self) -> Any:
        return self.runner.model

    @property
    def batch_size(self) -> int:
        return self.runner.batch_size

    @property
    def limits(self) -> BatchLimits:
        tokens = TOKENS if self.device.type == "cpu" else TOKENS_ON_GPU
        return BatchLimits(tokens, self.batch_size, tokens)

    @property
    def own_limit(self) -> int | None:
        return self.longest or self.runner.truncation or self.runner.position_limit

    def parse(self, line: str, where: str) -> EncoderInput:
        return cast(EncoderInput, self.runner.parse(line, where))

    def token_count(self, given: EncoderInput, most: int) -> int:
        return self.runner.token_count(given, most)

    def rows(self, inputs: Sequence[EncoderInput], keys: Sequence[int]) -> list[EmbedRow]:
        read = zip(keys, inputs, self.read_files(self.read(inputs)), strict=True)
        return [
            Row(key, given, row, row_length(row), cut=self._is_cut(given, row_length(row)))
            for key, given, row in read
        ]

    def _is_cut(self, given: EncoderInput, length: int) -> bool:
        most = self.longest
        is_text = isinstance(given, str) or (isinstance(given, tuple) and len(given) == 2)
        if most is None or length < most or not is_text:
            return False
        return self.token_count(given, most) > most

    def values(self, rows: Sequence[EmbedRow], tape: NullTape = NULL_TAPE) -> list[np.ndarray]:
        """Vectors in float32; zeros for a row without tokens."""
        return _on_host(self._pooled_rows(rows, tape))

    def run_batches(
        self, batches: list[list[EmbedRow]], tape: NullTape = NULL_TAPE
    ) -> Iterator[list[Result[np.ndarray]]]:
        vectors = [self._pooled_rows(rows, tape) for rows in batches]  # without waiting for a GPU
        for rows, vectors_ND in zip(batches, vectors, strict=True):
            yield results_of(rows, _on_host(vectors_ND))

    @torch.no_grad()
    def _pooled_rows(self, rows: Sequence[EmbedRow], tape: NullTape) -> Tensor:
        vectors_ND = torch.zeros(len(rows), self.width, device=self.device)
        lengths = (len(range(row.cost)[self.inner]) for row in rows)
        numbers = [number for number, length in enumerate(lengths) if length]
        for chosen, read in self.batches([rows[number].data for number in numbers], tape):
            record = tape.next_batch()
            pooled_BD = self._pooled(self.model.encode(read, tape=record), record)
            places_B = torch.tensor([numbers[i] for i in chosen])
            vectors_ND[move_tensor(places_B, self.device)] = pooled_BD.float()
        return nn.functional.normalize(vectors_ND, dim=-1) if self.normalise else vectors_ND

    def vectors(self, inputs: Sequence[EncoderInput], tape: NullTape = NULL_TAPE) -> Tensor:
        """Vectors (inputs, width) in float32, on the device of the model."""
        vectors = self.predict(inputs, tape=tape)
        stacked_ND = np.stack(vectors) if vectors else np.zeros((0, self.width), np.float32)
        return torch.from_numpy(stacked_ND).to(self.device)

    def lines(self, result: Result[np.ndarray]) -> list[str]:
        return [" ".join(f"{number:.8g}" for number in result.value)]

    def records(self, result: Result[np.ndarray]) -> list[dict[str, object]]:
        return [{"vector": result.value.tolist()}]

    @property
    def columns(self) -> tuple[str, ...]:
        return ("vector",)

    def cells(self, result: Result[np.ndarray]) -> list[dict[str, object]]:
        return [{"vector": [float(f"{number:.8g}") for number in result.value]}]

    def arrays(self, result: Result[np.ndarray]) -> dict[str, np.ndarray]:
        return {"vector": result.value}

    def _pooled(self, encoded: EncoderOutput, tape: NullTape) -> Tensor:
        if self.pool not in ROW_POOLS:
            return cast(Tensor, self.model.pooled(encoded, tape=tape))
        return RowPooling(self.pool, self.summary, self.inner)(encoded)


def _on_host(vectors_ND: Tensor) -> list[np.ndarray]:
    vectors = vectors_ND.cpu().numpy()
    if not np.isfinite(vectors).all():
        raise BadInput("the model is broken: its states are NaN or infinite")
    return [*vectors]
