"""Two alignments of the same pair made one (Och & Ney, 2003; Koehn et al., 2003).

A model of one direction links each target word to the source; one of the other direction each
source word to the target. What both say is precise, what either says complete; growing goes from
the first towards the second.
"""

from collections.abc import Iterable

from regard.ground.errors import BadInput
from regard.metrics.alignment import Links

HOW = ("intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union")
_BESIDE = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def flipped(links: Links) -> Links:
    """The same links seen from the other language."""
    return frozenset((target, source) for source, target in links)


def symmetrised(forward: Links, backward: Links, how: str) -> Links:
    """One of ``HOW``; both alignments are given as (source, target).

    ``grow-diag`` begins with the intersection and adds links of the union beside a link it has,
    diagonally too, where the source or the target word has none yet. ``-final`` then adds what
    remains of the forward links, then of the backward ones, where either word has none,
    ``-final-and`` where neither has. Target words are gone through in order, and for each the
    source words.
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
    """Links, and the words that have one."""

    def __init__(self, links: Links):
        self.links = set(links)
        self.sources = {source for source, _ in links}
        self.targets = {target for _, target in links}

    def along(self, union: Links) -> None:
        """Add links beside links until there are no more to add."""
        before = -1
        while before != len(self.links):
            before = len(self.links)
            # A link added on the way is visited too if its turn is still to come, hence the union.
            for source, target in _in_order(union):
                if (source, target) in self.links:
                    beside = [(source + i, target + j) for j, i in _BESIDE]
                    self.add([one for one in beside if one in union], neither=False, sort=False)

    def add(self, links: Iterable[tuple[int, int]], *, neither: bool, sort: bool = True) -> None:
        """Add links whose source or target word, or with ``neither`` both, have none."""
        for source, target in _in_order(links) if sort else links:
            alone = source not in self.sources, target not in self.targets
            if all(alone) if neither else any(alone):
                self.links.add((source, target))
                self.sources.add(source)
                self.targets.add(target)


def _in_order(links: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(links, key=lambda link: (link[1], link[0]))
