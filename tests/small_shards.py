"""Rows of ids in a shard of their own."""

from collections.abc import Iterable
from pathlib import Path

from regard.data.batches.shards import Chunk, Ids, TokenShard, chunks_of, with_suffix, write_staged


def write_rows(path: Path, rows: Iterable[Ids], vocab: int) -> TokenShard:
    chunks = (Chunk([chunk]) for chunk in chunks_of(rows))
    write_staged([path], [vocab], chunks, with_suffix(path, ".record"))
    return TokenShard(path)
