"""The definition of attention, with the masks and scores that it is called with.

A mask compares positions, orders or texts, never data. Called with both layouts it returns (B, L,
S), true where a query may attend to a key; ``attend`` masks padding. Queries attend to their own
row only.

A score s(q, k) is called with padded queries (B, L, H, K), padded keys (B, S, H, K) and both
layouts, and returns (B, H, L, S). The part that depends on the keys alone can be computed once for
many queries. Before, self-attention lets the score ``place`` queries and keys: rotary positions.

The kernels of ``layers/kernels`` are faster, and must agree with ``attend``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape


@dataclass(frozen=True)
class WindowMask:
    """Mask of keys from ``left`` tokens before the query to ``right`` after it; None: no limit."""

    left: int | None = None
    right: int | None = None

    @property
    def causal(self) -> bool:
        """Whether no key after the query is allowed."""
        return self.right == 0

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Mask of allowed keys, by position."""
        if self.left is None and self.right is None:
            allowed = torch.ones((), dtype=torch.bool, device=keys.positions_T.device)
            return allowed.expand(keys.rows, queries.longest, keys.longest)
        ahead = position_gaps(queries, keys)
        allowed = torch.ones_like(ahead, dtype=torch.bool)
        if self.left is not None:
            allowed &= ahead >= -self.left
        if self.right is not None:
            allowed &= ahead <= self.right
        return allowed


@dataclass(frozen=True)
class PermutationMask:
    """Mask of keys that come earlier in the row's permutation (XLNet, Yang et al., 2019, eq. 3).

    ``itself`` also allows the query's own token: true in the content stream, false in the query
    stream.
    """

    causal: ClassVar[bool] = True
    itself: bool

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Mask of allowed keys, by order."""
        if queries.orders_T is None or keys.orders_T is None:
            raise ValueError("a permutation mask needs layouts with orders")
        ahead = _gaps(queries, keys, queries.orders_T, keys.orders_T)
        return ahead <= 0 if self.itself else ahead < 0


@dataclass(frozen=True)
class OtherTextMask:
    """Mask of keys in the other text of the row; in a row of one text, all keys."""

    causal: ClassVar[bool] = False

    def __call__(self, queries: Layout, keys: Layout) -> Tensor:
        """Mask of allowed keys, by text."""
        other_BLS = _gaps(queries, keys, queries.text_T, keys.text_T) != 0
        single_B = (keys.texts.lengths_B.view(-1, 2) == 0).any(1)
        return other_BLS | single_B[:, None, None]


Mask = WindowMask | PermutationMask | OtherTextMask

full = WindowMask()
causal = WindowMask(right=0)
earlier = PermutationMask(itself=False)
earlier_or_itself = PermutationMask(itself=True)
other_text = OtherTextMask()


def position_gaps(queries: Layout, keys: Layout) -> Tensor:
    """Position of each key minus position of each query, (B, L, S)."""
    return _gaps(queries, keys, queries.positions_T, keys.positions_T)


def _gaps(queries: Layout, keys: Layout, query_T: Tensor, key_T: Tensor) -> Tensor:
    return keys.pad(key_T)[:, None, :] - queries.pad(query_T)[:, :, None]


class Score(nn.Module):
    """Base class of scores: ``keyed`` depends on the keys alone, ``between`` is the rest.

    A score that is not ``scaled`` grows with √K, the size of keys: queries begin smaller. One that
    ``places`` queries and keys has a ``place`` of its own. ``terms`` are the names of its parts on
    a tape.
    """

    scaled: ClassVar[bool] = True
    places: ClassVar[bool] = False
    terms: ClassVar[tuple[str, ...]] = ()

    def keyed(self, k: Tensor) -> Tensor:
        """Transform keys (…, H, K) to the form that ``between`` expects."""
        return k

    def place(self, x_THK: Tensor, layout: Layout) -> Tensor:
        """Queries or keys with their positions, before a KV cache stores them; default: as is."""
        return x_THK

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        raise NotImplementedError

    def position_bias(self, queries: Layout, keys: Layout) -> Tensor | None:
        """Term of the score that depends on positions alone, (B or 1, H, L, S); None: no term."""
        return None

    def draw_vectors(self, std: float) -> None:
        """Initialise the vectors of the score that belong to no layer, with the model's ``std``."""

    def forward(
        self,
        q_BLHK: Tensor,
        k_BSHK: Tensor,
        queries: Layout,
        keys: Layout,
        tape: NullTape = NULL_TAPE,
        keyed: bool = False,
    ) -> Tensor:
        scores_BHLS = self.between(q_BLHK, k_BSHK if keyed else self.keyed(k_BSHK), queries, keys)
        bias = self.position_bias(queries, keys)
        return scores_BHLS if bias is None else add_scores(scores_BHLS, tape("bias", bias))


