"""Files of sentence pairs and of gold links between their words."""

from pathlib import Path

from regard.data.files.fields import DropCounts
from regard.data.files.sources import FileSource, read_pairs
from regard.data.files.text_files import read_lines
from regard.ground.errors import BadInput
from regard.metrics.alignment import GoldLinks, parse_gold
from regard.text.words import Spans

Pairs = list[tuple[str, str]]


def read_text_pairs(
    source: FileSource, longest_characters: int | None = None, dropped: DropCounts | None = None
) -> Pairs:
    """All pairs, without their places."""
    return [(one, other) for _, one, other in read_pairs(source, longest_characters, dropped)]


def read_gold_links(path: str | Path, base: int, pairs: Pairs, spans: Spans) -> list[GoldLinks]:
    """The links of every pair, counted from ``base``; ``spans`` finds the words."""
    lines = list(read_lines(path))
    if len(lines) != len(pairs):
        raise BadInput(f"{path}: {len(lines)} lines for {len(pairs)} pairs")
    return [
        parse_gold(line, base, f"{path}:{number}", (len(spans(one)), len(spans(other))))
        for number, (line, (one, other)) in enumerate(zip(lines, pairs, strict=True), 1)
    ]
