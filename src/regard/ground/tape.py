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
