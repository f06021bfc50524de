"""Sequences of token ids as packed tensors, with shapes free (CPU) or fixed (CUDA)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.pytree import TensorTree

IGNORED = -100  # a target that no loss counts


@dataclass(frozen=True, eq=False)
class PackedTokens(TensorTree):
    """Tokens of several rows, end to end, with their layout; the first ``real`` are not padding."""

    tokens_T: Tensor
    layout: Layout
    real: int = -1

    def __post_init__(self) -> None:
        if self.real < 0:
            object.__setattr__(self, "real", self.tokens_T.shape[0])


@dataclass(frozen=True)
class BatchLimits:
    """The most tokens, rows, and tokens per row of a batch, on either side.

    On CUDA these are the fixed shape of every batch, so that one compiled graph serves them all:
    unused space is padded with rows of at most ``longest`` tokens, which no loss counts.
    """

    tokens: int
    rows: int
    longest: int

    def __post_init__(self) -> None:
        if min(self.tokens, self.rows, self.longest) < 1:
            raise BadInput(f"{self}: every limit must be at least 1")
        if self.longest > self.tokens:
            raise BadInput(f"{self}: a row as long as `longest` does not fit into `tokens`")

    @property
    def all_rows(self) -> int:
        """Number of rows in the layout: real rows, rows of padding, and empty rows."""
        return self.rows + -(-self.tokens // self.longest)

    def lengths(self, real: Sequence[int]) -> list[int]:
        """The lengths of the real rows, then of rows of padding, then of empty rows."""
        if len(real) > self.rows or sum(real) > self.tokens or max(real, default=0) > self.longest:
            raise ValueError(f"rows of lengths {list(real)} do not fit {self}")
        full, rest = divmod(self.tokens - sum(real), self.longest)
        lengths = [*real, *[self.longest] * full, *[rest] * (rest > 0)]
        return lengths + [0] * (self.all_rows - len(lengths))

    def layout(self, lengths: Sequence[int]) -> Layout:
        """The layout of real rows of these lengths, in the fixed shape."""
        layout = Layout.ragged(self.lengths(lengths))
        return replace(layout, lengths=None, longest=self.longest)

    def fill(self, ids: np.ndarray, lengths: Sequence[int], padding: int) -> np.ndarray:
        """The packed ids of real rows, in the fixed shape."""
        if len(ids) > self.tokens:
            raise ValueError(f"{len(ids)} tokens do not fit {self}")
        rest = np.full((self.tokens - len(ids), *ids.shape[1:]), padding, dtype=ids.dtype)
        return np.concatenate([ids, rest])


Limits = BatchLimits | None
"""The fixed shape of a batch; None: its shape is free."""


@dataclass(frozen=True)
class RectangleLimits(BatchLimits):
    """Limits of batches that are rectangles of padded rows, on either side.

    The number of rows and their length are rounded up to multiples, also beyond ``rows`` and
    ``longest``: so there are few shapes, each of which can be captured. Recurrent models need
    this: packed rows would all have to be as long as the longest of the corpus.
    """

    row_multiple: int = 32
    length_multiple: int = 8

    def layout(self, lengths: Sequence[int]) -> Layout:
        rows, longest = self.sides(lengths)
        lengths_B = torch.zeros(rows, dtype=torch.int32)
        lengths_B[: len(lengths)] = torch.tensor(lengths, dtype=torch.int32)
        return Layout.rectangle(rows, longest, lengths_B=lengths_B)

    def fill(self, ids: np.ndarray, lengths: Sequence[int], padding: int) -> np.ndarray:
        rows, longest = self.sides(lengths)
        length_B = np.zeros(rows, np.int64)
        length_B[: len(lengths)] = lengths
        filled = np.full((rows, longest, *ids.shape[1:]), padding, dtype=ids.dtype)
        filled[np.arange(longest) < length_B[:, None]] = ids
        return filled.reshape(-1, *ids.shape[1:])

    def sides(self, lengths: Sequence[int]) -> tuple[int, int]:
        """The rows of the rectangle, and their length."""
        if len(lengths) > self.rows or max(lengths, default=0) > self.longest:
            raise ValueError(f"rows of lengths {list(lengths)} do not fit {self}")
        sizes = (len(lengths), self.row_multiple), (max(lengths, default=0), self.length_multiple)
        rows, longest = (multiple * max(1, -(-size // multiple)) for size, multiple in sizes)
        return rows, longest


Ids = Sequence[int] | np.ndarray


class TokenRow(NamedTuple):
    """Input row of an encoder: tokens, and the segment (first or second text) of each.

    ``orders``: the index of each token in a factorization order, for permutation masks.
    """

    tokens: Ids
    segments: Ids
    orders: Ids | None = None

    @classmethod
    def of(cls, ids: Ids) -> "TokenRow":
        """A row of ids, all of segment 0."""
        return cls(ids, [0] * len(ids))

    @staticmethod
    def pack(rows: Sequence["TokenRow"], limits: Limits = None) -> PackedTokens:
        """Pack rows end to end."""
        return pack_rows(rows, limits)


@dataclass(frozen=True, eq=False)
class ImageRow:
    """Input image, which is one token: ``read`` gives its pixel values (C, H, W).

    ``key`` decides how it is augmented.
    """

    tokens: ClassVar[Ids] = (0,)
    segments: ClassVar[Ids] = (0,)
    read: Callable[[], np.ndarray]
    key: int = 0

    @staticmethod
    def pack(rows: Sequence["ImageRow"], limits: Limits = None) -> PackedTokens:
        """Pack images of one shape."""
        images = torch.from_numpy(read_images(rows))
        return pack_images(images, limits, [row.key for row in rows])


def read_images(rows: Sequence[ImageRow]) -> np.ndarray:
    """Pixel values (B, C, H, W) of images of one shape."""
    read = [row.read() for row in rows]
    if len({pixels.shape for pixels in read}) > 1:
        raise BadInput("images of different sizes cannot share a batch: set batch_size=1")
    return np.stack(read)


@dataclass(frozen=True)
class SpecialIds:
    """Special tokens added to every row: ``first`` before it, ``last`` after it."""

    first: int | None = None
    last: int | None = None

    @property
    def count(self) -> int:
        """The number of special tokens added to a row."""
        return (self.first is not None) + (self.last is not None)


Text = Ids | TokenRow | ImageRow
NO_SPECIAL_IDS = SpecialIds()
EMPTY_ROW = TokenRow((), ())


def pack(
    rows: Sequence[Ids],
    limits: Limits = None,
    padding: int = 0,
    special_ids: SpecialIds = NO_SPECIAL_IDS,
) -> PackedTokens:
    """Pack rows end to end; with ``limits``, padded to their fixed shape."""
    tokens_T = pack_ids(rows, limits, padding, special_ids)
    lengths = [len(row) + special_ids.count for row in rows]
    layout = Layout.ragged(lengths) if limits is None else limits.layout(lengths)
    return PackedTokens(tokens_T, layout, sum(lengths))


def pack_rows(
    rows: Sequence[TokenRow],
    limits: Limits = None,
    padding: int = 0,
    *,
    even: bool = False,
    ordered: bool = False,
) -> PackedTokens:
    """Pack rows with segments, and with orders if ``ordered``; both are 0 at padding.

    With ``even``, full rows that leave nothing to pad become a rectangle, for which there are
    faster kernels; batches of one set of limits then have two shapes.
    """
    packed = pack([row.tokens for row in rows], limits, padding)
    segments_T, layout = pack_ids([row.segments for row in rows], limits), packed.layout
    if even and limits is not None and len(rows) * limits.longest == packed.real == limits.tokens:
        layout = Layout.rectangle(len(rows), limits.longest)
    orders_T = pack_ids([row.orders for row in rows], limits) if ordered else None  # type: ignore[misc]
    return replace(packed, layout=replace(layout, segments_T=segments_T, orders_T=orders_T))


def pack_texts(texts: Sequence[Text], limits: Limits = None) -> PackedTokens:
    """Pack rows, or images; rows of ids alone have segment 0."""
    rows: list[Any] = [as_row(text) for text in texts]
    return (rows[0] if rows else EMPTY_ROW).pack(rows, limits)


def as_row(text: Text) -> TokenRow | ImageRow:
    """Return a row with segments, or an image, unchanged; ids alone get segment 0."""
    return text if isinstance(text, TokenRow | ImageRow) else TokenRow.of(text)


def pack_ids(
    rows: Sequence[Ids],
    limits: Limits = None,
    padding: int = 0,
    special_ids: SpecialIds = NO_SPECIAL_IDS,
) -> Tensor:
    """Ids laid end to end in one tensor; with ``limits``, followed by ``padding``. See ``pack``.

    A token has one id, or as many as every other token.
    """
    lengths = [len(row) + special_ids.count for row in rows]
    ends = np.cumsum(np.array(lengths, dtype=np.int64))
    size = int(ends[-1]) if len(ends) else 0
    per_token = np.shape(rows[0])[1:] if rows else ()  # one id, or those of characters
    tokens = np.full((size, *per_token), padding, dtype=np.int64)
    inside = np.ones(size, dtype=bool)
    for number, at in ((special_ids.first, np.append(0, ends[:-1])), (special_ids.last, ends - 1)):
        if number is not None and size:
            tokens[at], inside[at] = number, False
    if size:
        tokens[inside] = np.concatenate(rows, dtype=np.int64, casting="unsafe")
    if limits is not None:
        tokens = limits.fill(tokens, lengths, padding)
    return torch.from_numpy(tokens)


@dataclass(frozen=True, eq=False)
class PackedImages(PackedTokens):
    """Images (B, C, H, W) as rows of one token each; ``keys_B`` decide how each is augmented."""

    keys_B: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))


def pack_images(images: Tensor, limits: Limits = None, keys: Ids | None = None) -> PackedImages:
    """Pack images of one shape; the model makes patches of them.

    With ``limits``, images of zeros fill the batch up to its maximum number of rows.
    """
    real = len(images)
    keys_B = torch.as_tensor([0] * real if keys is None else keys, dtype=torch.int64)
    if limits is not None:
        more = min(limits.rows, limits.tokens) - real
        images = torch.cat([images, images.new_zeros(more, *images.shape[1:])])
        keys_B = torch.cat([keys_B, keys_B.new_zeros(more)])
    return PackedImages(images, Layout.rectangle(len(images), 1), real, keys_B)


@dataclass(frozen=True, eq=False)
class SourceTarget(TensorTree):
    """Input of an encoder-decoder: the source, and the target so far."""

    source: PackedTokens
    target: PackedTokens

    @property
    def real(self) -> int:
        """Number of tokens on both sides, without padding."""
        return self.source.real + self.target.real


@dataclass(frozen=True, eq=False)
class Batch(TensorTree):
    """A training batch: inputs, and by head the targets, positions and weights.

    ``positions`` are the tokens that a head reads; default: all. ``weight`` is the sum of
    ``weights`` (default 1) over all targets that are not ``IGNORED``. ``state`` is a tree of
    tensors that an objective over streams carries over from the previous batch.
    """

    inputs: Any  # PackedTokens or SourceTarget
    targets: dict[str, Tensor]
    weight: float
    positions: dict[str, Tensor] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    state: object = None

    @property
    def tokens(self) -> int:
        """Number of tokens of the inputs, without padding."""
        return self.inputs.real
