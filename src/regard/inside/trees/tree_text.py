"""Searches as text: one line per candidate, step by step, then the hypotheses."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.inside.trees.beam_tree import BeamTree, SearchTree
from regard.inside.trees.token_tree import TokenTree
from regard.inside.trees.tree_nodes import PRUNED, SHORT
from regard.views.markup import clip, escape_controls, escape_line

WIDEST = 18  # columns of a token
ACCENT, QUIET = Style(color="red", bold=True), Style(dim=True)
MARKS = {"kept": "│", "finished": "■", "unfinished": "□", "stuck": "□"}
WINNER, DROPPED = "┃", "×"


def tree_lines(tree: BeamTree, width: int = 80, pruned: int = 2) -> Iterator[Text]:
    """Lines of a beam search, at most ``width`` columns wide; ``pruned`` candidates per step."""
    width = max(width, 40)
    yield from _heading(tree, width)
    yield from _wrap(tree.summary, width)
    marks = f"{WINNER} winner  {MARKS['kept']} kept  {MARKS['finished']} finished  "
    marks += f"{MARKS['unfinished']} unfinished  {DROPPED} pruned  "
    yield from _wrap(f"{marks}‹2 continues rank 2 of the previous step", width)
    side = _side(tree)
    for step in range(1, tree.steps + 1):
        yield from _step(tree, step, width, side, pruned)
    yield Text()
    yield from _hypotheses(tree, width)
    yield Text()
    yield from _choices(tree, width)


def _heading(tree: SearchTree, width: int) -> Iterator[Text]:
    yield Text(clip(escape_line(tree.title), width))
    yield Text(clip(escape_line(tree.hypotheses[0].text), width), ACCENT)


def _side(tree: SearchTree) -> int:
    """Width of the widest token, in columns."""
    return min(max(cell_len(escape_controls(node.piece)) for node in tree.nodes[1:]), WIDEST)


def _label(piece: str, side: int) -> str:
    piece = clip(piece, side)
    return piece + " " * (side - cell_len(piece))


def _step(tree: BeamTree, step: int, width: int, side: int, pruned: int) -> Iterator[Text]:
    yield Text()
    heading = f"{'step ' + str(step):<{side + 10}} {'token':>7} {'log p':>8} {'score':>8}"
    yield Text(clip(heading, width), QUIET)
    dropped = [number for number in tree.at(step) if tree.nodes[number].fate in PRUNED]
    hidden = set(dropped[pruned:])
    for number in tree.at(step):
        if number not in hidden:
            yield _candidate(tree, number, width, side)
    if hidden:
        more = f"{'':>3} {DROPPED} and {len(hidden)} more pruned"
        yield Text(clip(more, width), QUIET)


def _candidate(tree: BeamTree, number: int, width: int, side: int) -> Text:
    node, won = tree.nodes[number], number in tree.winner
    assert node.parent is not None
    mark = WINNER if won and node.fate == "kept" else MARKS.get(node.fate, DROPPED)
    row = f"{node.rank:>3} {mark} {_label(node.piece, side)} ‹{tree.nodes[node.parent].rank:<2} "
    row += f"{node.logprob:>7.2f} {node.total:>8.2f} {node.score:>8.3f}"
    row += f"  {SHORT[node.fate]}".rstrip()
    return Text(clip(row, width), ACCENT if won else QUIET if node.fate in PRUNED else "")


def _hypotheses(tree: BeamTree, width: int) -> Iterator[Text]:
    heading = f"hypothesis {'score':>8} {'log p':>8} {'n':>3}"
    yield Text(clip(heading, width), QUIET)
    for rank, ended in enumerate(tree.hypotheses, 1):
        hyp = ended.hypothesis
        text = escape_line(ended.text) + ("" if hyp.finished else "  (unfinished)")
        row = f"{rank:>10} {hyp.score:>8.3f} {hyp.logprob:>8.2f} {len(hyp.logprobs):>3}  {text}"
        yield Text(clip(row, width), ACCENT if rank == 1 else "")


def _choices(tree: BeamTree, width: int) -> Iterator[Text]:
    """Best hypothesis under each length penalty."""
    yield from _wrap("the best of these hypotheses under other length penalties", width)
    for choice in tree.choices:
        index = choice.hypothesis
        other = f"  {escape_line(tree.hypotheses[index].text)}" if index else ""
        row = f"{index + 1:>10} {choice.score:>8.3f}  {choice.formula}{other}"
        yield Text(clip(row, width), "" if index else QUIET)


def _wrap(text: str, width: int) -> list[Text]:
    """Lines of a remark, wrapped at ``width`` columns."""
    rows, row = [], ""
    for word in text.split(" "):
        if row and cell_len(row) + 1 + cell_len(word) > width:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    return [Text(clip(line, width), QUIET) for line in [*rows, row]]


def token_lines(tree: TokenTree, width: int = 80) -> Iterator[Text]:
    """Lines of a search without branching, of at most ``width`` columns (at least 40)."""
    width, side = max(width, 40), _side(tree)
    yield from _heading(tree, width)
    yield Text(clip(tree.summary, width), QUIET)
    for step in range(1, tree.steps + 1):
        yield Text()
        yield Text(clip(f"{'step ' + str(step):<{side + 6}} {'p':>7} {'chance':>7}", width), QUIET)
        for number in tree.at(step):
            yield _token_line(tree, number, width, side)


def _token_line(tree: TokenTree, number: int, width: int, side: int) -> Text:
    node, chosen = tree.nodes[number], number in tree.winner
    figures = f"{tree.probability(number):>7.4f} {tree.sampling[number]:>7.4f}"
    remark = tree.why(number) if number == tree.winner[-1] else ""
    label = f"{WINNER if chosen else ' '} {_label(node.piece, side)}"
    row = f"{node.rank:>3} {label} {figures}  {remark}".rstrip()
    return Text(clip(row, width), ACCENT if chosen else "")
