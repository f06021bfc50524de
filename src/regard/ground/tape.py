"""The tape: what a run records of, or changes in, the values it computes. Handed in, never stored.

Every named value passes through the tape it was given (``tape("weights", w)``); the stack adds the
path (``tape.under("blocks").under(3)``). A silent tape costs nothing and stays inside one compiled
graph; a live one makes only the layers it asks for leave their fused kernels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase

import torch.nn.functional as F
from torch import Tensor, cat

from regard.ground.checks import check_whole
from regard.ground.errors import BadInput, shown

Edit = Callable[[str, Tensor], Tensor]


class NullTape:
    """Records nothing, changes nothing."""

    live = False

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def under(self, place: str | int) -> "NullTape":
        """The tape as seen from a part of the model."""
        return self

    def wants(self, *names: str) -> bool:
        """Whether any of these values would be recorded or edited here."""
        return False

    @contextmanager
    def batches(self) -> Iterator[Callable[[], "NullTape"]]:
        """A run in several batches: what is given makes the tape of the next batch."""
        yield lambda: self


class Tape(NullTape):
    """Keeps values whose full name matches a pattern, and applies edits to those that match theirs.

    ``Tape("*.cross.weights")`` records; ``Tape(edits={"source.blocks.3.*.weights": edit})``
    changes, where ``edit(name, value)`` is a pure function. Edits come first, so what is recorded
    is what the model used. Patterns are those of the shell (``*``, ``?``, ``[…]``). ``seen`` are
    the names of all values that could have been recorded.

    In a run of several batches (``batches``) an edit is given the values of one batch: inputs that
    follow each other, in the order of the caller.
    """

    live = True

    def __init__(self, *keep: str, edits: Mapping[str, Edit] | None = None):
        self.keep = keep
        self.edits = dict(edits or {})
        for pattern in (*keep, *self.edits):
            if not isinstance(pattern, str):
                raise BadInput(f"a pattern of a tape is a text, not {shown(pattern)}")
        for pattern, edit in self.edits.items():
            if not callable(edit):
                raise BadInput(f"the edit of {pattern} is no function: {shown(edit)}")
        self.kept: dict[str, Tensor] = {}
        self.seen: dict[str, None] = {}  # a set that keeps its order
        self.path = ""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        full = self.path + name
        self.seen[full] = None
        for pattern, edit in self.edits.items():
            if fnmatchcase(full, pattern):
                value = _edited(edit, full, value)
        if any(fnmatchcase(full, pattern) for pattern in self.keep):
            self.kept[full] = value
        return value

    def under(self, place: str | int) -> "Tape":
        inner = Tape(*self.keep, edits=self.edits)
        inner.kept, inner.seen, inner.path = self.kept, self.seen, f"{self.path}{place}."
        return inner

    def wants(self, *names: str) -> bool:
        full = [self.path + name for name in names]
        self.seen.update(dict.fromkeys(full))
        patterns = (*self.keep, *self.edits)
        return any(fnmatchcase(name, pattern) for name in full for pattern in patterns)

    @contextmanager
    def batches(self) -> Iterator[Callable[[], "Tape"]]:
        """At the end, ``kept`` has the values of all batches, joined in their order.

        A pattern that matched no value is ``BadInput``: a wrong name must not read as "no effect".
        """
        parts: list[Tape] = []

        def next_batch() -> "Tape":
            parts.append(Tape(*self.keep, edits=self.edits))
            return parts[-1]

        yield next_batch
        seen = dict.fromkeys(name for part in parts for name in part.seen)
        if parts:
            _refuse_unmatched((*self.keep, *self.edits), list(seen))
        self.seen.update(seen)
        for name in dict.fromkeys(name for part in parts for name in part.kept):
            self.kept[name] = _joined([part.kept[name] for part in parts if name in part.kept])


def _refuse_unmatched(patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = get_close_matches(pattern, names, n=4, cutoff=0.0)
            raise BadInput(
                f"tape: nothing is called {pattern!r} in this run; the nearest names: "
                f"{', '.join(close) or 'none'} (model.tape_names() lists all)"
            )


def _joined(values: Sequence[Tensor]) -> Tensor:
    """Values of several batches along their first axis, rows or tokens; others are padded by 0."""
    sizes = [max(lengths) for lengths in zip(*(one.shape[1:] for one in values), strict=True)]

    def padded(value: Tensor) -> Tensor:
        missing = [size - here for size, here in zip(sizes, value.shape[1:], strict=True)]
        return F.pad(value, [at for size in reversed(missing) for at in (0, size)])

    return cat([padded(value) for value in values]) if len(values) > 1 else values[0]


NULL_TAPE = NullTape()


class UnrolledTape:
    """A tape for a loop over time: what it sees of a value is the whole, (B, H, L, S).

    ``at(t, rows_R)`` takes the value of one moment, (R, H, 1, S), of the rows still alive. An edit
    is given all moments so far, the others as zeros, and heard for this one: so it means what it
    means where all are computed at once.
    """

    def __init__(self, tape: NullTape, rows: int, length: int):
        self.tape, self.rows, self.length = tape, rows, length
        self.whole: dict[str, Tensor] = {}

    def at(self, time: int, rows_R: Tensor) -> NullTape:
        """The tape at one moment."""
        return _Moment(self, time, rows_R) if self.tape.wants("scores", "weights") else self.tape


class _Moment(NullTape):
    def __init__(self, unrolled: UnrolledTape, time: int, rows_R: Tensor):
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


def _edited(edit: Edit, name: str, value: Tensor) -> Tensor:
    """What an edit makes of a value: a tensor of the same shape."""
    result: object = edit(name, value)
    if not isinstance(result, Tensor) or result.shape != value.shape:
        made = tuple(result.shape) if isinstance(result, Tensor) else shown(result)
        raise BadInput(f"the edit of {name} gives {made}, not a tensor of {tuple(value.shape)}")
    return result


def _check_weights(name: str, value: Tensor, head: int, *places: int) -> None:
    """Refuse what is no attention weights (B, H, L, S) with this head, this query and this key."""
    if name.rpartition(".")[2] != "weights" or value.dim() != 4:
        raise BadInput(f"{name}: heads are edited in attention weights, and this is none of them")
    kinds = ("head", "query", "key")
    for kind, index, size in zip(kinds, (head, *places), value.shape[1:], strict=False):
        check_whole(f"{name}: a {kind}", index, 0, size - 1)


def without_head(head: int) -> Edit:
    """Switch one head off: its weights become zero. Edits values of shape (B, H, L, S)."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        _check_weights(name, weights_BHLS, head)
        weights_BHLS = weights_BHLS.clone()
        weights_BHLS[:, head] = 0
        return weights_BHLS

    return edit


def forced_row(head: int, query: int, key: int) -> Edit:
    """Make one query of one head look at one key only. Edits values of shape (B, H, L, S)."""

    def edit(name: str, weights_BHLS: Tensor) -> Tensor:
        _check_weights(name, weights_BHLS, head, query, key)
        weights_BHLS = weights_BHLS.clone()
        weights_BHLS[:, head, query] = 0
        weights_BHLS[:, head, query, key] = 1
        return weights_BHLS

    return edit
