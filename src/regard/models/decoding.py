"""One step after another: a decoder and its memory, as search knows them."""

from typing import Any

import torch
import torch.nn.functional as F
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

    @property
    def device(self) -> torch.device:
        """Where tokens and indices must lie."""
        return self.source.states_TD.device

    def step(self, tokens_R: Tensor) -> Tensor:
        """Log-probabilities of the next token, after one more token in each row."""
        layout = Layout.rectangle(self.rows, 1, tokens_R.device, start=self.memory.reach)
        tape = SILENT if self._watched is None else Tape(self._watched)
        logits_RV = self.model.decode(tokens_R, layout, self.source, memory=self.memory, tape=tape)
        if isinstance(tape, Tape):
            self._weights_RS = self._looked_at(tape)
        return torch.log_softmax(logits_RV.float(), dim=-1)

    def _looked_at(self, tape: Tape) -> Tensor:
        (weights_RHLS,) = tape.kept.values()
        kept = self.memory.layers[-1].source
        assert kept is not None
        *_, keys = kept
        looked_RS = weights_RHLS.mean(1)[:, 0].masked_fill(~keys.real_BL, torch.nan)
        gone = self.source.layout.longest - keys.longest  # rows that left may have been longer
        return F.pad(looked_RS, (0, gone), value=torch.nan)

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows."""
        self.memory.pick(index_R)

    def attention(self) -> Tensor:
        """Where each row looked in the last step, the mean of the last layer's heads."""
        if self._weights_RS is None:
            raise ValueError("this state was opened without watching its attention")
        return self._weights_RS
