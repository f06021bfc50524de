"""A beam search as one offline page: page.beam.html filled with the drawing and its tables."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from regard.inside.beam_drawing import Drawing
from regard.inside.beamtree import PRUNED, BeamTree
from regard.inside.labels import visible, visible_line
from regard.inside.template import filled, text

Row = tuple[str, Sequence[str]]
"""The class of a row, and its cells."""


def page(tree: BeamTree) -> str:
    """A self-contained page: no file, font or script from elsewhere."""
    return filled(
        "page.beam.html",
        title=tree.title,
        best=escape(visible_line(tree.found[0].text)),
        summary=escape(tree.summary),
        formula=escape(tree.beam.formula),
        style=text("page.css") + text("page.beam.css"),
        script=text("page.beam.js"),
        drawing=Drawing(tree, in_page=True).svg(),
        found=_table(("", "score", "log p", "n", "translation"), _found(tree)),
        choices=_table(("", "score", "rule", "translation"), _choices(tree)),
        steps="\n".join(_step(tree, step) for step in range(1, tree.steps + 1)),
    )


def _found(tree: BeamTree) -> Iterator[Row]:
    for place, one in enumerate(tree.found, 1):
        it = one.hypothesis
        text = visible_line(one.text) + ("" if it.finished else " (unfinished)")
        figures = (str(place), f"{it.score:.3f}", f"{it.logprob:.3f}", str(len(it.logprobs)))
        yield "won" if place == 1 else "", (*figures, text)


def _choices(tree: BeamTree) -> Iterator[Row]:
    for choice in tree.choices:
        text = visible_line(tree.found[choice.found].text) if choice.found else "the same"
        cells = str(choice.found + 1), f"{choice.score:.3f}", choice.formula, text
        yield "" if choice.found else "same", cells


def _step(tree: BeamTree, step: int) -> str:
    """All candidates of a step, folded under the best of them."""
    numbers = tree.at(step)
    kept = [visible(tree.nodes[one].piece) for one in numbers if tree.nodes[one].fate == "kept"]
    names = ("", "continues", "token", "log p", "log p of all", "score", "hypothesis", "")
    heading = f"step {step}: <b>{escape('  '.join(kept) or 'the end')}</b>"
    rows = _table(names, (_candidate(tree, one) for one in numbers))
    return f'<details><summary>{heading}</summary><div class="table">{rows}</div></details>'


def _candidate(tree: BeamTree, number: int) -> Row:
    node = tree.nodes[number]
    assert node.parent is not None
    style = "won" if number in tree.winner else "pruned" if node.fate in PRUNED else ""
    figures = (f"{each:.3f}" for each in (node.logprob, node.total, node.score))
    before = str(tree.nodes[node.parent].rank)
    words = visible_line(tree.written(number)), tree.why(number)
    return style, (str(node.rank), before, visible(node.piece), *figures, *words)


def _table(names: Sequence[str], rows: Iterable[Row]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "\n".join(
        f'<tr class="{style}">{"".join(map(_cell, names, cells))}</tr>' for style, cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _cell(name: str, value: str) -> str:
    style = {"translation": "words", "hypothesis": "words", "token": "words"}.get(name)
    if style is None and value.lstrip("-").replace(".", "", 1).isdigit():
        style = "figure"
    return f'<td class="{style}">{escape(value)}</td>' if style else f"<td>{escape(value)}</td>"
