"""Searches as SVG: a row per step, without pruned candidates; for pages, a column per step.

The script of a page finds a candidate by ``data-node``, and the edge to it by ``data-edge``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple, Protocol

from regard.inside.trees.tree_nodes import ENDED, PRUNED, SHORT, BeamNode, TreeHypothesis
from regard.views import markup
from regard.views.markup import FONT, MARGIN, SANS, TITLE, clip, escape_line, text_length
from regard.views.palette import LIGHT, PAGE, Palette

ROW, BOX, GAP, PAD = 54, 26, 12, 8  # pixels: a step, a node, between nodes, inside a node
SMALL = 11  # font size of figures
LONGEST, LINE = 16, 120  # characters of a token, and of a line of the heading
NAMED = 3  # pruned candidates listed per step
HEADING = 5 * TITLE
LEVEL, HIGH, APART, CHANCE = 30, 22, 34, 2.5  # of a page: lines, boxes, between steps, bars


class NodeBox(NamedTuple):
    """Position of a node: left edge, top and width in pixels."""

    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """Horizontal position at which edges meet the box."""
        return self.x + self.width / 2


class DrawnTree(Protocol):
    """Protocol of search trees: candidates, and figures of each by its index."""

    @property
    def title(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def nodes(self) -> Sequence[BeamNode]: ...
    @property
    def hypotheses(self) -> Sequence[TreeHypothesis]: ...
    @property
    def winner(self) -> Sequence[int]: ...
    @property
    def steps(self) -> int: ...
    def at(self, step: int) -> list[int]: ...
    def label(self, number: int) -> str: ...
    def figures(self, number: int) -> str: ...
    def why(self, number: int) -> str: ...
    def prefix_text(self, number: int) -> str: ...
    def chance(self, number: int) -> float | None: ...


@dataclass(frozen=True)
class BeamDrawing:
    """SVG of a search tree, a standalone file."""

    tree: DrawnTree

    def svg(self) -> str:
        """Complete SVG element."""
        tree, top = self.tree, MARGIN + HEADING
        boxes = self.boxes(top)
        right = max(box.x + box.width for box in boxes.values()) + 2 * GAP
        pruned = {step: _pruned(tree, step) for step in range(1, tree.steps + 1)}
        least = text_length("m" * LINE, SMALL)
        beside = max(text_length(text, SMALL) for text in pruned.values())
        width, height = max(right + beside + MARGIN, least), top + ROW * tree.steps + BOX + MARGIN
        parts = [
            f"<desc>{escape(tree.summary)}</desc>",
            *self.heading(),
            *self.edges(boxes),
            *(line for number, box in boxes.items() for line in self.node(number, box)),
            *(line for row in pruned.items() for line in self.beside(right, top, *row)),
        ]
        return markup.svg_element(tree.title, width, height, parts)

    def paint(self, **roles: str) -> str:
        """Attributes for the colours of these roles, such as ``fill="ink"``."""
        return " ".join(f'{what}="{getattr(LIGHT, role)}"' for what, role in roles.items())

    def boxes(self, top: float) -> dict[int, NodeBox]:
        """Boxes of the nodes that were not pruned."""
        tree, nodes = self.tree, self.tree.nodes
        steps = range(1, tree.steps + 1)
        shown = [[0], *([n for n in tree.at(s) if nodes[n].fate not in PRUNED] for s in steps)]
        widths = [_width(tree, number) for row in shown for number in row]
        width, left = max(widths), MARGIN + 2 * PAD + SMALL
        return {
            number: NodeBox(left + column * (width + GAP), top + ROW * step, width)
            for step, row in enumerate(shown)
            for column, number in enumerate(row)
        }

    def heading(self) -> Iterator[str]:
        """Background, source sentence, best hypothesis and summary."""
        yield f'<rect width="100%" height="100%" {self.paint(fill="paper")}/>'
        columns = LINE * SMALL // TITLE
        lines = (
            (self.tree.title, "ink", TITLE, columns),
            (self.tree.hypotheses[0].text, "accent", TITLE, columns),
            (self.tree.summary, "quiet", SMALL, LINE),
        )
        for line, (text, role, size, columns) in enumerate(lines):
            at = f'x="{MARGIN}" y="{MARGIN + TITLE * (0.6 + 1.3 * line):.0f}" font-size="{size}"'
            shown = escape(clip(escape_line(text), columns))
            yield f"<text {at} {self.paint(fill=role)}>{shown}</text>"

    def edges(self, boxes: dict[int, NodeBox]) -> Iterator[str]:
        """Draw a curve from each node to its continuations; the winner's come last, on top."""
        won = set(self.tree.winner)
        for number, box in sorted(boxes.items(), key=lambda item: item[0] in won):
            parent = self.tree.nodes[number].parent
            if parent is None:
                continue
            above = boxes[parent]
            y, half = above.y + BOX, (box.y - above.y - BOX) / 2
            curve = (
                f"M{above.middle:.1f} {y:.1f}C{above.middle:.1f} {y + half:.1f} "
                f"{box.middle:.1f} {y + half:.1f} {box.middle:.1f} {box.y:.1f}"
            )
            role, thick = ("accent", 2.4) if number in won else ("quiet", 0.8)
            stroke = f'stroke-width="{thick}" fill="none" {self.paint(stroke=role)}'
            yield f'<path d="{curve}" {stroke}/>'

    def node(self, number: int, box: NodeBox) -> Iterator[str]:
        """Draw a box with the token and its figures; hypotheses that ended have square corners."""
        node = self.tree.nodes[number]
        won, ended = number in self.tree.winner, node.fate in ENDED
        yield f"<g><title>{escape(describe_node(self.tree, number))}</title>"
        size = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{BOX}"'
        colours = self.paint(fill="paper", stroke="accent" if won else "ink" if ended else "rule")
        thick = 1.6 if won or ended else 1
        yield f'<rect {size} rx="{1 if ended else BOX / 2}" stroke-width="{thick}" {colours}/>'
        piece, figures = _labels(self.tree, number)
        y = f'y="{box.y + BOX / 2 + 0.34 * FONT:.1f}"'
        ink, quiet = self.paint(fill="accent" if won else "ink"), self.paint(fill="quiet")
        yield f'<text x="{box.x + PAD:.1f}" {y} {ink}>{escape(piece)}</text>'
        end = f'x="{box.x + box.width - PAD:.1f}" {y} font-size="{SMALL}" text-anchor="end"'
        yield f"<text {end} {quiet}>{escape(figures)}</text></g>"

    def beside(self, right: float, top: float, step: int, pruned: str) -> Iterator[str]:
        """Draw the number of a step on the left, and its pruned candidates on the right."""
        y = f'y="{top + ROW * step + BOX / 2 + 0.34 * SMALL:.1f}" font-size="{SMALL}"'
        for x, words in ((MARGIN, str(step)), (right, pruned)):
            yield f'<text x="{x:.1f}" {y} {self.paint(fill="quiet")}>{escape(words)}</text>'


