"""The tape: what a run records of, or changes in, the values it computes. Handed in, never stored.

Every named value passes through the tape it was given (``tape("weights", w)``); the stack adds the
path (``tape.under("blocks").under(3)``). A silent tape costs nothing and stays inside one compiled
graph; a live one makes only the layers it asks for leave their fused kernels.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from torch import Tensor

Edit = Callable[[str, Tensor], Tensor]


class Silent:
    """Records nothing, changes nothing."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def under(self, place: str | int) -> "Silent":
        """The tape as seen from a part of the model."""
        return self

    def wants(self, *names: str) -> bool:
        """Whether any of these values would be recorded or edited here."""
        return False


class Tape(Silent):
    """Keeps values whose full name matches a pattern, and applies edits to those that match theirs.

    ``Tape("*.cross.weights")`` records; ``Tape(edits={"source.blocks.3.*.weights": edit})``
    changes, where ``edit(name, value)`` is a pure function. Edits come first, so what is recorded
    is what the model used. Patterns are those of the shell (``*``, ``?``, ``[…]``).
    """

    def __init__(self, *keep: str, edits: Mapping[str, Edit] | None = None):
        self.keep = keep
        self.edits = dict(edits or {})
        self.kept: dict[str, Tensor] = {}
        self.path = ""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        full = self.path + name
        for pattern, edit in self.edits.items():
            if fnmatchcase(full, pattern):
                value = edit(full, value)
        if any(fnmatchcase(full, pattern) for pattern in self.keep):
            self.kept[full] = value
        return value

    def under(self, place: str | int) -> "Tape":
        inner = Tape(*self.keep, edits=self.edits)
        inner.kept, inner.path = self.kept, f"{self.path}{place}."
        return inner

    def wants(self, *names: str) -> bool:
        patterns = (*self.keep, *self.edits)
        return any(fnmatchcase(self.path + name, pattern) for name in names for pattern in patterns)


SILENT = Silent()


class Unrolled:
    """A tape for a loop over time: what it sees of a value is the whole, (B, H, L, S).

    ``at(t, rows_R)`` takes the value of one moment, (R, H, 1, S), of the rows still alive. An edit
    is given all moments so far, the others as zeros, and heard for this one: so it means what it
    means where all are computed at once.
    """

    def __init__(self, tape: Silent, rows: int, length: int):
        self.tape, self.rows, self.length = tape, rows, length
        self.whole: dict[str, Tensor] = {}

    def at(self, time: int, rows_R: Tensor) -> Silent:
        """The tape at one moment."""
        return _Moment(self, time, rows_R) if self.tape.wants("scores", "weights") else self.tape


class _Moment(Silent):
    def __init__(self, unrolled: Unrolled, time: int, rows_R: Tensor):
        self.unrolled, self.place = unrolled, (rows_R, slice(None), time)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        all_time = self.unrolled
        before = all_time.whole.get(name)
        if before is None:
            _, heads, _, keys = value.shape
            before = value.new_zeros(all_time.rows, heads, all_time.length, keys)
        whole = before.clone()
        whole[self.place] = value[:, :, 0]
        all_time.whole[name] = whole
        return all_time.tape(name, whole)[self.place][:, :, None]

    def wants(self, *names: str) -> bool:
        return self.unrolled.tape.wants(*names)


def without_head(head: int) -> Edit:
    """Switch one head off: its weights become zero. Edits values of shape (B, H, L, S)."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        weights_BHLS = weights_BHLS.clone()
        weights_BHLS[:, head] = 0
        return weights_BHLS

    return edit


def forced_row(head: int, query: int, key: int) -> Edit:
    """Make one query of one head look at one key only. Edits values of shape (B, H, L, S)."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        weights_BHLS = weights_BHLS.clone()
        weights_BHLS[:, head, query] = 0
        weights_BHLS[:, head, query, key] = 1
        return weights_BHLS

    return edit
