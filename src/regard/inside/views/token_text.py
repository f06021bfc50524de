"""A search without branching in characters: at each step the candidates, the chosen one marked."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text

from regard.inside.trees.token_tree import TokenTree
from regard.inside.views.beam_text import ACCENT, QUIET, WIDEST, WINNER
from regard.inside.views.escape import clip, escape_controls, escape_line


def token_lines(tree: TokenTree, width: int = 80) -> Iterator[Text]:
    """Lines of at most ``width`` columns (at least 40)."""
    width = max(width, 40)
    yield Text(clip(escape_line(tree.title), width))
    yield Text(clip(escape_line(tree.hypotheses[0].text), width), ACCENT)
    yield Text(clip(tree.summary, width), QUIET)
    side = min(max(cell_len(escape_controls(node.piece)) for node in tree.nodes[1:]), WIDEST)
    for step in range(1, tree.steps + 1):
        yield Text()
        yield Text(clip(f"{'step ' + str(step):<{side + 6}} {'p':>7} {'chance':>7}", width), QUIET)
        for number in tree.at(step):
            yield _candidate(tree, number, width, side)


def _candidate(tree: TokenTree, number: int, width: int, side: int) -> Text:
    node, chosen = tree.nodes[number], number in tree.winner
    piece = clip(node.piece, side)
    label = piece + " " * (side - cell_len(piece))
    figures = f"{tree.probability(number):>7.4f} {tree.chances[number]:>7.4f}"
    remark = tree.why(number) if number == tree.winner[-1] else ""
    row = f"{node.rank:>3} {WINNER if chosen else ' '} {label} {figures}  {remark}".rstrip()
    return Text(clip(row, width), ACCENT if chosen else "")
