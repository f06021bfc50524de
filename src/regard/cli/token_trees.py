"""``regard generate --tree``: what else could have come, for each prompt."""

from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.io.console import OUT, print_json, write_page
from regard.cli.io.line_io import LineSource, plain_text, read_windows
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.search.step import Search
    from regard.tasks.runners.generator import Generator


def print_trees(
    generator: "Generator",
    search: "Search",
    file: str,
    alternatives: int,
    html: Path | None,
    as_json: bool,
) -> None:
    """The tree of each line; a page is of the only line."""
    from regard.inside.trees.token_tree import record_tokens
    from regard.inside.views.beam_html import token_page
    from regard.inside.views.token_text import token_lines

    lines = read_windows(LineSource(file, plain_text, window=1))
    if html is not None:
        lines = iter(first := list(islice(lines, 2)))
        if len(first) > 1:
            raise BadInput("--html: a page is of one prompt, and there are several")
    for (line,) in lines:
        tree = record_tokens(generator, line.text, search, alternatives, line.number - 1)
        write_page(html, partial(token_page, tree))
        if as_json:
            print_json(tree.to_json())
        else:
            for row in token_lines(tree, OUT.width):
                OUT.print(row)
