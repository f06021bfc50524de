"""Scores by the distance of query and key (Transformer-XL, XLNet).

A query scores the sinusoids of all distances in one product; the relative shift turns scores by
distance into scores by key. The shift is a view if positions have a known start, else a gather.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Score, add_scores, position_gaps


def sinusoid(
    positions_P: Tensor, width: int, base: float = 10_000.0, *, halves: bool = False
) -> Tensor:
    """Sinusoids sin(pos / n^(2i/d)) and cos(pos / n^(2i/d)) (Vaswani et al., 2017, section 3.5).

    The paper interleaves them (sin, cos, sin, …); ``halves`` lays all sines before all cosines. The
    angles are float64: with float32 frequencies they are 3e-5 off at position 500.
    """
    even = torch.arange(0, width, 2, device=positions_P.device, dtype=torch.float64)
    angles = positions_P[:, None].double() * torch.exp(even * (-math.log(base) / width))
    sine, cosine = angles.sin().float(), angles.cos().float()
    both = torch.cat([sine, cosine], 1) if halves else torch.stack([sine, cosine], 2).flatten(1)
    return both[:, :width]  # an odd width has one cosine less


class Distances(NamedTuple):
    """Vectors by distance (position of the query minus position of the key), the farthest first.

    They are sinusoids (P, width), shared by all layers, or their projection (P, H, K) in a layer.
    """

    farthest: int
    vectors: Tensor


def distances_between(queries: Layout, keys: Layout, width: int) -> Distances:
    """Sinusoids of all distances between queries and keys, and of one more."""
    if queries.start is not None and keys.start is not None:
        farthest = queries.start + queries.longest - keys.start
        count = max(1, queries.longest + keys.longest)
    else:
        gaps = position_gaps(queries, keys)
        farthest = -int(gaps.min()) if gaps.numel() else 0
        count = farthest + int(gaps.max()) + 1 if gaps.numel() else 0
    steps_P = torch.arange(count, device=keys.positions_T.device)
    return Distances(farthest, sinusoid(farthest - steps_P, width, halves=True))


class RelativeDot(Score):
    """Relative score ((q+u)·k + (q+w)·r) / √K (Dai et al., 2019, eq. 4).

    r is a projection of the sinusoid of the distance of q and k; u and w are learned biases for
    content and for distance.
    """

    def __init__(self, width: int, heads: int, size: int):
        super().__init__()
        self.width = width
        self.distance = nn.Linear(width, heads * size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(heads, size))
        self.distance_bias = nn.Parameter(torch.zeros(heads, size))

    def draw_vectors(self, std: float) -> None:
        for vectors in self.parameters(recurse=False):
            nn.init.normal_(vectors, std=std)

    def between(self, q_BLHK: Tensor, k_BSHK: Tensor, queries: Layout, keys: Layout) -> Tensor:
        distances = self.project(distances_between(queries, keys, self.width), q_BLHK.dtype)
        return self.with_distances(q_BLHK, k_BSHK, queries, keys, distances)

    def project(self, distances: Distances, dtype: torch.dtype) -> Distances:
        """Projected vectors r of this layer."""
        r_PD = self.distance(distances.vectors.to(dtype))
        return distances._replace(vectors=r_PD.unflatten(-1, self.content_bias.shape))

    def with_distances(
        self,
        q_BLHK: Tensor,
        k_BSHK: Tensor,
        queries: Layout,
        keys: Layout,
        distances: Distances,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Scores, with vectors r that are already projected."""
        content = torch.einsum("blhk,bshk->bhls", self.for_content(q_BLHK), k_BSHK)
        return add_scores(content, self.bias(q_BLHK, queries, keys, distances, tape))

    def for_content(self, q_BLHK: Tensor) -> Tensor:
        """Queries whose product with a key is the score by content."""
        return (q_BLHK + self.content_bias) / math.sqrt(q_BLHK.shape[-1])

    def by_distance(self, q_BLHK: Tensor, distances: Distances) -> Tensor:
        """Score of each distance, (B, H, L, P)."""
        scaled = (q_BLHK + self.distance_bias) / math.sqrt(q_BLHK.shape[-1])
        return torch.einsum("blhk,phk->bhlp", scaled, distances.vectors)

    def bias(
        self,
        q_BLHK: Tensor,
        queries: Layout,
        keys: Layout,
        distances: Distances,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        """Part of the scores that does not depend on the content of keys, (B, H, L, S)."""
        by_distance = self.by_distance(q_BLHK, distances)
        return tape("distance_scores", shift(by_distance, queries, keys, distances.farthest))


class RelativeSegmentDot(RelativeDot):
    """``RelativeDot`` + (q+b)·s / √K, with one vector s for keys of the query's segment and one for
    keys of other segments (Yang et al., 2019, section 2.5).
    """

    def __init__(self, width: int, heads: int, size: int):
        super().__init__(width, heads, size)
        self.segment = nn.Parameter(torch.zeros(2, heads, size))
        self.segment_bias = nn.Parameter(torch.zeros(heads, size))

    def bias(
        self,
        q_BLHK: Tensor,
        queries: Layout,
        keys: Layout,
        distances: Distances,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        by_distance = super().bias(q_BLHK, queries, keys, distances, tape)
        if queries.segments_T is None or keys.segments_T is None:
            return by_distance
        same, other = self.by_segment(q_BLHK).unbind()
        in_query_BL, in_key_BS = queries.pad(queries.segments_T), keys.pad(keys.segments_T)
        is_same = (in_query_BL[:, :, None] == in_key_BS[:, None])[:, None]
        by_segment = torch.where(is_same, same[..., None], other[..., None])
        return add_scores(by_distance, tape("segment_scores", by_segment))

    def by_segment(self, q_BLHK: Tensor) -> Tensor:
        """Score of keys in the query's segment, and of keys in other segments, (2, B, H, L)."""
        scaled = (q_BLHK + self.segment_bias) / math.sqrt(q_BLHK.shape[-1])
        return torch.einsum("blhk,shk->sbhl", scaled, self.segment)


def shift(scores_BHLP: Tensor, queries: Layout, keys: Layout, farthest: int) -> Tensor:
    """Turn scores by distance, the ``farthest`` first, into scores by key (Dai et al., app. B)."""
    length, distances = scores_BHLP.shape[-2:]
    known = queries.start is not None and keys.start is not None
    if known and farthest == queries.start + length - keys.start:  # type: ignore[operator]
        # The column of the first key moves one to the left from query to query.
        flat = scores_BHLP.flatten(-2)[..., length:]
        return flat.unflatten(-1, (length, distances - 1))[..., : keys.longest]
    index = (farthest + position_gaps(queries, keys))[:, None]
    return scores_BHLP.gather(-1, index.expand(-1, scores_BHLP.shape[1], -1, -1))
