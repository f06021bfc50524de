"""A beam search as a drawing (SVG): steps go down; what goes on or ends stands in order of rank.

The same drawing is a file of its own, in plain colours, or part of a page, in the page's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len

from regard.inside.beamtree import BRIEFLY, PRUNED, BeamTree, Node
from regard.inside.drawing import ACCENT, FONT, INK, LETTER, MARGIN, PAPER, QUIET, RULE, TITLE
from regard.inside.labels import clip, visible_line

ROW, BOX, GAP, PAD = 54, 26, 12, 8  # pixels: of a step, of a node, between nodes, inside one
SMALL = 11  # the letters of figures
LONGEST, LINE = 16, 120  # letters of a piece, and of a line of the heading
NAMED = 3  # pruned candidates that a step names
HEADING = 5 * TITLE
COLOURS = {
    "ink": INK,
    "quiet": QUIET,
    "rule": RULE,
    "paper": "#" + bytes(PAPER).hex(),
    "accent": "#" + bytes(ACCENT).hex(),
}


@dataclass(frozen=True)
class Place:
    """Where a node stands: its left edge, its top, its width."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """Where its edges begin and end."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class Drawing:
    """``in_page`` leaves colours, heading and tooltips' marks to the page around it."""

    tree: BeamTree
    in_page: bool = False

    def svg(self) -> str:
        """The whole of it."""
        tree, top = self.tree, MARGIN + (0 if self.in_page else HEADING)
        places = self.places(top)
        right = max(place.x + place.width for place in places.values()) + 2 * GAP
        pruned = {step: _pruned(tree, step) for step in range(1, tree.steps + 1)}
        least = 0 if self.in_page else _length("m" * LINE)
        width = max(right + max(map(_length, pruned.values())) + MARGIN, least)
        height = top + ROW * tree.steps + BOX + MARGIN
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" '
                f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
                f'font-family="Charter, Georgia, serif" font-size="{FONT}">',
                f"<title>{escape(visible_line(tree.title))}</title>",
                f"<desc>{escape(tree.summary)}</desc>",
                *([] if self.in_page else self.heading()),
                *self.edges(places),
                *(line for number, place in places.items() for line in self.node(number, place)),
                *(line for one in pruned.items() for line in self.beside(right, top, *one)),
                "</svg>\n",
            ]
        )

    def paint(self, **roles: str) -> str:
        """Attributes that colour, by themselves or as the page has it: ``fill="ink"``."""
        if not self.in_page:
            return " ".join(f'{what}="{COLOURS[role]}"' for what, role in roles.items())
        mixed = {"paper": "rgb(var(--paper))", "accent": "rgb(var(--accent))"}
        values = {what: mixed.get(role, f"var(--{role})") for what, role in roles.items()}
        return 'style="' + ";".join(f"{what}:{value}" for what, value in values.items()) + '"'

    def places(self, top: float) -> dict[int, Place]:
        """Where each node stands that was not pruned."""
        tree = self.tree
        shown = [[0], *(_unpruned(tree, step) for step in range(1, tree.steps + 1))]
        widths = [_width(tree.nodes[one]) for row in shown for one in row]
        width, left = max(widths), MARGIN + 2 * PAD + SMALL
        return {
            number: Place(left + column * (width + GAP), top + ROW * step, width)
            for step, row in enumerate(shown)
            for column, number in enumerate(row)
        }

    def heading(self) -> Iterator[str]:
        """Paper, the title, what was found, and how."""
        yield f'<rect width="100%" height="100%" {self.paint(fill="paper")}/>'
        best, summary = self.tree.found[0].text, self.tree.summary
        for line, (words, role, size, room) in enumerate(
            (
                (self.tree.title, "ink", TITLE, LINE * SMALL // TITLE),
                (best, "accent", TITLE, LINE * SMALL // TITLE),
                (summary, "quiet", SMALL, LINE),
            )
        ):
            at = f'x="{MARGIN}" y="{MARGIN + TITLE * (0.6 + 1.3 * line):.0f}" font-size="{size}"'
            shown = escape(clip(visible_line(words), room))
            yield f"<text {at} {self.paint(fill=role)}>{shown}</text>"

    def edges(self, places: dict[int, Place]) -> Iterator[str]:
        """From each node to those that continue it; the winner's last, so that they lie on top."""
        won = set(self.tree.winner)
        for number, place in sorted(places.items(), key=lambda one: one[0] in won):
            parent = self.tree.nodes[number].parent
            if parent is None:
                continue
            above = places[parent]
            y, half = above.y + BOX, (place.y - above.y - BOX) / 2
            curve = (
                f"M{above.middle:.1f} {y:.1f}C{above.middle:.1f} {y + half:.1f} "
                f"{place.middle:.1f} {y + half:.1f} {place.middle:.1f} {place.y:.1f}"
            )
            role, thick = ("accent", 2.4) if number in won else ("quiet", 0.8)
            mark = f' data-from="{parent}" data-to="{number}"' if self.in_page else ""
            yield (
                f'<path d="{curve}" stroke-width="{thick}" fill="none" '
                f"{self.paint(stroke=role)}{mark}/>"
            )

    def node(self, number: int, place: Place) -> Iterator[str]:
        """A box with the piece and its figures; what was set aside has corners."""
        node = self.tree.nodes[number]
        won, aside = number in self.tree.winner, node.fate != "kept"
        mark = f' class="node" data-node="{number}" tabindex="0"' if self.in_page else ""
        yield f"<g{mark}><title>{escape(told(self.tree, number))}</title>"
        size = f'x="{place.x:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{BOX}"'
        colours = self.paint(fill="paper", stroke="accent" if won else "ink" if aside else "rule")
        thick = 1.6 if won or aside else 1
        yield f'<rect {size} rx="{1 if aside else BOX / 2}" stroke-width="{thick}" {colours}/>'
        piece, figures = _labels(node)
        y = f'y="{place.y + BOX / 2 + 0.34 * FONT:.1f}"'
        ink, quiet = self.paint(fill="accent" if won else "ink"), self.paint(fill="quiet")
        yield f'<text x="{place.x + PAD:.1f}" {y} {ink}>{escape(piece)}</text>'
        end = f'x="{place.x + place.width - PAD:.1f}" {y} font-size="{SMALL}" text-anchor="end"'
        yield f"<text {end} {quiet}>{escape(figures)}</text></g>"

    def beside(self, right: float, top: float, step: int, pruned: str) -> Iterator[str]:
        """The number of a step before it, and what was pruned after it."""
        y = f'y="{top + ROW * step + BOX / 2 + 0.34 * SMALL:.1f}" font-size="{SMALL}"'
        for x, words in ((MARGIN, str(step)), (right, pruned)):
            yield f'<text x="{x:.1f}" {y} {self.paint(fill="quiet")}>{escape(words)}</text>'


def drawing(tree: BeamTree) -> str:
    """A file of its own."""
    return Drawing(tree).svg()


def told(tree: BeamTree, number: int) -> str:
    """All there is to say of a node."""
    node = tree.nodes[number]
    if node.parent is None:
        return "the beginning"
    return (
        f"{visible_line(tree.written(number))}: token {node.logprob:.3f}, log p {node.total:.3f}, "
        f"score {node.score:.3f}, rank {node.rank} of step {node.step}; {tree.why(number)}"
    )


def _labels(node: Node) -> tuple[str, str]:
    """What a box says: the piece, and log p; where set aside, also the score it came to."""
    if node.parent is None:
        return clip(node.piece, LONGEST), ""
    score = "" if node.fate == "kept" else f" → {node.score:.2f}"
    return clip(node.piece, LONGEST), f"{node.total:.2f}{score}"


def _width(node: Node) -> float:
    piece, figures = _labels(node)
    return 2 * PAD + FONT * LETTER * cell_len(piece) + PAD * bool(figures) + _length(figures)


def _unpruned(tree: BeamTree, step: int) -> list[int]:
    return [one for one in tree.at(step) if tree.nodes[one].fate not in PRUNED]


def _pruned(tree: BeamTree, step: int) -> str:
    """The first candidates that were pruned, each with the rank of what it continues, and why."""
    dropped = [tree.nodes[one] for one in tree.at(step) if tree.nodes[one].fate in PRUNED]
    named = []
    for node in dropped[:NAMED]:
        assert node.parent is not None
        parent = tree.nodes[node.parent].rank
        named.append(f"{clip(node.piece, LONGEST)} {node.total:.2f} ‹{parent}")
    if not named:
        return ""
    more = f" and {len(dropped) - NAMED} more" if len(dropped) > NAMED else ""
    fates = dict.fromkeys(BRIEFLY[node.fate] for node in dropped)
    return f"× {', '.join(named)}{more} ({'; '.join(fates)})"


def _length(words: str) -> float:
    return SMALL * LETTER * cell_len(words)
