"""A beam search in characters: one line a candidate, step by step, then what was set aside."""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from regard.inside.beamtree import BRIEFLY, PRUNED, BeamTree
from regard.inside.labels import clip, visible, visible_line

WIDEST = 18  # columns of a piece
ACCENT, QUIET = Style(color="red", bold=True), Style(dim=True)
MARKS = {"kept": "│", "finished": "■", "unfinished": "□", "stuck": "□"}
WON, DROPPED = "┃", "×"


def lines(tree: BeamTree, width: int = 80, pruned: int = 2) -> Iterator[Text]:
    """No line is wider than ``width`` (at least 40); ``pruned`` of each step are shown, at most."""
    width = max(width, 40)
    yield Text(clip(visible_line(tree.title), width))
    yield Text(clip(visible_line(tree.found[0].text), width), ACCENT)
    yield from _wrapped(tree.summary, width)
    yield from _wrapped(
        f"{WON} the winner  {MARKS['kept']} goes on  {MARKS['finished']} set aside  "
        f"{DROPPED} pruned  ‹2 continues the second of the step before",
        width,
    )
    side = min(max(cell_len(visible(node.piece)) for node in tree.nodes[1:]), WIDEST)
    for step in range(1, tree.steps + 1):
        yield from _step(tree, step, width, side, pruned)
    yield Text()
    yield from _found(tree, width)
    yield Text()
    yield from _choices(tree, width)


def _step(tree: BeamTree, step: int, width: int, side: int, pruned: int) -> Iterator[Text]:
    yield Text()
    heading = f"{'step ' + str(step):<{side + 10}} {'token':>7} {'log p':>8} {'score':>8}"
    yield Text(clip(heading, width), QUIET)
    dropped = [one for one in tree.at(step) if tree.nodes[one].fate in PRUNED]
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
    mark = WON if won and node.fate == "kept" else MARKS.get(node.fate, DROPPED)
    piece = clip(node.piece, side)
    label = piece + " " * (side - cell_len(piece))
    row = (
        f"{node.rank:>3} {mark} {label} ‹{tree.nodes[node.parent].rank:<2} "
        f"{node.logprob:>7.2f} {node.total:>8.2f} {node.score:>8.3f}"
    )
    row += f"  {BRIEFLY[node.fate]}".rstrip()
    return Text(clip(row, width), ACCENT if won else QUIET if node.fate in PRUNED else "")


def _found(tree: BeamTree, width: int) -> Iterator[Text]:
    heading = f"set aside {'score':>9} {'log p':>8} {'n':>3}"
    yield Text(clip(heading, width), QUIET)
    for place, one in enumerate(tree.found, 1):
        it = one.hypothesis
        unfinished = "" if it.finished else "  (unfinished)"
        row = (
            f"{place:>9} {it.score:>9.3f} {it.logprob:>8.2f} {len(it.logprobs):>3}  "
            f"{visible_line(one.text)}{unfinished}"
        )
        yield Text(clip(row, width), ACCENT if place == 1 else "")


def _choices(tree: BeamTree, width: int) -> Iterator[Text]:
    """What other length rules would have chosen, the same choices together."""
    yield from _wrapped("from what was set aside, other length rules would have chosen", width)
    for choice in tree.choices:
        other = "" if choice.found == 0 else f"  {visible_line(tree.found[choice.found].text)}"
        row = f"{choice.found + 1:>9} {choice.score:>9.3f}  {choice.formula}{other}"
        yield Text(clip(row, width), "" if choice.found else QUIET)


def _wrapped(words: str, width: int) -> list[Text]:
    """A remark, in as many lines as it takes."""
    rows, row = [], ""
    for word in words.split(" "):
        if row and cell_len(row) + 1 + cell_len(word) > width:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    return [Text(clip(one, width), QUIET) for one in [*rows, row]]
