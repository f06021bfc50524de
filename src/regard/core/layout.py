"""The layout of the rows of a batch in memory: tokens end to end, without padding.

A batch is a tensor of T tokens plus a ``Layout``. *Ragged* rows have their own lengths; *even* rows
are a rectangle (images, full blocks, one-token decoding), so that padding and packing are views.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from regard.core.pytree import TensorTree

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class lazy(Generic[Owner, Value]):  # noqa: N801
    """A property that is computed when it is first read, and then stored in its object.

    ``functools.cached_property`` has a lock in Python 3.11, which torch's compiler cannot trace.
    """

    def __init__(self, compute: Callable[[Owner], Value]):
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Owner, owner: type | None = None) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]
        value = instance.__dict__[self.name] = self.compute(instance)
        return value


class _ScatterGather(Function):
    """Scatter rows of x into ``size`` rows of zeros, or gather them: each inverts the other."""

    @staticmethod
    def forward(ctx, x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
        ctx.save_for_backward(slots_T)
        ctx.back = x.shape[0] if size is None else None
        return _move(x, slots_T, size)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (slots_T,) = ctx.saved_tensors
        return _move(gradient, slots_T, ctx.back), None, None


def scatter_rows(x: Tensor, slots_T: Tensor, size: int) -> Tensor:
    """A tensor of ``size`` rows with row i of x at ``slots_T[i]``; the others are zeros."""
    return _ScatterGather.apply(x, slots_T, size)


def gather_rows(x: Tensor, slots_T: Tensor) -> Tensor:
    """The rows at ``slots_T``, which must be distinct."""
    return _ScatterGather.apply(x, slots_T, None)


def _move(x: Tensor, slots_T: Tensor, size: int | None) -> Tensor:
    if size is None:
        return x.index_select(0, slots_T)
    zeros = x.new_zeros(size, *x.shape[1:])
    if torch.compiler.is_compiling():  # in place, torch 2.11 loses the gradient
        return zeros.index_copy(0, slots_T, x)
    return zeros.index_copy_(0, slots_T, x)


@dataclass(frozen=True, eq=False)
class TimeMajor:
    """Packed tokens in time-major order: all first tokens, then all second tokens, and so on.

    Rows are ordered by length, longest first, so that a loop over time only drops rows from the
    end. ``alive[t]`` rows have a token at time t: the first ones of ``order_B``. Token n in time-
    major order is packed token ``forward_T[n]``, or ``backward_T[n]`` if rows are read from their
    ends.
    """

    alive: tuple[int, ...]
    order_B: Tensor
    forward_T: Tensor
    backward_T: Tensor
    tokens: int

    @classmethod
    def of(
        cls, lengths: Sequence[int], starts: Sequence[int], tokens: int, device: torch.device
    ) -> "TimeMajor":
        """Time-major order of rows with these lengths and ``starts`` in the packed tokens."""
        length_B, start_B = np.array(lengths, dtype=np.int64), np.array(starts, dtype=np.int64)
        order_B = np.argsort(-length_B, kind="stable")
        time_L1 = np.arange(length_B.max(initial=0))[:, None]
        alive_LB = length_B[order_B] > time_L1
        time_T, rank_T = np.nonzero(alive_LB)
        row_T = order_B[rank_T]
        forward_T = start_B[row_T] + time_T
        backward_T = start_B[row_T] + length_B[row_T] - 1 - time_T

        arrays = (order_B, forward_T, backward_T)
        order, forward, backward = (torch.from_numpy(array).to(device) for array in arrays)
        return cls(tuple(alive_LB.sum(1).tolist()), order, forward, backward, tokens)

    @property
    def rows(self) -> int:
        """The number of rows that have tokens."""
        return self.alive[0] if self.alive else 0

    @property
    def order_R(self) -> Tensor:
        """The rows that have tokens, longest first."""
        return self.order_B[: self.rows]

    def from_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Convert packed tokens to time-major order."""
        return gather_rows(x, self.backward_T if backward else self.forward_T)

    def to_packed(self, x: Tensor, *, backward: bool = False) -> Tensor:
        """Convert time-major order to packed tokens; padding is zeros."""
        return scatter_rows(x, self.backward_T if backward else self.forward_T, self.tokens)


