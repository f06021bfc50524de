"""Attention of a recurrent decoder to its source, one query per step, any score; and readouts."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.core.layout import Layout, gather_rows
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attend import Additive, Bilinear, Cosine, Dot, Location, ScaledDot, Score, attend
from regard.layers.attention import EncoderOutput
from regard.layers.kernels.fast_attend import fast_attend
from regard.layers.kv_cache import LayerKVCache
from regard.layers.relative_score import RelativeDot


def _alike(score: Callable[[int], Score]) -> Callable[..., Score]:
    """Return a builder of a score whose queries and keys have the same size."""

    def build(query: int, key: int, inner: int, positions: int) -> Score:
        if query != key:
            raise ValueError(
                f"this score needs queries and keys of the same size, not {query} and {key}"
            )
        return score(query)

    return build


SCORES: dict[str, Callable[..., Score]] = {
    "additive": lambda query, key, inner, positions: Additive(query, key, inner),
    "dot": _alike(lambda size: Dot()),
    "scaled-dot": _alike(lambda size: ScaledDot()),
    "bilinear": lambda query, key, inner, positions: Bilinear(query, key),
    "cosine": _alike(lambda size: Cosine()),
    "location": lambda query, key, inner, positions: Location(query, positions),
    "relative": _alike(lambda size: RelativeDot(size, 1, size)),
}
"""Scores by name, built from the sizes of query, key and additive layer, and from positions."""
SCORES |= {"concat": SCORES["additive"], "general": SCORES["bilinear"]}  # as in Luong et al.


class SourceKeyValues(NamedTuple):
    """Keys and values of a source, computed once for all steps, with their layout."""

    k: Tensor
    v: Tensor
    layout: Layout

    def ordered(self, order_B: Tensor) -> "SourceKeyValues":
        """Keys and values with rows in another order."""
        layout = self.layout
        lengths_B = None if layout.full else layout.lengths_B[order_B]
        size = (layout.rows, layout.longest, self.k.device)
        moved = Layout.rectangle(*size, lengths_B=lengths_B, padded=True)
        return SourceKeyValues(gather_rows(self.k, order_B), gather_rows(self.v, order_B), moved)

    def first(self, rows: int) -> "SourceKeyValues":
        """Keys and values of the first rows."""
        if rows == self.layout.rows:
            return self
        return SourceKeyValues(self.k[:rows], self.v[:rows], self.layout.first(rows))


class RNNAttention(nn.Module):
    """Attention with one head, projected only by its score: c = Σ_i α_i h_i."""

    def __init__(self, query: int, source: int, score: str, *, inner: int, positions: int):
        super().__init__()
        self.score = SCORES[score](query, source, inner, positions)

    def keys(self, source: EncoderOutput, tape: NullTape = NULL_TAPE) -> SourceKeyValues:
        """Keys and values, in the layout of the source; keys are those that the score compares."""
        v_THK = tape("values", source.states_TD[:, None])
        return SourceKeyValues(tape("keys", self.score.keyed(v_THK)), v_THK, source.layout)

    def source_key_values(
        self, source: EncoderOutput | None, cache: LayerKVCache | None, tape: NullTape = NULL_TAPE
    ) -> SourceKeyValues:
        """Padded keys and values, from the cache or computed."""
        cache = LayerKVCache(0, 0) if cache is None else cache
        if cache.source is not None:
            return SourceKeyValues(*cache.source)
        assert source is not None
        return SourceKeyValues(*cache.store_source(*self.keys(source, tape)))

    def forward(
        self, q_TD: Tensor, queries: Layout, keys: SourceKeyValues, *, tape: NullTape = NULL_TAPE
    ) -> Tensor:
        """Compute the context of each query."""
        score = self.score if isinstance(self.score, Dot) else partial(self.score, keyed=True)
        # Kernels do not return these values.
        recorded = tape.wants("scores", "mask", "weights", *self.score.terms)
        run = partial(attend, tape=tape) if recorded else fast_attend
        q_THK = tape("queries", q_TD[:, None])
        context_THK = run(score, q_THK, keys.k, keys.v, queries=queries, keys=keys.layout)
        return tape("context", context_THK[:, 0])


class Attentional(nn.Module):
    """Attentional state h̃ = tanh(W[c; h]) (Luong et al., 2015, eq. 5)."""

    def __init__(self, context: int, width: int):
        super().__init__()
        self.linear = nn.Linear(context + width, width, bias=False)

    def forward(self, state_TD: Tensor, context_TD: Tensor) -> Tensor:
        return torch.tanh(self.linear(torch.cat([context_TD, state_TD], dim=-1)))


class Maxout(nn.Module):
    """Maximum of each pair of outputs of Wx + b (Goodfellow et al., 2013), ``size`` outputs."""

    def __init__(self, inputs: int, size: int):
        super().__init__()
        self.linear = nn.Linear(inputs, 2 * size)

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.linear(x_TD).unflatten(-1, (-1, 2)).amax(-1)
