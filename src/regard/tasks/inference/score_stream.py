"""How probable texts are for recurrent models: a text of any length is read once, in parts.

The state is carried from part to part, so that every token is predicted from all before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.ground.batch import TokenRow
from regard.ground.errors import BadInput
from regard.ground.pytree import map_tensors, tensors_in
from regard.tasks.inference.score_text import Content, ScoredRow, TextScorer


@dataclass(frozen=True, eq=False)
class StreamScorer(TextScorer):
    """A recurrent language model that scores texts, ``window`` tokens at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stride is not None:
            raise BadInput("a stride is for models that read windows; this one carries its state")

    @property
    def signature(self) -> str:
        return "state:carried"

    def causal_rows(self, content: Content) -> Iterator[ScoredRow]:
        tokens = np.array([*self.before(content), *content.ids])
        for begin in range(0, len(tokens) - 1, self.window):
            part = tokens[begin : min(begin + self.window, len(tokens) - 1)]
            targets = tokens[begin + 1 : begin + 1 + len(part)]
            row = TokenRow(part, np.zeros_like(part))
            yield ScoredRow(row, np.arange(len(part)), targets)

    @torch.inference_mode()
    def scored(self, contents: Sequence[Content]) -> Iterator[tuple[int, ScoredRow, Tensor]]:
        """First parts of all texts, then second parts of those that have any, and so on."""
        parts = {number: self.causal_rows(content) for number, content in enumerate(contents)}
        states: dict[int, Any] = {}
        while live := {number: row for number, rows in parts.items() if (row := next(rows, None))}:
            numbers, rows = list(live), list(live.values())
            for chosen, batch in self.batches([row.row for row in rows]):
                own = [numbers[i] for i in chosen]
                new = self.model.trunk.new_state(1)
                state = _join([states.get(number, new) for number in own])
                encoded = self.model.encode(batch, state=state)
                scores = self.of_encoded(encoded, batch, [rows[i] for i in chosen])
                states |= zip(own, _split(encoded.state, len(own)), strict=True)
                yield from zip(own, [rows[i] for i in chosen], scores, strict=True)


def _join(states: Sequence[Any]) -> Any:
    """The states of several rows as one."""
    parts = iter(zip(*map(tensors_in, states), strict=True))
    return map_tensors(lambda _: torch.cat(next(parts)), states[0])


def _split(state: Any, rows: int) -> list[Any]:
    """The state of each row."""
    return [map_tensors(lambda x, i=i: x[i : i + 1], state) for i in range(rows)]  # type: ignore[misc]
