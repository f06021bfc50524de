"""Requests that were answered, kept for a while, so that they can be run again and inspected."""

import time
from collections import OrderedDict
from dataclasses import dataclass, field

from regard.inside.edits import EditList
from regard.serving.served_model import ModelInput, Options


@dataclass(frozen=True)
class Replay:
    """An answered request: all that its answer depends on, and its ``results`` as JSON."""

    model: str
    model_hash: str
    component: str
    inputs: tuple[ModelInput, ...]
    options: Options
    edits: EditList | None
    results: bytes
    size: int  # bytes of the request and of its answer
    at: float = field(default_factory=time.monotonic)


class Replays:
    """Requests by their ids, bounded by bytes and seconds; the oldest are dropped first."""

    def __init__(self, most_bytes: int, seconds: float):
        self.most_bytes, self.seconds, self.bytes = most_bytes, seconds, 0
        self.by_id: OrderedDict[str, Replay] = OrderedDict()

    def add(self, id_: str, replay: Replay) -> None:
        """Keep a request, unless it alone is too large."""
        self._drop(id_)
        if replay.size > self.most_bytes:
            return
        self.by_id[id_] = replay
        self.bytes += replay.size
        while self.bytes > self.most_bytes:
            self._drop(next(iter(self.by_id)))
        self._drop_old()

    def get(self, id_: str) -> Replay | None:
        """The request of an id; None: there is none, or no longer."""
        self._drop_old()
        return self.by_id.get(id_)

    def _drop_old(self) -> None:
        oldest = time.monotonic() - self.seconds
        while self.by_id and next(iter(self.by_id.values())).at < oldest:
            self._drop(next(iter(self.by_id)))

    def _drop(self, id_: str) -> None:
        if (replay := self.by_id.pop(id_, None)) is not None:
            self.bytes -= replay.size