def draw_columns(tree: DrawnTree, colours: Palette = PAGE) -> str:
    """All candidates for a page, a column per step, the pruned ones below the others."""
    boxes, left = dict[int, NodeBox](), 4.0
    for step in range(tree.steps + 1):
        column = sorted(tree.at(step), key=lambda n: (tree.nodes[n].fate in PRUNED, n))
        width = max(SANS * _width(tree, number) for number in column) + PAD
        for level, number in enumerate(column):
            boxes[number] = NodeBox(left, 2 + LEVEL * level, width)
        left += width + APART
    height = max(box.y for box in boxes.values()) + LEVEL
    parts = [
        *_links(tree, boxes, colours),
        *(line for n, box in boxes.items() for line in _candidate(tree, n, box, colours)),
    ]
    return markup.svg_element(tree.title, left - APART + 8, height, parts, colours.ink)


def _links(tree: DrawnTree, boxes: dict[int, NodeBox], colours: Palette) -> Iterator[str]:
    """Draw a curve from each candidate to its continuations."""
    for number, box in boxes.items():
        parent = tree.nodes[number].parent
        if parent is None:
            continue
        before = boxes[parent]
        x, end = before.x + before.width, box.y + HIGH / 2
        start, middle = before.y + HIGH / 2, (x + box.x) / 2
        curve = f"M{x:.1f} {start}C{middle:.1f} {start} {middle:.1f} {end} {box.x:.1f} {end}"
        yield f'<path data-edge="{number}" d="{curve}" fill="none" stroke="{colours.rule}"/>'


