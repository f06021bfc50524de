"""Attention maps: the weights of one kind of attention, by layer and head, over tokens or words.

Attention rollout (Abnar & Zuidema, 2020, arXiv:2005.00928) follows them through several layers.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from regard.core.checks import check_whole
from regard.core.errors import BadInput
from regard.views.markup import write_rendering
from regard.views.matrix_svg import draw_attention

MOST_DRAWN = 4_096  # weights of a drawing that is saved in notebooks

Groups = Sequence[Sequence[int]]
"""Token positions of each word of a text. A special token may belong to no word."""


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    """Weights of one kind of attention in one forward pass.

    ``name`` is "encoder", "decoder" or "cross"; ``layers`` holds one (heads, queries, keys) array
    per layer (or is one array of four axes). A pruned layer may have fewer heads than others.
    ``allowed`` (queries, keys) is the attention mask; None: every query attends to every key.
    ``special_queries`` and ``special_keys`` are the positions of special tokens, such as [CLS].
    """

    without_layer: ClassVar[str] = "mean"  # label of the view without a chosen layer
    name: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    layers: tuple[np.ndarray, ...]
    allowed: np.ndarray | None = None
    special_queries: tuple[int, ...] = ()
    special_keys: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        layers = tuple(np.asarray(weights_HLS, dtype=np.float32) for weights_HLS in self.layers)
        expected = (len(self.queries), len(self.keys))
        for layer, weights_HLS in enumerate(layers):
            if weights_HLS.ndim != 3 or weights_HLS.shape[1:] != expected:
                size = f"{expected[0]} queries and {expected[1]} keys"
                where = f"{self.name}, layer {layer}"
                raise ValueError(f"{where}: weights of shape {weights_HLS.shape} for {size}")
        object.__setattr__(self, "layers", layers)

    def __repr__(self) -> str:
        layers = f"{len(self.layers)} layers of {max(map(len, self.layers), default=0)} heads"
        size = f"{len(self.queries)} queries × {len(self.keys)} keys"
        return f"{type(self).__name__}({self.name!r}, {layers}, {size})"

    def _repr_html_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """Standalone SVG file of the mean of all layers and heads."""
        labels = self.queries, self.keys
        return draw_attention(self.name, self.describe(), *labels, self.select(), self.allowed)

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file (.svg); missing folders are created."""
        write_rendering(path, {".svg": self.svg})

    @property
    def weights(self) -> np.ndarray:
        """Weights (layers, heads, queries, keys), if all layers have the same number of heads."""
        return np.stack(self.layers)

    def select(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """Select the weights (queries, keys) of one head; without a head or layer, the mean of all.

        Negative layers and heads count from the end.
        """
        for name, value in (("layer", layer), ("head", head)):
            if value is not None:
                check_whole(name, value, least=-sys.maxsize)
        count = len(self.layers)
        if layer is not None and not -count <= layer < count:
            raise BadInput(f"{self.name}: no layer {layer}; there are 0 to {count - 1}")
        layers = self.layers if layer is None else (self.layers[layer],)
        if head is None:
            selected = [weights_HLS.mean(axis=0) for weights_HLS in layers if len(weights_HLS)]
        else:
            selected = [weights_HLS[head] for weights_HLS in layers if _has(weights_HLS, head)]
        if not selected:
            most = max(map(len, layers), default=0)
            fault = f"no such head ({self.describe(layer, head)})"
            raise BadInput(f"{self.name}: {fault}; there are 0 to {most - 1}")
        return np.mean(selected, axis=0)

    def describe(self, layer: int | None = None, head: int | None = None) -> str:
        """Description of the weights that ``select`` returns for the same arguments."""
        layer, head = self.indices(layer, head)
        which_layer = "mean of all layers" if layer is None else f"layer {layer}"
        which_head = "mean of all heads" if head is None else f"head {head}"
        return f"{self.name}, {which_layer}, {which_head}"

    def indices(self, layer: int | None, head: int | None) -> tuple[int | None, int | None]:
        """Convert layer and head to indices from 0; negative ones count from the end.

        A head is unchanged if all layers are selected and differ in their number of heads.
        """
        layers = self.layers if layer is None else (self.layers[layer],)
        if head is not None:
            counts = {len(weights_HLS) for weights_HLS in layers if _has(weights_HLS, head)}
            head = range(*counts)[head] if len(counts) == 1 else head
        return None if layer is None else range(len(self.layers))[layer], head

    def mean_of_heads(self) -> "AttentionMap":
        """Map with one head in each layer, the mean of all."""
        sums = ((each.sum(axis=0, keepdims=True), len(each)) for each in self.layers)
        return replace(self, layers=tuple(sum_1LS / max(heads, 1) for sum_1LS, heads in sums))

    def crop(self, name: str, queries: Sequence[int], keys: Sequence[int]) -> "AttentionMap":
        """Map of some queries and some keys, by their indices."""
        places = np.ix_(queries, keys)
        special_queries, special_keys = (
            tuple(at for at, index in enumerate(chosen) if index in specials)
            for chosen, specials in ((queries, self.special_queries), (keys, self.special_keys))
        )
        return replace(
            self,
            name=name,
            queries=tuple(self.queries[index] for index in queries),
            keys=tuple(self.keys[index] for index in keys),
            layers=tuple(weights_HLS[:, queries][:, :, keys] for weights_HLS in self.layers),
            allowed=None if self.allowed is None else self.allowed[places],
            special_queries=special_queries,
            special_keys=special_keys,
        )

    def merged(
        self, queries: Sequence[str], keys: Sequence[str], query_groups: Groups, key_groups: Groups
    ) -> "AttentionMap":
        """Map at word level: ``queries[i]`` is the word of the tokens ``query_groups[i]``."""
        layers = tuple(merge(weights, query_groups, key_groups) for weights in self.layers)
        allowed = self.allowed
        if allowed is not None:  # a word may attend where any of its tokens may
            allowed = merge(allowed, query_groups, key_groups) > 0
        return replace(
            self,
            queries=tuple(queries),
            keys=tuple(keys),
            layers=layers,
            allowed=allowed,
            special_queries=_within(self.special_queries, query_groups),
            special_keys=_within(self.special_keys, key_groups),
        )


def merge(weights_LS: np.ndarray, query_groups: Groups, key_groups: Groups) -> np.ndarray:
    """Merge token-level weights to word level; any axes may precede the last two.

    Attention *to* a split word is the sum over its tokens, attention *from* it their mean (Clark et
    al., 2019, arXiv:1906.04341, section 4.1), so rows still sum to one when every key is in one
    group. The weight of a key in no group is dropped.
    """
    to_words = _membership(key_groups, weights_LS.shape[-1])
    from_words = _membership(query_groups, weights_LS.shape[-2])
    tokens_per_word = np.maximum(from_words.sum(axis=1, keepdims=True), 1)
    return (from_words / tokens_per_word) @ weights_LS @ to_words.T


def _membership(groups: Groups, size: int) -> np.ndarray:
    """Matrix (groups, tokens): one if the token belongs to the group, else zero."""
    membership = np.zeros((len(groups), size))
    for row, group in enumerate(groups):
        membership[row, list(group)] = 1
    return membership


def _within(positions: Iterable[int], groups: Groups) -> tuple[int, ...]:
    """Indices of the groups, not empty, of which all tokens are at these positions."""
    among = set(positions)
    return tuple(word for word, group in enumerate(groups) if group and among.issuperset(group))


def _has(weights_HLS: np.ndarray, head: int) -> bool:
    return -len(weights_HLS) <= head < len(weights_HLS)


def rollout(layers: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Attention rollout (queries, keys) after each layer (equation 1).

    The identity, for the residual connection, is added to the mean of the heads of a layer, and
    rows are divided by their sums; the matrices of all layers so far are multiplied.
    """
    product_LS: np.ndarray | None = None
    for weights_HLS in layers:
        identity_LS = np.eye(weights_HLS.shape[-1])
        step_LS = weights_HLS.sum(0, dtype=np.float64) / max(len(weights_HLS), 1) + identity_LS
        step_LS /= step_LS.sum(-1, keepdims=True)
        product_LS = step_LS if product_LS is None else step_LS @ product_LS
        yield product_LS


class RolloutMap(AttentionMap):
    """Rollout of self-attention, from the input through each layer, with one "head"."""

    without_layer: ClassVar[str] = "all"

    @classmethod
    def of(cls, attention: AttentionMap) -> "RolloutMap":
        """Rollout of the weights of all layers, over tokens."""
        layers = tuple(product_LS[None] for product_LS in rollout(attention.layers))
        labels = f"{attention.name} rollout", attention.queries, attention.keys
        specials = attention.special_queries, attention.special_keys
        return cls(*labels, layers, attention.allowed, *specials)

    def select(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        if head is not None:
            raise BadInput(f"{self.name}: rollout averages heads: do not choose a head")
        return super().select(-1 if layer is None else layer)

    def describe(self, layer: int | None = None, head: int | None = None) -> str:
        layers = "all layers" if layer is None else f"through layer {self.indices(layer, None)[0]}"
        return f"{self.name}, {layers}"
