"""Nearest neighbours of images: those of a folder whose vectors are most like that of another."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.image_io import source_for
from regard.cli.io.line_io import read_windows, unless_empty
from regard.cli.io.table import print_table
from regard.ground.errors import BadInput
from regard.inside.views.escape import escape_line

if TYPE_CHECKING:
    from regard.api import Model
    from regard.inside.vectors.nearest import Part


def print_image_neighbours(
    model: "Model",
    queries: str,
    file: str,
    *,
    top: int,
    pool: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """A table, or a record, for each image of ``queries``, with its neighbours in FILE.

    Only vectors of a batch are in memory at once, beside those of the queries.
    """
    import numpy as np

    from regard.inside.vectors.nearest import nearest

    query_parts = [*_parts(model, queries, pool, options)]
    paths = [path for some, _ in query_parts for path in some]
    if not paths:
        raise BadInput(f"{queries}: no images")
    vectors_BD = np.concatenate([vectors_ND for _, vectors_ND in query_parts])
    matches = nearest(paths, vectors_BD, _parts(model, file, pool, options), top)
    for path, near in zip(paths, matches, strict=True):
        if as_json:
            images = [{"image": str(one.item), "cosine": round(one.cosine, 6)} for one in near]
            print_json({"image": str(path), "neighbours": images})
        else:
            print_line(escape_line(str(path)))
            rows = [(f"{one.cosine:.3f}", escape_line(str(one.item))) for one in near]
            print_table(("cosine", "image"), rows, left=(1,))
            print_line("")


def _parts(model: "Model", file: str, pool: str | None, options: Any) -> "Iterator[Part]":
    """The images of a file or folder with their vectors; a bad one that is skipped is named."""
    parse = unless_empty(lambda line, where: Path(line))
    for window in read_windows(source_for(model, file, parse, **options)):
        for line in window:
            if line.error is not None:
                note(line.error)
        read = [line for line in window if line.value is not None]
        vectors_ND = model.embed([line.value for line in read], pool, True, as_numpy=True)
        yield [Path(line.text) for line in read], vectors_ND
