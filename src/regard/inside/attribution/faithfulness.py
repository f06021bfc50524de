"""Comparison of attribution methods: rank correlation, and deletion curves."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from regard.inside.attribution.target_function import TargetFunction
from regard.metrics.regression import spearman

RANDOM = "random"
SEEDS = 5  # random orders, of which the mean curve is shown
STEPS = 20  # of a deletion curve, at most


def agreement(weights: Mapping[str, np.ndarray]) -> dict[tuple[str, str], float]:
    """Spearman correlation of every two methods over words, mean over targets."""
    return {
        (first, second): float(
            np.mean([spearman(*rows) for rows in zip(weights[first], weights[second], strict=True)])
        )
        for first, second in combinations(weights, 2)
    }


class DeletionCurves(NamedTuple):
    """Mean probability of the targets after each share of words is deleted, by method.

    Words are deleted by decreasing attribution, or in random order: the faster the probability
    falls, the better the method has found what decides (Samek et al., 2017; "MoRF").
    """

    shares: tuple[float, ...]
    curves: Mapping[str, tuple[float, ...]]

    @property
    def areas(self) -> dict[str, float]:
        """Area under each curve; lower is better."""
        return {
            name: float(np.trapezoid(curve, self.shares)) for name, curve in self.curves.items()
        }


def deletion_curves(function: TargetFunction, weights: Mapping[str, np.ndarray]) -> DeletionCurves:
    """Deletion curves of all methods, and the mean curve of five random orders."""
    words, targets = len(function.given.words), len(function.targets.names)
    counts = sorted({round(count) for count in np.linspace(0, words, min(words, STEPS) + 1)})
    curves = {
        name: _curve(function, np.argsort(-weights_MW, axis=1, kind="stable"), counts)
        for name, weights_MW in weights.items()
    }
    orders = (np.random.default_rng(seed).permutation(words) for seed in range(SEEDS))
    drawn = [_curve(function, np.tile(order_W, (targets, 1)), counts) for order_W in orders]
    curves[RANDOM] = np.mean(drawn, axis=0)
    named = {name: tuple(curve.tolist()) for name, curve in curves.items()}
    return DeletionCurves(tuple(count / words for count in counts), named)


def _curve(function: TargetFunction, orders_MW: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Mean probability of all targets when the first words of their orders are deleted."""
    targets, words = orders_MW.shape
    deleted_MNW = np.zeros((targets, len(counts), words), bool)
    for target, order_W in enumerate(orders_MW):
        for number, count in enumerate(counts):
            deleted_MNW[target, number, order_W[:count]] = True
    scores_NM = function.scores_without(deleted_MNW.reshape(-1, words))[1].numpy()
    scores_MNM = scores_NM.reshape(targets, len(counts), targets)
    own_MN = np.stack([scores_MNM[target, :, target] for target in range(targets)])
    return function.targets.probabilities(own_MN).mean(0)
