"""HTML pages of searches: the tree as SVG, and tables."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from regard.inside.trees.beam_tree import PRUNED, BeamTree, SearchTree
from regard.inside.trees.token_tree import TokenTree
from regard.inside.views.beam_svg import BeamDrawing
from regard.inside.views.markup import escape_controls, escape_line, fill_template

TableRow = tuple[str, Sequence[str]]
"""The CSS class of a row, and its cells."""


def tree_page(tree: BeamTree) -> str:
    """HTML page of a beam search."""
    hypotheses = _table(("", "score", "log p", "n", "translation"), _hypothesis_rows(tree))
    choices = _table(("", "score", "length penalty", "translation"), _choice_rows(tree))
    steps = "\n".join(_step(tree, step) for step in range(1, tree.steps + 1))
    parts = {"hypotheses": hypotheses, "choices": choices, "formula": escape(tree.beam.formula)}
    return _page("beam.html", tree, steps=steps, **parts)


def token_page(tree: TokenTree) -> str:
    """HTML page of a search without branching."""
    names = ("step", "", "token", "p", "chance", "")
    return _page("tokens.html", tree, steps=_table(names, _token_rows(tree)))


def _page(template: str, tree: SearchTree, **parts: str) -> str:
    return fill_template(
        template,
        title=tree.title,
        best=escape(escape_line(tree.hypotheses[0].text)),
        summary=escape(tree.summary),
        styles=["page.css", "beam.css"],
        scripts=["beam.js"],
        drawing=BeamDrawing(tree, in_page=True).svg(),
        **parts,
    )


def _token_rows(tree: TokenTree) -> Iterator[TableRow]:
    for number, node in enumerate(tree.nodes[1:], 1):
        figures = f"{tree.probability(number):.4f}", f"{tree.sampling[number]:.4f}"
        cells = str(node.step), str(node.rank), escape_controls(node.piece), *figures
        yield "won" if number in tree.winner else "pruned", (*cells, tree.why(number))


def _hypothesis_rows(tree: BeamTree) -> Iterator[TableRow]:
    for rank, ended in enumerate(tree.hypotheses, 1):
        hyp = ended.hypothesis
        text = escape_line(ended.text) + ("" if hyp.finished else " (unfinished)")
        figures = (str(rank), f"{hyp.score:.3f}", f"{hyp.logprob:.3f}", str(len(hyp.logprobs)))
        yield "won" if rank == 1 else "", (*figures, text)


def _choice_rows(tree: BeamTree) -> Iterator[TableRow]:
    for choice in tree.choices:
        index = choice.hypothesis
        text = escape_line(tree.hypotheses[index].text) if index else "the same"
        cells = str(index + 1), f"{choice.score:.3f}", choice.formula, text
        yield "" if index else "same", cells


def _step(tree: BeamTree, step: int) -> str:
    """All candidates of a step, folded under the active ones."""
    numbers = tree.at(step)
    nodes = [tree.nodes[number] for number in numbers]
    active = [escape_controls(node.piece) for node in nodes if node.fate == "kept"]
    names = ("", "parent", "token", "log p", "log p of all", "score", "hypothesis", "")
    heading = f"step {step}: <b>{escape('  '.join(active) or 'the end')}</b>"
    rows = _table(names, (_candidate_row(tree, number) for number in numbers))
    return f'<details><summary>{heading}</summary><div class="table">{rows}</div></details>'


def _candidate_row(tree: BeamTree, number: int) -> TableRow:
    node = tree.nodes[number]
    assert node.parent is not None
    style = "won" if number in tree.winner else "pruned" if node.fate in PRUNED else ""
    figures = (f"{figure:.3f}" for figure in (node.logprob, node.total, node.score))
    parent = str(tree.nodes[node.parent].rank)
    texts = escape_line(tree.prefix_text(number)), tree.why(number)
    return style, (str(node.rank), parent, escape_controls(node.piece), *figures, *texts)


def _table(names: Sequence[str], rows: Iterable[TableRow]) -> str:
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
