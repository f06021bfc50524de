"""The component "embed": one vector for each input, its pooled states."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import BatchLimits, Ids, TokenRow
from regard.core.errors import BadInput, shown
from regard.core.pytree import move_tensor
from regard.core.tape import NULL_TAPE, NullTape
from regard.inference.component import TOKENS, TOKENS_ON_GPU, Result, Row, results_of
from regard.inference.model_runner import ModelRunner
from regard.inference.predictor import RowComponent
from regard.inference.row_batches import (
    ModelRow,
    TextOrPair,
    check_finite,
    read_files,
    row_batches,
    row_length,
)
from regard.layers.attention import EncoderOutput
from regard.models.row_pooling import ROW_POOLS, RowPooling

POOLS = (*ROW_POOLS, "pooled")

EncoderInput = TextOrPair | TokenRow | Ids | Sequence[str]
EmbedRow = Row[EncoderInput, ModelRow]


@dataclass(frozen=True)
class Prompt:
    """A text that is put before every text; with a ``name``, it was asked for."""

    text: str = ""
    name: str | None = None

    @classmethod
    def of(cls, notes: Mapping[str, object], name: str | None) -> Self:
        """The prompt of a name in the notes of a model; None: its default prompt, if any."""
        prompts = cast(Mapping[str, str], notes.get("prompts", {}))
        if name is None:
            default = cast(str | None, notes.get("prompt"))
            return cls() if default is None else cls(prompts[default])
        if name not in prompts:
            known = f"its prompts are {', '.join(prompts)}" if prompts else "it has no prompts"
            raise BadInput(f"prompt_name: this model has no prompt {shown(name)}; {known}")
        return cls(prompts[name], name)

    def before(self, given: EncoderInput) -> EncoderInput:
        """An input with the prompt; pairs and ids have none."""
        if isinstance(given, str):
            return self.text + given
        if self.text and self.name is not None:
            raise BadInput("prompt_name: a prompt is put before a text, not before a pair or ids")
        return given


@dataclass(frozen=True, eq=False)
class Embedder(RowComponent[EncoderInput, ModelRow, np.ndarray]):
    """Component "embed": an encoder with a ``pool`` over the states of a row.

    "mean" and "max" read all states; "first" is the state of the summary token, even if it is last;
    "pooled" is the output of the pool that the model was trained with. ``read`` makes rows of
    inputs with their ``prompt``, of which only ``inner`` tokens are pooled. With ``normalise``,
    vectors have length 1.
    """

    name = "embed"
    runner: ModelRunner
    read: Callable[[Sequence[EncoderInput]], Sequence[ModelRow]]
    width: int
    pool: str = "mean"
    normalise: bool = False
    summary: str | None = None  # "first" or "last" token of a row; None: no summary token
    inner: slice = field(default_factory=lambda: slice(None))
    longest: int | None = None  # tokens to which ``read`` cuts a text
    prompt: Prompt = field(default_factory=lambda: Prompt())

    def __post_init__(self) -> None:
        if self.pool not in POOLS:
            raise BadInput(f"pool is {', '.join(POOLS[:-1])} or {POOLS[-1]}, not {self.pool!r}")
        if self.pool == "pooled" and self.module.pool is None:
            raise BadInput("pool 'pooled': this model has no pool; use mean, max or first")

    @property
    def module(self) -> Any:
        return self.runner.module

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
        return self.runner.token_count(self.prompt.before(given), most)

    def rows(self, inputs: Sequence[EncoderInput], keys: Sequence[int]) -> list[EmbedRow]:
        inputs = [*map(self.prompt.before, inputs)]
        read = zip(keys, inputs, read_files(self.module, self.read(inputs)), strict=True)
        return [
            Row(key, given, row, row_length(row), cut=self._is_cut(given, row_length(row)))
            for key, given, row in read
        ]

    def _is_cut(self, given: EncoderInput, length: int) -> bool:
        most = self.longest
        is_text = isinstance(given, str) or (isinstance(given, tuple) and len(given) == 2)
        if most is None or length < most or not is_text:
            return False
        return self.runner.token_count(given, most) > most

    def values(self, rows: Sequence[EmbedRow], tape: NullTape = NULL_TAPE) -> list[np.ndarray]:
        """Vectors in float32; zeros for a row without tokens."""
        return self._on_host(self._pooled_rows(rows, tape))

    def run_batches(
        self, batches: list[list[EmbedRow]], tape: NullTape = NULL_TAPE
    ) -> Iterator[list[Result[np.ndarray]]]:
        vectors = [self._pooled_rows(rows, tape) for rows in batches]  # without waiting for a GPU
        for rows, vectors_ND in zip(batches, vectors, strict=True):
            yield results_of(rows, self._on_host(vectors_ND))

    @torch.no_grad()
    def _pooled_rows(self, rows: Sequence[EmbedRow], tape: NullTape) -> Tensor:
        vectors_ND = torch.zeros(len(rows), self.width, device=self.device)
        lengths = (len(range(row.cost)[self.inner]) for row in rows)
        numbers = [number for number, length in enumerate(lengths) if length]
        for chosen, read in row_batches(
            self.module, [rows[number].data for number in numbers], self.limits, tape
        ):
            record = tape.next_batch()
            pooled_BD = self._pooled(self.module.encode(read, tape=record), record)
            places_B = torch.tensor([numbers[i] for i in chosen])
            vectors_ND[move_tensor(places_B, self.device)] = pooled_BD.float()
        return nn.functional.normalize(vectors_ND, dim=-1) if self.normalise else vectors_ND

    def _on_host(self, vectors_ND: Tensor) -> list[np.ndarray]:
        return [*check_finite(self.module, vectors_ND.cpu()).numpy()]

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
            return cast(Tensor, self.module.pooled(encoded, tape=tape))
        return RowPooling(self.pool, self.summary, self.inner)(encoded)
