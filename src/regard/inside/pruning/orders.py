"""Orders in which heads are removed: by importance, by learned gates, or at random."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard.core.errors import BadInput
from regard.inside.pruning.remove_heads import Head, heads_of
from regard.models.attention_site import AttentionSite

Order = Sequence[Head]
"""Heads, the first to be removed first."""


def normalise(importance: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Importance (layers, heads) divided by its norm in each layer (Michel et al., 2019)."""
    norms = {name: _norm(values_LH) for name, values_LH in importance.items()}
    return {name: values_LH / norms[name] for name, values_LH in importance.items()}


def _norm(values_LH: np.ndarray) -> np.ndarray:
    norm_L1 = np.sqrt(np.nansum(np.square(values_LH), axis=1, keepdims=True))
    return np.where(norm_L1 > 0, norm_L1, 1.0)


def order_by(values: Mapping[str, np.ndarray], sites: Sequence[AttentionSite]) -> Order:
    """Heads of sites from the least to the largest of their ``values`` (layers, heads)."""
    heads = [head for site in sites for head in heads_of(site)]
    return sorted(heads, key=lambda head: float(values[head.site][head.layer, head.number]))


def order_in_rounds(
    measure: Callable[[Order], Mapping[str, np.ndarray]],
    sites: Sequence[AttentionSite],
    rounds: int,
    most: float = 1.0,
) -> Order:
    """Heads by values that are measured again after each of ``rounds`` equal parts of the order.

    ``measure`` gets the heads that are off already. There are at most as many rounds as heads, and
    none after the share ``most`` of the heads: the rest comes in the order of the last round.
    """
    order: list[Head] = []
    total = sum(len(heads_of(site)) for site in sites)
    rounds = min(rounds, total)
    for number in range(rounds):
        rest = [head for head in order_by(measure(order), sites) if head not in order]
        ordered = round(total * (number + 1) / rounds)
        if ordered >= round(most * total):
            return [*order, *rest]
        order += rest[: ordered - len(order)]
    return order


def random_order(sites: Sequence[AttentionSite], seed: int) -> Order:
    """Heads of sites in a random order."""
    heads = [head for site in sites for head in heads_of(site)]
    return [heads[place] for place in np.random.default_rng(seed).permutation(len(heads))]


def check_share(share: float) -> float:
    """A share of heads to remove; all heads, or a negative share, are an error."""
    if not 0 <= share < 1:
        raise BadInput(f"share: {share:g} leaves no head, or is below 0; give 0.2, for example")
    return share


def first_of(order: Order, share: float) -> Order:
    """The heads at the beginning of an order that are this share of all, rounded; one stays."""
    return order[: min(round(check_share(share) * len(order)), len(order) - 1)]
