"""The tape records and edits values that a forward pass computes.

A tape is an argument, not a hook. Every named value passes through the tape (``tape("weights",
w)``); modules add the path (``tape.under("blocks").under(3)``). A null tape costs nothing and can
be compiled. With a live tape, only layers whose attention it records or edits leave their fused
kernels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase

import torch.nn.functional as F
from torch import Tensor, cat

from regard.core.errors import BadInput, shown

Edit = Callable[[str, Tensor], Tensor]


class NullTape:
    """Tape that records nothing and changes nothing."""

    live = False

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return value

    def under(self, place: str | int) -> "NullTape":
        """The tape for a part of the model: ``place`` is added to the path of its names."""
        return self

    def wants(self, *names: str) -> bool:
        """Whether any of these values would be recorded or edited."""
        return False

    @contextmanager
    def batches(self) -> Iterator["NullTape"]:
        """Yield the tape of a run of several batches, which calls ``next_batch`` for each."""
        yield self

    def next_batch(self) -> "NullTape":
        """The tape of the next batch of a run."""
        return self

    @property
    def only_edits(self) -> "NullTape":
        """The tape without its records: it edits, or is null."""
        return self


class Tape(NullTape):
    """Tape that records values whose full name matches a pattern, and edits values by pattern.

    ``Tape("*.cross.weights")`` records; ``Tape(edits={"source.blocks.3.*.weights": edit})``
    edits, where ``edit(name, value)`` is a pure function. Edits come first, so that a record is
    the value the model used. Patterns are shell patterns (``*``, ``?``, ``[…]``). ``records``
    has the values by name, ``names`` the names of all values that could have been recorded.

    In a run of several batches (``batches``) an edit gets the values of one batch at a time, with
    its inputs in the order of the caller.
    """

    live = True

    def __init__(self, *patterns: str, edits: Mapping[str, Edit] | None = None):
        self.patterns = patterns
        self.edits = dict(edits or {})
        for pattern in (*patterns, *self.edits):
            if not isinstance(pattern, str):
                raise BadInput(f"a pattern of a tape must be a string, not {shown(pattern)}")
        for pattern, edit in self.edits.items():
            if not callable(edit):
                raise BadInput(f"the edit of {pattern} is not a function: {shown(edit)}")
        self.records: dict[str, Tensor] = {}
        self.names: dict[str, None] = {}  # an ordered set
        self.path = ""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        full = self.path + name
        self.names[full] = None
        for pattern, edit in self.edits.items():
            if fnmatchcase(full, pattern):
                value = _edited(edit, full, value)
        if any(fnmatchcase(full, pattern) for pattern in self.patterns):
            self.records[full] = value
        return value

    def under(self, place: str | int) -> "Tape":
        inner = Tape(*self.patterns, edits=self.edits)
        inner.records, inner.names, inner.path = self.records, self.names, f"{self.path}{place}."
        return inner

    def wants(self, *names: str) -> bool:
        full = [self.path + name for name in names]
        self.names.update(dict.fromkeys(full))
        patterns = (*self.patterns, *self.edits)
        return any(fnmatchcase(name, pattern) for name in full for pattern in patterns)

    @contextmanager
    def batches(self) -> Iterator["RunTape"]:
        """Yield the tape of a run of several batches, which calls ``next_batch`` for each.

        Afterwards ``records`` has the values of all batches; a pattern must match some value.
        """
        run = RunTape(*self.patterns, edits=self.edits)
        yield run
        parts = run.parts
        names = dict.fromkeys(name for part in parts for name in part.names)
        if parts:
            _refuse_unmatched((*self.patterns, *self.edits), list(names))
        self.names.update(names)
        for name in dict.fromkeys(name for part in parts for name in part.records):
            values = [part.records[name] for part in parts if name in part.records]
            self.records[name] = _joined(values)

    @property
    def only_edits(self) -> NullTape:
        return Tape(edits=self.edits) if self.edits else NULL_TAPE


class RunTape(Tape):
    """Tape of a run of several batches; ``parts`` are the tapes of its batches."""

    def __init__(self, *patterns: str, edits: Mapping[str, Edit] | None = None):
        super().__init__(*patterns, edits=edits)
        self.parts: list[Tape] = []

    def next_batch(self) -> Tape:
        self.parts.append(Tape(*self.patterns, edits=self.edits))
        return self.parts[-1]


class ValueTape(NullTape):
    """Tape that passes values on to another tape and keeps the ``value`` of one name."""

    live = True

    def __init__(self, name: str, tape: NullTape):
        self.name, self.tape = name, tape
        self.path, self.kept = "", dict[str, Tensor]()

    def __call__(self, name: str, value: Tensor) -> Tensor:
        value = self.tape(name, value)
        if self.path + name == self.name:
            self.kept[self.name] = value
        return value

    def under(self, place: str | int) -> "ValueTape":
        inner = ValueTape(self.name, self.tape.under(place))
        inner.path, inner.kept = f"{self.path}{place}.", self.kept
        return inner

    def wants(self, *names: str) -> bool:
        return self.tape.wants(*names) or self.name in {self.path + name for name in names}

    @property
    def value(self) -> Tensor:
        """The value of the name in the last forward pass."""
        return self.kept[self.name]


class ChainedTape(NullTape):
    """Two tapes: values pass through the first, then through the second."""

    live = True

    def __init__(self, first: NullTape, second: NullTape):
        self.first, self.second = first, second

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self.second(name, self.first(name, value))

    def under(self, place: str | int) -> "ChainedTape":
        return ChainedTape(self.first.under(place), self.second.under(place))

    def wants(self, *names: str) -> bool:
        return any([self.first.wants(*names), self.second.wants(*names)])  # both list the names


def check_tape(tape: object) -> NullTape:
    """The argument ``tape`` of a method; anything but a tape is an error."""
    if not isinstance(tape, NullTape):
        raise BadInput(f"tape must be a Tape, not {shown(tape)}")
    return tape


def _refuse_unmatched(patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = get_close_matches(pattern, names, n=4, cutoff=0.0)
            raise BadInput(
                f"tape: no value of this run matches {pattern!r}; the nearest names: "
                f"{', '.join(close) or 'none'} (model.tape_names() lists all)"
            )


def _joined(values: Sequence[Tensor]) -> Tensor:
    """Values of several batches, concatenated along axis 0; other axes are padded with zeros."""
    sizes = [max(lengths) for lengths in zip(*(value.shape[1:] for value in values), strict=True)]

    def padded(value: Tensor) -> Tensor:
        missing = [size - here for size, here in zip(sizes, value.shape[1:], strict=True)]
        return F.pad(value, [at for size in reversed(missing) for at in (0, size)])

    if len(values) > 1:
        return cat([padded(value) for value in values])
    return values[0].clone() if values[0].is_inference() else values[0]  # may need gradients later


NULL_TAPE = NullTape()


def _edited(edit: Edit, name: str, value: Tensor) -> Tensor:
    """Apply an edit, which must return a tensor of the same shape."""
    result: object = edit(name, value)
    if not isinstance(result, Tensor) or result.shape != value.shape:
        kind = tuple(result.shape) if isinstance(result, Tensor) else shown(result)
        raise BadInput(f"the edit of {name} returned {kind}, not a tensor of {tuple(value.shape)}")
    return result