class Dot(Score):
    """Dot-product score q·k (Luong et al., 2015). Fused kernels read its ``scale`` alone."""

    scaled: ClassVar[bool] = False

    def scale(self, size: int) -> float:
        """Factor on q·k, for fused kernels."""
        return 1.0

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", q_BLHK * self.scale(q_BLHK.shape[-1]), k_BSHK)


def is_dot_product(score: object) -> bool:
    """Whether a score is q·k times a scale, which fused kernels compute."""
    unbiased = isinstance(score, Score) and type(score).position_bias is Score.position_bias
    return unbiased and is_biased_dot_product(score)


def is_biased_dot_product(score: object) -> bool:
    """Whether a score is q·k times a scale, and perhaps a position bias."""
    return isinstance(score, Dot) and type(score).between is Dot.between


class ScaledDot(Dot):
    """Scaled dot product q·k / √K (Vaswani et al., 2017, eq. 1)."""

    scaled: ClassVar[bool] = True

    def scale(self, size: int) -> float:
        return 1 / math.sqrt(size)


class Cosine(Score):
    """Cosine score of q and k: content-based addressing (Graves et al., 2014)."""

    def keyed(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", F.normalize(q_BLHK, dim=-1), k_BSHK)


class Additive(Score):
    """Additive score v·tanh(W[k; q]) (Bahdanau et al., 2014) of queries and keys of any size."""

    def __init__(self, query: int, key: int, inner: int, heads: int = 1):
        super().__init__()
        self.query = _weight(heads, query, inner)
        self.key = _weight(heads, key, inner)
        bound = 1 / math.sqrt(inner)
        self.v = nn.Parameter(torch.empty(heads, inner).uniform_(-bound, bound))

    def keyed(self, k: Tensor) -> Tensor:
        return torch.einsum("...hk,hka->...ha", k, self.key)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        from_query = torch.einsum("blhk,hka->bhla", q_BLHK, self.query)
        both = torch.tanh(from_query[:, :, :, None] + k_BSHK.transpose(1, 2)[:, :, None])
        return torch.einsum("bhlsa,ha->bhls", both, self.v)


class Bilinear(Score):
    """Bilinear score qᵀWk, Luong's "general"; queries and keys may differ in size."""

    def __init__(self, query: int, key: int, heads: int = 1):
        super().__init__()
        self.weight = _weight(heads, query, key)

    def keyed(self, k: Tensor) -> Tensor:
        return torch.einsum("...hj,hkj->...hk", k, self.weight)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", q_BLHK, k_BSHK)


class Location(Score):
    """Location score W q: scores of positions from the query alone (Luong et al., 2015, eq. 8).

    Keys beyond its number of positions are masked, as in the paper.
    """

    def __init__(self, query: int, positions: int, heads: int = 1):
        super().__init__()
        self.weight = _weight(heads, query, positions)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        known = self.weight.shape[-1]
        score_BHLP = torch.einsum("blhk,hkp->bhlp", q_BLHK, self.weight)
        place_BS = keys.pad(keys.positions_T)
        where = place_BS.clamp(max=known - 1)[:, None, None, :]
        score_BHLS = score_BHLP.gather(-1, where.expand(*score_BHLP.shape[:3], keys.longest))
        return score_BHLS.masked_fill((place_BS >= known)[:, None, None, :], -torch.inf)


class DistanceDot(Score):
    """Score q·(k + a) / √K with a learned vector a per distance (Shaw et al., 2018, eq. 4).

    Distances are signed and clipped to ``farthest``; heads share the vectors. The
    paper's other vectors, added to values, are left out: it finds no gain in them (table 3).
    """

    def __init__(self, farthest: int, size: int):
        super().__init__()
        self.farthest = farthest
        self.distance = nn.Embedding(2 * farthest + 1, size)
        nn.init.normal_(self.distance.weight, std=1 / math.sqrt(size))

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        heads, size = q_BLHK.shape[-2:]
        ahead = position_gaps(queries, keys)
        index_BLS = ahead.clamp(-self.farthest, self.farthest) + self.farthest
        content = torch.einsum("blhk,bshk->bhls", q_BLHK, k_BSHK)
        by_distance = torch.einsum("blhk,pk->bhlp", q_BLHK, self.distance.weight)
        index = index_BLS[:, None].expand(-1, heads, -1, -1)
        return add_scores(content, by_distance.gather(-1, index)) / math.sqrt(size)


def add_scores(first: Tensor, second: Tensor) -> Tensor:
    """Sum of two scores in at least single precision.

    In half precision the forward pass of compiled code, which does not round, and its backward
    pass, which reads rounded scores, would differ: weights that do not sum to 1 make training
    diverge.
    """
    precise = torch.promote_types(first.dtype, torch.float32)
    return first.to(precise) + second.to(precise)


def _weight(heads: int, rows: int, columns: int) -> nn.Parameter:
    bound = math.sqrt(6 / (rows + columns))
    return nn.Parameter(torch.empty(heads, rows, columns).uniform_(-bound, bound))


def masked_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Softmax over the keys that are allowed; masked keys have a weight of exactly 0.

    A query without any allowed key gets zeros, not NaN, forward and backward. A score of -inf masks
    a key as well.
    """
    allowed = allowed & (scores != float("-inf"))
    lowest = torch.finfo(scores.dtype).min
    precise = torch.promote_types(scores.dtype, torch.float32)
    weights = F.softmax(scores.masked_fill(~allowed, lowest), dim=-1, dtype=precise)
    return weights.to(scores.dtype) * allowed


def for_each_head(x: Tensor, heads: int) -> Tensor:
    """Keys or values (…, heads, K), repeated if they have fewer heads (Ainslie et al., 2023)."""
    return x if x.shape[-2] == heads else x.repeat_interleave(heads // x.shape[-2], dim=-2)


def attend(
    score: Callable[..., Tensor],
    q_THK: Tensor,
    k_THK: Tensor,
    v_THK: Tensor,
    *,
    queries: Layout,
    keys: Layout,
    mask: Callable[[Layout, Layout], Tensor] = full,
    dropout: float = 0.0,
    tape: NullTape = NULL_TAPE,
) -> Tensor:
    """Attention: the mean of the values of a row for each query, weighted by softmax of scores.

    With fewer heads of keys than of queries, each serves a group of successive queries.
    """
    q, k, v = queries.pad(q_THK), keys.pad(k_THK), keys.pad(v_THK)
    k, v = (for_each_head(x, q.shape[-2]) for x in (k, v))
    allowed_BHLS = tape("mask", (mask(queries, keys) & keys.real_BL[:, None])[:, None])
    recorded = {"tape": tape} if isinstance(score, Score) else {}
    scores_BHLS = tape("scores", score(q, k, queries, keys, **recorded))
    weights_BHLS = tape("weights", masked_softmax(scores_BHLS, allowed_BHLS))
    dropped_BHLS = F.dropout(weights_BHLS, dropout).to(v.dtype)
    return queries.pack(torch.einsum("bhls,bshk->blhk", dropped_BHLS, v))
