"""Tokenisation of text files into shards, unless current shards are stored."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from regard.data.shards import (
    PARTS,
    Encode,
    Ids,
    TextShard,
    TextShardPair,
    TokenShard,
    TokenShardPair,
    as_utf8,
    chunks_of,
    with_suffix,
    write_staged,
)
from regard.data.sources import STDIN, DropCounts, Source, read_examples
from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json


def tokenize_pairs(
    folder: str | Path,
    name: str,
    source: Source,
    encode_source: Encode,
    encode_target: Encode,
    *,
    vocab: int,
    fingerprint: str,
    longest_characters: int | None = 5_000,
    dropped: DropCounts | None = None,
) -> TokenShardPair:
    """The pairs of `source` as ids below `vocab`; shards in `folder` are used if they are current.

    They are current if files, options and the tokenizers' `fingerprint` are unchanged. Standard
    input cannot be compared, so it is always read. `dropped` is as in `read_pairs`.
    """
    encoders = {"source": encode_source, "target": encode_target}
    origin = _origin(source, vocab, fingerprint, longest_characters, dropped)
    sides = _prepare(Path(folder) / name, source, encoders, origin, dropped)
    return TokenShardPair(*map(TokenShard, sides))


def store_pair_texts(
    folder: str | Path,
    name: str,
    source: Source,
    *,
    longest_characters: int | None = 5_000,
    dropped: DropCounts | None = None,
) -> TextShardPair:
    """The pairs of `source` as text; otherwise as `tokenize_pairs`."""
    encoders = {"source": as_utf8, "target": as_utf8}
    origin = _origin(source, 256, "text", longest_characters, dropped)
    sides = _prepare(Path(folder) / f"{name}.text", source, encoders, origin, dropped)
    return TextShardPair(*map(TextShard, sides))


def tokenize_texts(
    folder: str | Path,
    name: str,
    source: Source,
    encode: Encode,
    *,
    vocab: int,
    fingerprint: str,
    longest_characters: int | None = None,
    dropped: DropCounts | None = None,
) -> TokenShard:
    """Single texts as ids; otherwise as `tokenize_pairs`."""
    origin = _origin(source, vocab, fingerprint, longest_characters, dropped)
    (side,) = _prepare(Path(folder) / name, source, {"rows": encode}, origin, dropped)
    return TokenShard(side)


def _origin(
    source: Source, vocab: int, fingerprint: str, longest: int | None, dropped: DropCounts | None
) -> dict[str, Any]:
    """Everything that determines the stored rows, after a round trip through JSON."""
    origin = {
        **source.origin,
        "vocab": vocab,
        "fingerprint": fingerprint,
        "longest_characters": longest,
        "skip_bad": dropped is not None,
    }
    return json.loads(json.dumps(origin))


def _prepare(
    path: Path,
    source: Source,
    encoders: Mapping[str, Encode],
    origin: dict[str, Any],
    dropped: DropCounts | None,
) -> list[Path]:
    """Write PATH.SIDE for every side, then PATH.json with the origin of the rows."""
    sides = [with_suffix(path, f".{side}") for side in encoders]
    record = with_suffix(path, ".json")
    files = [record, *(with_suffix(side, part) for side in sides for part in (*PARTS, ".json"))]
    if STDIN not in source.paths and all(file.exists() for file in files):
        made = read_json(record)
        if made.get("origin") == origin:
            for side in sides:
                TokenShard(side).verify()
            if dropped is not None:
                dropped.update(made.get("dropped", {}))
            return sides

    def encoded(chunk: list[tuple[str, ...]]) -> list[Sequence[Ids]]:
        texts = map(list, zip(*chunk, strict=True))
        rows = [encode(side) for encode, side in zip(encoders.values(), texts, strict=True)]
        if any(len(side) != len(chunk) for side in rows):
            raise ValueError(f"{path}: an encoder gave fewer or more rows than it was given texts")
        return rows

    counted = None if dropped is None else DropCounts()
    examples = read_examples(source, len(sides), origin["longest_characters"], counted)
    chunks = chunks_of(texts for _, texts in examples)
    first = next(chunks, None)
    if first is None:
        raise BadInput(f"{source.name}: no usable text (left out: {counted or 'nothing'})")
    write_staged(sides, origin["vocab"], map(encoded, chain([first], chunks)), record)
    if dropped is not None and counted is not None:
        dropped.update(counted)
    write_json(record, {"origin": origin, "dropped": counted or {}})
    return sides
