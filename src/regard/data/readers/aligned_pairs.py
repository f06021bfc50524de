"""Files for word alignment: sentence pairs, also in fast_align's format, and gold links.

A line of fast_align is ``source ||| target``, with words separated by spaces.
"""

from pathlib import Path

from regard.core.errors import BadInput
from regard.data.readers.fields import Dropped
from regard.data.readers.sources import Source, read_pairs
from regard.data.readers.text_files import numbered_lines, read_lines
from regard.metrics.links import GoldLinks, parse_gold
from regard.text.words import Spans

Pairs = list[tuple[str, str]]
SEPARATOR = "|||"


def read_text_pairs(
    source: Source, longest_characters: int | None = None, dropped: Dropped = None
) -> Pairs:
    """Read all pairs, without their places (file and line)."""
    pairs = read_pairs(source, longest_characters, dropped)
    return [(first, second) for _, first, second in pairs]


def read_gold_links(path: str | Path, base: int, pairs: Pairs, spans: Spans) -> list[GoldLinks]:
    """Read the links of every pair, counted from ``base``; ``spans`` finds the words."""
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise BadInput(f"{path}: {len(lines)} lines for {len(pairs)} pairs")
    return [
        parse_gold(line, base, f"{path}:{number}", (len(spans(first)), len(spans(second))))
        for number, (line, (first, second)) in enumerate(zip(lines, pairs, strict=True), 1)
    ]


def read_fast_align(path: str | Path) -> list[tuple[str, str]]:
    """The pairs of a file, with single spaces between words."""
    pairs = []
    for where, line in numbered_lines(path):
        sides = [" ".join(side.split()) for side in line.split(SEPARATOR)]
        if len(sides) != 2 or not all(sides):
            raise BadInput(f"{where}: expected 'source {SEPARATOR} target'")
        pairs.append((sides[0], sides[1]))
    return pairs
