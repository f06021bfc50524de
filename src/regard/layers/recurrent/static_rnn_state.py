"""State of a recurrent decoder in fixed buffers, for decoding steps captured as CUDA graphs.

Every row has the keys and values of its source. When a beam reorders the rows of a sentence, only
states are moved.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.layers.kv_cache import DecoderState, KeyValues, PromptRNNState, RNNState


class StaticRNNState:
    """Fixed state: ``copies`` rows for each of ``sentences``.

    A source has at most ``source_longest`` tokens (0: no source).
    """

    reads_fixed_prompts = False  # only the host can sort ragged rows by length

    def __init__(
        self, sentences: int, copies: int, capacity: int, source_longest: int, device: torch.device
    ):
        self.sentences, self.copies, self.capacity = sentences, copies, capacity
        self.rows = sentences * copies
        self.sentence_R = torch.arange(self.rows, device=device) // copies
        self.positions_R = torch.zeros(self.rows, dtype=torch.long, device=device)
        self.queries = replace(
            Layout.rectangle(self.rows, 1, device), positions_T=self.positions_R, start=None
        )
        lengths_R = torch.ones(self.rows, dtype=torch.int32, device=device)
        self.keys = Layout.rectangle(
            self.rows, source_longest, device, lengths_B=lengths_R, padded=True
        )
        self.of_source: list[Tensor] = []
        self._current: Any = None

    @property
    def current(self) -> Any:
        """State of all rows, in the buffers."""
        return self._current

    @current.setter
    def current(self, state: DecoderState) -> None:
        self._write(state)

    @property
    def source(self) -> KeyValues:
        """Keys and values of the source, in a layout without cached properties."""
        k, v = self.of_source
        return k, v, replace(self.keys)

    def start(self, state: DecoderState) -> None:
        """Start without tokens, in the initial ``state`` of each sentence."""
        self.positions_R.zero_()
        self.write_sentences(state)

    def start_after(self, lengths_B: Tensor) -> None:
        """Start after prompts of these lengths, which have been read."""
        self.positions_R.zero_()
        self.positions_R[: len(lengths_B) * self.copies] = lengths_B.repeat_interleave(self.copies)

    def write_sentences(self, state: DecoderState) -> None:
        """Write the ``state`` of the first sentences into all of their rows."""
        sentences = len(state.tensors[0])
        state = state.rows(self.sentence_R[: sentences * self.copies])
        if self._current is None:
            self._current = state
        self._write(state)

    def for_prompts(self, rows: int) -> PromptRNNState:
        """Cache for reading prompts; the state after them is written here."""
        return PromptRNNState(rows, self.write_sentences)

    def write_source(self, k_THK: Tensor, v_THK: Tensor, layout: Layout) -> None:
        """Write the keys and values of a source, which has one row per sentence."""
        rows = [layout.pad(new)[self.sentence_R] for new in (k_THK, v_THK)]
        if not self.of_source:
            self.of_source = rows
        for buffer, new in zip(self.of_source, rows, strict=True):
            buffer.copy_(new)
        self.keys.lengths_B.copy_(layout.lengths_B[self.sentence_R])

    def under(self, number: int) -> "StaticRNNState":
        """Cache of one layer: only one layer attends."""
        return self

    def advance(self, layout: Layout) -> None:
        """Count one more token in every row."""
        self.positions_R.add_(1).clamp_(max=self.capacity - 1)
        self.forget()

    def forget(self) -> None:
        """Drop cached properties of layouts, whose positions have changed."""
        self.queries = replace(self.queries)

    def select_rows(self, index_R: Tensor) -> None:
        """Copy the state of row ``index_R[i]`` to row i, of the same sentence."""
        self._write(self._current.rows(index_R))

    def _write(self, state: DecoderState) -> None:
        """Write a state into the first rows of the buffers."""
        for buffer, new in zip(self._current.tensors, state.tensors, strict=True):
            buffer[: len(new)].copy_(new)


class StatefulDecoder(nn.Module):
    """Base class of decoders whose cache is a recurrent state, not keys and values."""

    def new_cache(self, rows: int, capacity: int) -> RNNState:
        """Cache for the state between two steps."""
        return RNNState(rows, capacity)

    def new_static_cache(
        self, sentences: int, copies: int, capacity: int, source_longest: int, device: torch.device
    ) -> StaticRNNState:
        """Cache in fixed buffers, for captured steps."""
        return StaticRNNState(sentences, copies, capacity, source_longest, device)