@dataclass(frozen=True, eq=False, repr=False)
class Layout(TensorTree):
    """How the rows of a batch lie in memory: ``rows``, ``tokens``, ``longest``, lengths, offsets.

    Row b has ``lengths_B[b]`` tokens from ``offsets[b]`` on; ``longest`` is the padded length.
    ``lengths`` are the lengths on the host if shapes are free (CPU), and ``None`` if shapes are
    fixed (CUDA), so that one graph serves all batches. Positions count ``start``, ``start`` + 1, …
    in every row, or freely if it is ``None``. Tensors with a ``padded`` layout are rectangles
    already, such as slices of a KV cache; the layout's own values, one per token, are packed. If
    rows share a buffer, token s of row b is in row ``owners_BS[b, s]`` of the buffer. A ``full``
    layout is a rectangle without padding.
    """

    rows: int
    longest: int
    lengths_B: Tensor
    offsets: Tensor
    positions_T: Tensor
    lengths: tuple[int, ...] | None = None
    even: bool = False
    start: int | None = 0
    padded: bool = False
    owners_BS: Tensor | None = None
    segments_T: Tensor | None = None
    orders_T: Tensor | None = None
    full: bool = False

    @classmethod
    def ragged(cls, lengths: Sequence[int], device: torch.device | str = "cpu") -> "Layout":
        """Layout of rows of these lengths, end to end, with free shapes."""
        length_B = np.array(lengths, dtype=np.int32)
        offsets = np.append(np.int32(0), length_B.cumsum(dtype=np.int32))
        positions_T = np.arange(offsets[-1]) - np.repeat(offsets[:-1], length_B)
        return cls(
            len(lengths),
            max(lengths, default=0),
            torch.from_numpy(length_B).to(device),
            torch.from_numpy(offsets).to(device),
            torch.from_numpy(positions_T).to(device),
            tuple(lengths),
        )

    @classmethod
    def rectangle(
        cls,
        rows: int,
        length: int,
        device: torch.device | str = "cpu",
        *,
        start: int = 0,
        lengths_B: Tensor | None = None,
        padded: bool = False,
    ) -> "Layout":
        """Layout of ``rows`` × ``length`` tokens from ``start`` on, padded beyond ``lengths_B``."""
        full = lengths_B is None
        if lengths_B is None:
            lengths_B = torch.full((rows,), length, dtype=torch.int32, device=device)
        return cls(
            rows=rows,
            longest=length,
            lengths_B=lengths_B,
            offsets=torch.arange(rows + 1, dtype=torch.int32, device=device) * length,
            positions_T=torch.arange(start, start + length, device=device).repeat(rows),
            lengths=(length,) * rows if full and not torch.compiler.is_exporting() else None,
            even=True,
            full=full,
            start=start,
            padded=padded,
        )

    def __repr__(self) -> str:
        sizes = f"rows={self.rows}, tokens={self.tokens}, longest={self.longest}"
        return f"Layout({sizes}, lengths={self.lengths or self.lengths_B}, offsets={self.offsets})"

    @property
    def tokens(self) -> int:
        """The number of tokens of packed tensors."""
        return self.positions_T.shape[0]

    @lazy
    def rows_T(self) -> Tensor:
        """The row each token belongs to."""
        if self.even:
            every = torch.arange(self.rows, device=self.positions_T.device)
            return every.repeat_interleave(self.longest, output_size=self.tokens)
        return _row_of_token(self.lengths_B, self.tokens)

    @lazy
    def slots_T(self) -> Tensor:
        """The index of each token in the padded rectangle, flattened by rows."""
        within = torch.arange(self.tokens, device=self.rows_T.device) - self.offsets[self.rows_T]
        return self.rows_T * self.longest + within

    @lazy
    def real_BL(self) -> Tensor:
        """Mask of the places of the padded rectangle that hold a token."""
        places = torch.arange(self.longest, device=self.lengths_B.device)
        return places < self.lengths_B[:, None]

    @lazy
    def key_bias_BS(self) -> Tensor:
        """Bias on the scores of these keys: -inf at padding, but 0 in rows that have no keys."""
        bias_BS = torch.zeros(self.real_BL.shape, device=self.real_BL.device)
        return bias_BS.masked_fill_(~self.real_BL & ~self.empty_B[:, None], -torch.inf)

    @lazy
    def empty_B(self) -> Tensor:
        """Mask of the rows without tokens."""
        return self.lengths_B == 0

    @lazy
    def texts(self) -> "Layout":
        """Layout of the same tokens with two rows for each row: its first and its second text.

        The second text begins at the first token whose segment is not 0, and may be empty. Waits
        for the device that has the segments.
        """
        if self.even and not self.full:
            raise ValueError("rows of a padded rectangle cannot be divided into texts")
        first_B = self.lengths_B.long()
        if self.segments_T is not None:
            place_T = torch.arange(self.tokens, device=first_B.device) - self.offsets[self.rows_T]
            place_T = torch.where(self.segments_T == 0, self.longest, place_T).long()
            first_B = first_B.scatter_reduce(0, self.rows_T, place_T, "amin")
        pairs = zip(first_B.tolist(), self.known_lengths, strict=True)
        lengths = [text for first, length in pairs for text in (first, length - first)]
        return Layout.ragged(lengths, self.positions_T.device)

    @lazy
    def text_T(self) -> Tensor:
        """The text of its row that each token belongs to: 0 or 1."""
        return self.texts.rows_T % 2

    @lazy
    def time_major(self) -> TimeMajor:
        """Time-major order for recurrent layers; waits for the device where only it has lengths."""
        lengths = self.known_lengths
        steps = [self.longest] * self.rows if self.even else lengths
        starts = [0, *accumulate(steps)][: self.rows]
        return TimeMajor.of(lengths, starts, self.tokens, self.positions_T.device)

    @property
    def known_lengths(self) -> list[int]:
        """The lengths on the host; copied from the device where only it has them."""
        return self.lengths_B.tolist() if self.lengths is None else list(self.lengths)

    def first(self, rows: int) -> "Layout":
        """The first rows of a rectangle."""
        return replace(
            self,
            rows=rows,
            lengths_B=self.lengths_B[:rows],
            offsets=self.offsets[: rows + 1],
            positions_T=self.positions_T[: rows * self.longest],
            lengths=None if self.lengths is None else self.lengths[:rows],
        )

    def later(self, places: int) -> "Layout":
        """Layout of the same rows, with positions ``places`` higher."""
        if not places:
            return self
        assert self.start is not None
        return replace(self, start=self.start + places, positions_T=self.positions_T + places)

    def pad(self, x: Tensor) -> Tensor:
        """Convert packed (T, …) to padded (B, L, …); padding is zeros."""
        if self.owners_BS is not None and x.dim() > 1:
            return x[self.owners_BS.long(), torch.arange(self.longest, device=x.device)]
        if self.padded and x.dim() > 1:
            return x
        if not self.even:
            x = scatter_rows(x, self.slots_T, self.rows * self.longest)
        return x.view(self.rows, self.longest, *x.shape[1:])

    def pack(self, x: Tensor) -> Tensor:
        """Convert padded (B, L, …) to packed (T, …)."""
        x = x.reshape(self.rows * self.longest, *x.shape[2:])
        return x if self.even else gather_rows(x, self.slots_T)

    def split(self, x: Tensor) -> list[Tensor]:
        """A packed tensor as one tensor per row."""
        lengths = self.known_lengths
        if self.even:
            return [row[:length] for row, length in zip(self.pad(x), lengths, strict=True)]
        return list(x[: sum(lengths)].split(lengths))


def _row_of_token(lengths_B: Tensor, tokens: int) -> Tensor:
    every = torch.arange(len(lengths_B), device=lengths_B.device)
    return every.repeat_interleave(lengths_B, output_size=tokens)
