"""Relative position bias (T5): a learned number for each head and bucket of distances."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.layers.attend import Dot, position_gaps


class BiasedDot(Dot):
    """Score q·k + b, with a bias b by head and bucket (Raffel et al., 2019, section 2.1).

    The dot product is not scaled. Unless ``causal``, keys after the query have half of the buckets.
    Of the buckets of a direction, half are for one distance each, and the others grow with the
    logarithm of the distance up to ``farthest``; all beyond share the last. Layers may share the
    module.
    """

    terms: ClassVar = ("bias",)

    def __init__(self, heads: int, buckets: int, farthest: int, *, causal: bool):
        super().__init__()
        self.buckets, self.farthest, self.causal = buckets, farthest, causal
        self.bias = nn.Embedding(buckets, heads)
        nn.init.zeros_(self.bias.weight)

    def draw_vectors(self, std: float) -> None:
        nn.init.normal_(self.bias.weight, std=std)

    def position_bias(self, queries: Layout, keys: Layout) -> Tensor:
        if queries.start is None or keys.start is None:
            return self.bias_at(position_gaps(queries, keys)).permute(0, 3, 1, 2)
        query_L = torch.arange(queries.longest, device=queries.positions_T.device) + queries.start
        key_S = torch.arange(keys.longest, device=query_L.device) + keys.start
        return self.bias_at(key_S - query_L[:, None]).permute(2, 0, 1)[None]

    def bias_at(self, gaps: Tensor) -> Tensor:
        """Bias (…, H) of keys that are ``gaps`` tokens after the query."""
        return self.bias(self.bucket(gaps))

    def bucket(self, gaps: Tensor) -> Tensor:
        """Bucket of keys that are ``gaps`` tokens after the query."""
        count = self.buckets if self.causal else self.buckets // 2
        first = (gaps > 0).long() * (0 if self.causal else count)
        distance = (-gaps).clamp(min=0) if self.causal else gaps.abs()
        exact = count // 2
        steps = math.log(self.farthest / exact)
        far = (distance.clamp(min=1).float() / exact).log() / steps * (count - exact)
        return first + torch.where(
            distance < exact, distance, (exact + far.long()).clamp(max=count - 1)
        )
