"""Sentence pairs in the format of fast_align: ``source ||| target``, words separated by spaces."""

from pathlib import Path

from regard.data.files.text_files import name_of, read_lines
from regard.ground.errors import BadInput

SEPARATOR = "|||"


def read_fast_align(path: str | Path) -> list[tuple[str, str]]:
    """The pairs of a file, with single spaces between words."""
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        sides = [" ".join(side.split()) for side in line.split(SEPARATOR)]
        if len(sides) != 2 or not all(sides):
            raise BadInput(f"{name_of(path)}:{number}: expected 'source {SEPARATOR} target'")
        pairs.append((sides[0], sides[1]))
    return pairs