def _candidate(tree: DrawnTree, number: int, box: NodeBox, colours: Palette) -> Iterator[str]:
    """Draw a box with the token, its figures and a bar for its probability."""
    fate, chance = tree.nodes[number].fate, tree.chance(number)
    won, faint = number in tree.winner, fate in PRUNED or fate == "passed"
    paper, ink = (colours.paper, colours.quiet) if faint else (colours.band, colours.ink)
    stroke = f'stroke="{colours.accent if won else colours.rule}" stroke-width="{1 + 0.6 * won:g}"'
    dashes = ' stroke-dasharray="3 3"' if faint and not won else ""
    size = f'x="{box.x:.1f}" y="{box.y}" width="{box.width:.1f}" height="{HIGH}" rx="4"'
    yield f'<g data-node="{number}">'
    yield f'<rect {size} fill="{paper}" {stroke}{dashes}/>'
    piece, figures = _labels(tree, number)
    y = f'y="{box.y + HIGH / 2 + 0.34 * FONT:.1f}"'
    yield f'<text x="{box.x + PAD:.1f}" {y} fill="{ink}">{escape(piece)}</text>'
    end = f'x="{box.x + box.width - PAD:.1f}" {y} font-size="{SMALL}" text-anchor="end"'
    yield f'<text {end} fill="{colours.quiet}">{escape(figures)}</text>'
    if chance is not None:
        place = f'x="{box.x + 1:.1f}" y="{box.y + HIGH - CHANCE - 1}" height="{CHANCE}"'
        long = max(0.0, (box.width - 2) * chance)
        yield f'<rect data-chance="" {place} width="{long:.1f}" fill="{colours.accent}"/>'
    yield "</g>"


def describe_node(tree: DrawnTree, number: int) -> str:
    """All figures of a node, and why it was kept or pruned."""
    node = tree.nodes[number]
    if node.parent is None:
        return "begin of sentence"
    text, rank = escape_line(tree.prefix_text(number)), f"rank {node.rank} of step {node.step}"
    return f"{text}: {tree.figures(number)}, {rank}; {tree.why(number)}"


def _labels(tree: DrawnTree, number: int) -> tuple[str, str]:
    """Texts of a box: the token and its figures."""
    node = tree.nodes[number]
    return clip(node.piece, LONGEST), "" if node.parent is None else tree.label(number)


def _width(tree: DrawnTree, number: int) -> float:
    piece, figures = _labels(tree, number)
    return 2 * PAD + text_length(piece) + PAD * bool(figures) + text_length(figures, SMALL)


def _pruned(tree: DrawnTree, step: int) -> str:
    """First pruned candidates, each with the rank of its parent, and the reasons."""
    dropped = [node for node in map(tree.nodes.__getitem__, tree.at(step)) if node.fate in PRUNED]
    named = []
    for node in dropped[:NAMED]:
        assert node.parent is not None
        parent = tree.nodes[node.parent].rank
        named.append(f"{clip(node.piece, LONGEST)} {node.total:.2f} ‹{parent}")
    if not named:
        return ""
    more = f" and {len(dropped) - NAMED} more" if len(dropped) > NAMED else ""
    fates = dict.fromkeys(SHORT[node.fate] for node in dropped)
    return f"× {', '.join(named)}{more} ({'; '.join(fates)})"
