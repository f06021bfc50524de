"""Rooms: a decoder's step on fixed buffers, captured once on CUDA and replayed batch after batch.

Decoding is bound by the time it takes to launch many small kernels. In a room every shape is
fixed, what is chosen is chosen on the device, and a whole turn (decode, choose, reorder) is one
graph: the host only says "again", and looks now and then whether all is over. Reading the source
is another.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.ground.layout import Layout
from regard.parts.static_kv_cache import StaticKVCache

KEPT = 16  # rooms a house keeps; the one used longest ago goes
PLAIN_CALLS = 2  # before a call is captured: libraries set themselves up


class Chooser(Protocol):
    """What decides, on the device and with fixed shapes, how rows go on."""

    def choose(self, logits_RV: Tensor) -> tuple[Tensor, Tensor]:
        """The next token of each row, and the row each continues."""


class Replayed:
    """Work on fixed tensors: plainly at first, then as one CUDA graph."""

    def __init__(self, work: Callable[[], None], device: torch.device):
        self.work, self.on_cuda = work, device.type == "cuda"
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.graph is None and self.on_cuda and self.calls > PLAIN_CALLS:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.work()
        if self.graph is None:
            self.work()
        else:
            self.graph.replay()


class Room:
    """Buffers for ``sentences`` × ``copies`` rows, with a chooser of its own."""

    def __init__(
        self,
        model: Any,
        chooser: Any,
        sentences: int,
        copies: int,
        capacity: int,
        places: int,
        device: torch.device,
    ):
        self.model, self.chooser = model, chooser
        self.cache = StaticKVCache(sentences, copies, capacity, places, device)
        self.source_BS = torch.zeros(sentences, places, dtype=torch.long, device=device)
        self.lengths_B = torch.ones(sentences, dtype=torch.int32, device=device)
        self.tokens_R = torch.zeros(self.cache.rows, dtype=torch.long, device=device)
        self.turn = Replayed(self._turn, device)
        self.read = Replayed(self._read, device)

    def enter(self, tokens_T: Tensor, layout: Layout) -> None:
        """A new batch of sentences; places they leave free are rows of one token."""
        self.source_BS[: layout.rows, : layout.longest] = layout.pad(tokens_T)
        self.lengths_B.fill_(1)
        self.lengths_B[: layout.rows] = layout.lengths_B
        self.read()

    def begin(self, first_B: Tensor) -> None:
        """The token each sentence begins with."""
        first_R = first_B.to(self.tokens_R.device).repeat_interleave(self.cache.copies)
        self.tokens_R[: len(first_R)] = first_R

    def _read(self) -> None:
        rows, places = self.source_BS.shape
        device = self.source_BS.device
        layout = Layout.rectangle(rows, places, device, lengths_B=self.lengths_B)
        source = self.model.encode(self.source_BS.flatten(), layout)
        kept = (block.cross.source_key_values(source, None) for block in self.model.target.blocks)
        self.cache.load_source(((k, v) for k, v, _ in kept), self.lengths_B)

    def _turn(self) -> None:
        cache = self.cache
        logits_RV = self.model.decode(self.tokens_R, cache.queries, None, cache=cache)
        tokens_R, index_R = self.chooser.choose(logits_RV)
        self.tokens_R.copy_(tokens_R)
        cache.pick(index_R)


class House:
    """Rooms by what they are for; the module and its precision are part of every key.

    Weights moved or replaced in place after a capture are not noticed.
    """

    def __init__(self) -> None:
        self.rooms: OrderedDict[Hashable, Room] = OrderedDict()

    def room(self, key: Hashable, build: Callable[[], Room]) -> Room:
        """The room with this key, built if there is none."""
        if key not in self.rooms:
            if len(self.rooms) >= KEPT:
                self.rooms.popitem(last=False)
            self.rooms[key] = build()
        self.rooms.move_to_end(key)
        return self.rooms[key]


def at_least(number: int, least: int) -> int:
    """The first of ``least``, twice, four times ``least``, … that is not below ``number``."""
    while least < number:
        least *= 2
    return least
