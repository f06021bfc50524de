"""One step after another: a decoder and its memory, as search knows them."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, Tape
from regard.models.room import House, Room, at_least
from regard.parts.attention import EncoderOutput
from regard.parts.kv_cache import KVCache, shared_rectangle
from regard.parts.position import position_limit

LEAST_SENTENCES, LEAST_PLACES, LEAST_CAPACITY = 8, 16, 64  # of a room; then twice as many


class Decoding:
    """A decoder with a source to read; ``watch`` keeps what its last layer looked at.

    With a ``house``, a search that can will run in one of its rooms.
    """

    def __init__(
        self,
        model: Any,
        tokens_T: Tensor,
        layout: Layout,
        cache: KVCache,
        *,
        watch: bool = False,
        house: House | None = None,
    ):
        self.model, self.tokens_T, self.layout = model, tokens_T, layout
        self.cache, self.house = cache, None if watch else house
        self._watched = model.watched if watch else None
        self._weights_RS: Tensor | None = None

    @cached_property
    def source(self) -> EncoderOutput:
        """The source as the decoder sees it, read when it is first looked at."""
        return self.model.encode(self.tokens_T, self.layout)

    @property
    def rows(self) -> int:
        """Rows alive."""
        return self.cache.rows

    @property
    def device(self) -> torch.device:
        """Where tokens and indices must lie."""
        return self.tokens_T.device

    def step(self, tokens_R: Tensor) -> Tensor:
        """Log-probabilities of the next token, after one more token in each row."""
        layout = shared_rectangle(self.rows, 1, str(tokens_R.device), start=self.cache.reach)
        tape = NULL_TAPE if self._watched is None else Tape(self._watched)
        logits_RV = self.model.decode(tokens_R, layout, self.source, cache=self.cache, tape=tape)
        if isinstance(tape, Tape):
            self._weights_RS = self._looked_at(tape)
        return torch.log_softmax(logits_RV.float(), dim=-1)

    def _looked_at(self, tape: Tape) -> Tensor:
        (weights_RHLS,) = tape.kept.values()
        kept = self.cache.layers[-1].source
        assert kept is not None
        *_, keys = kept
        looked_RS = weights_RHLS.mean(1)[:, 0].masked_fill(~keys.real_BL, torch.nan)
        gone = self.layout.longest - keys.longest  # rows that left may have been longer
        return F.pad(looked_RS, (0, gone), value=torch.nan)

    def pick(self, index_R: Tensor) -> None:
        """Keep, repeat, reorder or drop rows."""
        self.cache.pick(index_R)

    def attention(self) -> Tensor:
        """Where each row looked in the last step, the mean of the last layer's heads."""
        if self._weights_RS is None:
            raise ValueError("this state was opened without watching its attention")
        return self._weights_RS

    @property
    def rooms(self) -> bool:
        """Whether a whole search can run in a room."""
        return self.house is not None

    def room(self, copies: int, key: Hashable, chooser: Callable[..., Any]) -> Room:
        """The same source where turns are captured; ``copies`` rows for each sentence."""
        assert self.house is not None
        sentences = at_least(self.layout.rows, LEAST_SENTENCES)
        places = at_least(self.layout.longest, LEAST_PLACES)
        places = min(places, position_limit(self.model.source) or places)
        capacity = at_least(self.cache.capacity, LEAST_CAPACITY)

        def build() -> Room:
            sizes = (sentences, copies, capacity, places)
            chooses = chooser(sentences, capacity, self.device)
            return Room(self.model, chooses, *sizes, self.device)

        made_for = (self.model, next(self.model.parameters()).dtype)
        room = self.house.room((*made_for, key, sentences, copies, capacity, places), build)
        room.enter(self.tokens_T, self.layout)
        return room
