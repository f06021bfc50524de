"""Requests that were answered, kept for a while, so that they can be run again and inspected."""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from regard.models.edits import EditList
from regard.serving.served_model import ModelInput, Options

OwnedID = tuple[bytes, str]  # the digest of a client's key, and the id of its request
OVERHEAD = 512  # bytes of a run without inputs, about


@dataclass(frozen=True)
class ReplayRun:
    """A run of a model: all that its results depend on, and their digest.

    ``errors`` has the reason why an input could not be read, by its index; the input is None.
    """

    model: str
    model_hash: str
    component: str
    inputs: tuple[ModelInput, ...]
    options: Options
    edits: EditList | None
    errors: Mapping[int, str]
    digest: bytes

    @property
    def size(self) -> int:
        """Bytes of its inputs, about."""
        return sum(map(_bytes, self.inputs)) + sum(map(len, self.errors.values())) + OVERHEAD


def _bytes(item: ModelInput) -> int:
    if item is None:
        return 0
    if isinstance(item, np.ndarray):
        return item.nbytes
    if isinstance(item, str):
        return len(item.encode(errors="replace"))
    return sum(len(each) if isinstance(each, str | list | tuple) else 1 for each in item) * 8


@dataclass(frozen=True)
class Replay:
    """An answered request: the runs of models that answered it."""

    runs: tuple[ReplayRun, ...]
    size: int  # in bytes
    at: float = field(default_factory=time.monotonic)


class Replays:
    """Requests by owner and id, bounded by bytes and seconds; the oldest are dropped first."""

    def __init__(self, most_bytes: int, seconds: float):
        self.most_bytes, self.seconds, self.bytes = most_bytes, seconds, 0
        self.by_id: OrderedDict[OwnedID, Replay] = OrderedDict()

    def add(self, id_: OwnedID, replay: Replay) -> None:
        """Keep a request, unless it alone is too large."""
        self._drop(id_)
        if replay.size > self.most_bytes:
            return
        self.by_id[id_] = replay
        self.bytes += replay.size
        while self.bytes > self.most_bytes:
            self._drop(next(iter(self.by_id)))
        self._drop_old()

    def get(self, id_: OwnedID) -> Replay | None:
        """The request of an id; None: there is none, or no longer."""
        self._drop_old()
        return self.by_id.get(id_)

    def _drop_old(self) -> None:
        oldest = time.monotonic() - self.seconds
        while self.by_id and next(iter(self.by_id.values())).at < oldest:
            self._drop(next(iter(self.by_id)))

    def _drop(self, id_: OwnedID) -> None:
        if (replay := self.by_id.pop(id_, None)) is not None:
            self.bytes -= replay.size
