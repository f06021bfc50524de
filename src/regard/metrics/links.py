"""Word alignments: file formats, alignment error rate and symmetrisation.

A link (i, j) joins source word i and target word j, both counted from 0. The error rate follows
Och & Ney (2003). Two directional alignments are symmetrised as in Och & Ney (2003) and Koehn et al.
(2003): their intersection has high precision, their union high recall, and the grow heuristics
extend the intersection towards the union.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from regard.core.errors import BadInput

Link = tuple[int, int]
Links = frozenset[Link]
Lengths = tuple[int, int]

_LINK = re.compile(r"([0-9]{1,9})([-p?])([0-9]{1,9})")
Symmetrisation = Literal[
    "intersection", "grow-diag", "grow-diag-final-and", "grow-diag-final", "union"
]
HOW = get_args(Symmetrisation)
_BESIDE = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class GoldLinks:
    """Gold links of a pair: sure links, and possible links, which include the sure ones."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)


@dataclass(frozen=True)
class AlignmentScore:
    """Fractions from 0 to 1 over a corpus, and the number of predicted links."""

    aer: float
    precision: float
    recall: float
    links: int


def format_pharaoh(links: Links) -> str:
    """Links as ``0-0 1-2``, sorted by source word."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def parse_gold(line: str, base: int, where: str, lengths: Lengths | None = None) -> GoldLinks:
    """Parse sure (``-``) and possible (``p``, ``?``) links, counted from ``base``.

    Indices must be below ``lengths`` (source, target), if given. Errors name ``where`` (file:line).
    """
    sure, possible = set[Link](), set[Link]()
    for written in line.split():
        match = _LINK.fullmatch(written)
        if match is None:
            raise BadInput(f"{where}: {written!r} is not a link such as {base}-{base}")
        link = int(match[1]) - base, int(match[3]) - base
        if min(link) < 0:
            raise BadInput(f"{where}: link {written!r} is out of range: words count from {base}")
        if lengths and not _inside(link, lengths):
            words = f"the pair has {lengths[0]} source and {lengths[1]} target words"
            raise BadInput(f"{where}: link {written!r} is out of range: {words}")
        (sure if match[2] == "-" else possible).add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def _inside(link: Link, lengths: Lengths) -> bool:
    return 0 <= link[0] < lengths[0] and 0 <= link[1] < lengths[1]


def alignment_error_rate(hypotheses: Sequence[Links], golds: Sequence[GoldLinks]) -> AlignmentScore:
    """AER = 1 − (|A∩S| + |A∩P|) / (|A| + |S|), with counts over the corpus.

    Without predicted links precision is 1, without sure links recall is 1, and without either AER
    is 0.
    """
    if len(hypotheses) != len(golds):
        raise BadInput(
            f"alignments of {len(hypotheses)} sentence pairs, but gold links of {len(golds)}"
        )
    pairs = list(zip(hypotheses, golds, strict=True))
    links = sum(len(hypothesis) for hypothesis in hypotheses)
    sure = sum(len(gold.sure) for gold in golds)
    hit_sure = sum(len(hypothesis & gold.sure) for hypothesis, gold in pairs)
    hit_possible = sum(len(hypothesis & gold.possible) for hypothesis, gold in pairs)
    aer = 1 - _ratio(hit_sure + hit_possible, links + sure)
    return AlignmentScore(aer, _ratio(hit_possible, links), _ratio(hit_sure, sure), links)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 1.0


def groups(links: Links) -> list[tuple[frozenset[int], frozenset[int]]]:
    """The connected components of links: their source and target words."""
    components: list[tuple[frozenset[int], frozenset[int]]] = []
    for source, target in sorted(links):
        sources, targets = frozenset([source]), frozenset([target])
        apart = []
        for group in components:
            if source in group[0] or target in group[1]:
                sources, targets = sources | group[0], targets | group[1]
            else:
                apart.append(group)
        components = [*apart, (sources, targets)]
    return components


def link_types(links: Links, source_length: int, target_length: int) -> Counter[str]:
    """Count link groups by shape, and unlinked and fertile words (Brown et al., 1993).

    ``1-1``, ``1-n`` (one source word), ``n-1`` (one target word) and ``n-m`` count groups;
    ``spurious`` target words and ``unaligned`` source words have no link; ``fertile`` source words
    have two or more.
    """
    outside = [link for link in links if not _inside(link, (source_length, target_length))]
    if outside:
        raise ValueError(f"links {sorted(outside)} outside {source_length} x {target_length} words")
    fertility = Counter(source for source, _ in links)
    counts = Counter(dict.fromkeys(("1-1", "1-n", "n-1", "n-m"), 0))
    counts["spurious"] = target_length - len({target for _, target in links})
    counts["unaligned"] = source_length - len(fertility)
    counts["fertile"] = sum(targets >= 2 for targets in fertility.values())
    counts.update(_shape(len(sources), len(targets)) for sources, targets in groups(links))
    return counts


def _shape(sources: int, targets: int) -> str:
    if sources == 1:
        return "1-1" if targets == 1 else "1-n"
    return "n-1" if targets == 1 else "n-m"


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
        raise BadInput(f"symmetrisation must be one of {', '.join(HOW)}, not {how!r}")
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
    """Growing alignment: its links, and the words that they link."""

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
                    self.add([link for link in beside if link in union], neither=False, sort=False)

    def add(self, links: Iterable[Link], *, neither: bool, sort: bool = True) -> None:
        """Add links whose source or target word (with ``neither``, both) is unlinked."""
        for source, target in _in_order(links) if sort else links:
            alone = source not in self.sources, target not in self.targets
            if all(alone) if neither else any(alone):
                self.links.add((source, target))
                self.sources.add(source)
                self.targets.add(target)


def _in_order(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (link[1], link[0]))
