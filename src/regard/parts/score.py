"""Scores s(q, k) of queries and keys. Every model chooses one.

A score is called with padded queries (B, L, H, K), padded keys (B, S, H, K) and both layouts, and
returns (B, H, L, S). What depends on the keys alone can be computed once for many queries.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.layout import Layout


class Score(nn.Module):
    """``keyed`` is the part that depends on the keys alone, ``between`` the rest."""

    def keyed(self, k: Tensor) -> Tensor:
        """Keys (…, H, K) as ``between`` expects them."""
        return k

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        raise NotImplementedError

    def forward(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return self.between(q_BLHK, self.keyed(k_BSHK), queries, keys)


class Dot(Score):
    """q·k (Luong et al., 2015)."""

    def scale(self, size: int) -> float:
        """The factor on q·k, for fused kernels."""
        return 1.0

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", q_BLHK * self.scale(q_BLHK.shape[-1]), k_BSHK)


class ScaledDot(Dot):
    """q·k / √K (Vaswani et al., 2017, eq. 1)."""

    def scale(self, size: int) -> float:
        return 1 / math.sqrt(size)


class Cosine(Score):
    """cosine(q, k): content-based addressing (Graves et al., 2014)."""

    def keyed(self, k: Tensor) -> Tensor:
        return F.normalize(k, dim=-1)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", F.normalize(q_BLHK, dim=-1), k_BSHK)


class Additive(Score):
    """v·tanh(W[k; q]) (Bahdanau et al., 2014); queries and keys may differ in size."""

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
    """qᵀWk, Luong's "general" score; queries and keys may differ in size."""

    def __init__(self, query: int, key: int, heads: int = 1):
        super().__init__()
        self.weight = _weight(heads, query, key)

    def keyed(self, k: Tensor) -> Tensor:
        return torch.einsum("...hj,hkj->...hk", k, self.weight)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        return torch.einsum("blhk,bshk->bhls", q_BLHK, k_BSHK)


class Location(Score):
    """W q: scores of positions from the query alone (Luong et al., 2015, eq. 8).

    Keys beyond its positions are masked, as in the paper.
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
    """q·(k + a) / √K with a learned vector a for each distance (Shaw et al., 2018, eq. 4).

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
        ahead = keys.pad(keys.positions_T)[:, None] - queries.pad(queries.positions_T)[:, :, None]
        index_BLS = ahead.clamp(-self.farthest, self.farthest) + self.farthest
        content = torch.einsum("blhk,bshk->bhls", q_BLHK, k_BSHK)
        by_distance = torch.einsum("blhk,pk->bhlp", q_BLHK, self.distance.weight)
        index = index_BLS[:, None].expand(-1, heads, -1, -1)
        return add_scores(content, by_distance.gather(-1, index)) / math.sqrt(size)


def add_scores(first: Tensor, second: Tensor) -> Tensor:
    """The sum in at least single precision.

    Rounded to half precision, it would not be the same in the forward pass of compiled code, which
    does not round, and in its backward pass, which reads what was stored; weights that do not sum
    to 1 there make training diverge.
    """
    precise = torch.promote_types(first.dtype, torch.float32)
    return first.to(precise) + second.to(precise)


def _weight(heads: int, rows: int, columns: int) -> nn.Parameter:
    bound = math.sqrt(6 / (rows + columns))
    return nn.Parameter(torch.empty(heads, rows, columns).uniform_(-bound, bound))
