"""Attention rollout (Abnar & Zuidema, 2020, arXiv:2005.00928): attention through several layers."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from regard.ground.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap


def rollout(layers: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """(queries, keys) after each layer: how much a state is made of each input (equation 1).

    A layer passes on the mean of its heads (heads, queries, keys) and, by the residual connection,
    the state itself: the identity is added, and rows are divided by their sums.
    """
    passed_LS: np.ndarray | None = None
    for weights_HLS in layers:
        identity_LS = np.eye(weights_HLS.shape[-1])
        step_LS = weights_HLS.sum(0, dtype=np.float64) / max(len(weights_HLS), 1) + identity_LS
        step_LS /= step_LS.sum(-1, keepdims=True)
        passed_LS = step_LS if passed_LS is None else step_LS @ passed_LS
        yield passed_LS


class RolloutMap(AttentionMap):
    """The rollout of self-attention, from the input through each layer; there is one "head"."""

    without_layer: ClassVar[str] = "all"

    @classmethod
    def of(cls, attention: AttentionMap) -> "RolloutMap":
        """From the weights of all layers, over tokens."""
        layers = tuple(passed_LS[None] for passed_LS in rollout(attention.layers))
        labels = f"{attention.name} rollout", attention.queries, attention.keys
        return cls(*labels, layers, attention.allowed)

    def select(self, layer: int | None = None, head: int | None = None) -> np.ndarray:
        """The rollout (queries, keys) through a layer; by default through all."""
        if head is not None:
            raise BadInput(f"{self.name}: heads are averaged: choose none")
        return super().select(-1 if layer is None else layer)

    def describe(self, layer: int | None = None, head: int | None = None) -> str:
        """A description of what ``select`` returns for the same arguments."""
        layers = "all layers" if layer is None else f"through layer {self.numbers(layer, None)[0]}"
        return f"{self.name}, {layers}"
