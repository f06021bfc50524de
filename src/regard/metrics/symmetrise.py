"""Symmetrisation of two directional alignments (Och & Ney, 2003; Koehn et al., 2003).

The intersection of both alignments has high precision, their union high recall; the grow heuristics
extend the intersection towards the union.
"""

from collections.abc import Iterable

from regard.ground.errors import BadInput
from regard.metrics.alignment import Links

HOW = ("intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union")
_BESIDE = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def flipped(links: Links) -> Links:
    """The links with source and target exchanged."""
    return frozenset((target, source) for source, target in links)


def symmetrised(forward: Links, backward: Links, how: str) -> Links:
    """Combine two alignments, both given as (source, target), by one of ``HOW``.

    ``grow-diag`` starts with the intersection and adds links of the union that are adjacent to a
    link, diagonals included, if the source or the target word is unlinked. ``-final`` then adds the
    remaining forward links and backward links if either word is unlinked, ``-final-and`` if both
    are. The order is by target word, then by source word.
    """
    if how not in HOW:
        raise BadInput(f"symmetrise by one of {', '.join(HOW)}, not {how!r}")
    if how == "union":
        return forward | backward
    grown = _Grown(forward & backward)
    if how != "intersection":
        grown.along(forward | backward)
    if "final" in how:
        for links in (forward, backward):
            grown.add(links, neither=how.endswith("and"))
    return frozenset(grown.links)


class _Grown:
    """Links, and the linked words."""

    def __init__(self, links: Links):
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def along(self, union: Links) -> None:
        """Add adjacent links until there are none left."""
        before = -1
        while before != len(self.links):
            before = len(self.links)
            # A link added on the way is visited too if its turn is still to come, hence the union.
            for source, target in _in_order(union):
                if (source, target) in self.links:
                    beside = [(source + i, target + j) for j, i in _BESIDE]
                    self.add([one for one in beside if one in union], neither=False, sort=False)

    def add(self, links: Iterable[tuple[int, int]], *, neither: bool, sort: bool = True) -> None:
        """Add links whose source or target word (with ``neither``, both) is unlinked."""
        for source, target in _in_order(links) if sort else links:
            alone = source not in self.sources, target not in self.targets
            if all(alone) if neither else any(alone):
                self.links.add((source, target))
                self.sources.add(source)
                self.targets.add(target)


def _in_order(links: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(links, key=lambda link: (link[1], link[0]))
