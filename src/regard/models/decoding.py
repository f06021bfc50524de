"""One step after another: a decoder and its memory, as search knows them."""

from typing import Any

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.ground.tape import SILENT, Tape
from regard.parts.attention import Source
from regard.parts.memory import Memory


class Decoding:
    """A decoder that has read a source; ``watch`` keeps what its last layer looked at."""

    def __init__(self, model: Any, source: Source, memory: Memory, watch: bool = False):
        self.model, self.source, self.memory = model, source, memory
        self._watched = f"target.blocks.{len(memory.layers) - 1}.cross.weights" if watch else None
        self._weights_RS: Tensor | None = None

    @property
    def rows(self) -> int:
        """Rows alive."""
        return self.memory.rows

    def step(self, tokens_R: Tensor) -> Tensor:
        """Log-probabilities of the next token, after one more token in each row."""
        layout = Layout.rectangle(self.rows, 1, tokens_R.device, start=self.memory.reach)
        tape = SILENT if self._watched is None else Tape(self._watched)
        logits_RV = self.model.decode(tokens_R, layout, self.source, memory=self.memory, tape=tape)
        if isinstance(tape, Tape):
            self._weights_RS = tape.kept[self._watched].mean(1)[:, 0]  # type: ignore[index]
        return torch.log_softmax(logits_RV.float(), dim=-1)

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows."""
        self.memory.pick(index_R)

    def attention(self) -> Tensor:
        """Where each row looked in the last step, the mean of the last layer's heads."""
        if self._weights_RS is None:
            raise ValueError("this state was opened without watching its attention")
        return self._weights_RS
