"""Text tokenised once into memory-mapped files, so that an epoch costs no tokenising and no memory.

Rows lie end to end in NAME.bin, NAME.idx says where each begins, NAME.json what both must be.
"""

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from regard.data.sources import STDIN, Dropped, Source, name_of, read_examples
from regard.ground.errors import BadInput

Ids = Sequence[int] | np.ndarray
Encode = Callable[[list[str]], Sequence[Ids]]
Row = TypeVar("Row")
Item = TypeVar("Item")

FORMAT = "regard rows 1"
DTYPES = ("|u1", "<u2", "<u4")  # the narrowest that holds the vocabulary
OFFSET = "<i8"
PARTS = (".bin", ".idx")
META = ("rows", "elements", "vocab", "dtype", "checksums")
CHUNK = 10_000  # rows written at once
BLOCK = 1 << 24  # elements whose checksum is taken at once


class Stored(Generic[Row]):
    """Rows on disk, opened by reading the index alone: `stored[i]` is read when it is asked for."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        meta = _read_json(_with(self.path, ".json"))
        try:
            if meta["format"] != FORMAT or meta["dtype"] not in DTYPES:
                raise KeyError("format")
            self.vocab: int = meta["vocab"]
            self._checksums = {part: meta["checksums"][part] for part in PARTS}
            self._offsets = _mapped(_with(self.path, ".idx"), OFFSET, meta["rows"] + 1)
            self._data = _mapped(_with(self.path, ".bin"), meta["dtype"], meta["elements"])
        except (KeyError, TypeError):
            raise _damaged(_with(self.path, ".json")) from None
        if _checksum(self._offsets) != self._checksums[".idx"]:
            raise _damaged(_with(self.path, ".idx"))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, i: int) -> Row:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return self._read(self._data[self._offsets[i] : self._offsets[i + 1]])

    def __iter__(self) -> Iterator[Row]:
        return (self[i] for i in range(len(self)))

    def _read(self, row: np.ndarray) -> Row:
        raise NotImplementedError

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self._offsets)

    def verify(self) -> None:
        """Reads everything once: a single changed bit is found."""
        if _checksum(self._data) != self._checksums[".bin"]:
            raise _damaged(_with(self.path, ".bin"))


class Rows(Stored[np.ndarray]):
    """Rows of ids; an array that is looked at is read-only."""

    def _read(self, row: np.ndarray) -> np.ndarray:
        return row


class TextRows(Stored[str]):
    """Rows of text, for what tokenises anew in every epoch (BPE-dropout)."""

    def _read(self, row: np.ndarray) -> str:
        return row.tobytes().decode("utf-8")


@dataclass(frozen=True)
class Pairs(Generic[Row]):
    """Both sides of the same examples: `pairs[i]` is (source, target)."""

    source: Stored[Row]
    target: Stored[Row]

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise BadInput(
                f"{self.source.path} has {len(self.source)} rows "
                f"but {self.target.path} has {len(self.target)}"
            )

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, i: int) -> tuple[Row, Row]:
        return self.source[i], self.target[i]

    def __iter__(self) -> Iterator[tuple[Row, Row]]:
        return zip(self.source, self.target, strict=True)


PairRows = Pairs[np.ndarray]
PairTexts = Pairs[str]


def write_rows(path: str | Path, rows: Iterable[Ids], vocab: int) -> Rows:
    """Stores rows of ids below `vocab`; the files appear under their names only when complete."""
    _write([Path(path)], vocab, ([chunk] for chunk in _chunks(rows)))
    return Rows(path)


def write_texts(path: str | Path, texts: Iterable[str]) -> TextRows:
    """Stores texts as UTF-8, the same way."""
    _write([Path(path)], 256, ([_utf8(chunk)] for chunk in _chunks(texts)))
    return TextRows(path)


def prepare_pairs(
    folder: str | Path,
    name: str,
    source: Source,
    encode_source: Encode,
    encode_target: Encode,
    *,
    vocab: int,
    fingerprint: str,
    longest_characters: int | None = 5_000,
    dropped: Dropped | None = None,
) -> PairRows:
    """The pairs of `source` as ids below `vocab`, tokenised now unless `folder` has them already.

    It has them if files, options and the tokenizers' `fingerprint` are the same as then. Standard
    input cannot be compared, so it is read every time. `dropped` is as in `read_pairs`.
    """
    encoders = {"source": encode_source, "target": encode_target}
    origin = _origin(source, vocab, fingerprint, longest_characters, dropped)
    sides = _prepare(Path(folder) / name, source, encoders, origin, dropped)
    return PairRows(*map(Rows, sides))


def prepare_pair_texts(
    folder: str | Path,
    name: str,
    source: Source,
    *,
    longest_characters: int | None = 5_000,
    dropped: Dropped | None = None,
) -> PairTexts:
    """The pairs of `source` as text; otherwise as `prepare_pairs`."""
    encoders = {"source": _utf8, "target": _utf8}
    origin = _origin(source, 256, "text", longest_characters, dropped)
    sides = _prepare(Path(folder) / f"{name}.text", source, encoders, origin, dropped)
    return PairTexts(*map(TextRows, sides))


def prepare_rows(
    folder: str | Path,
    name: str,
    source: Source,
    encode: Encode,
    *,
    vocab: int,
    fingerprint: str,
    longest_characters: int | None = None,
    dropped: Dropped | None = None,
) -> Rows:
    """One-sided text as ids; otherwise as `prepare_pairs`."""
    origin = _origin(source, vocab, fingerprint, longest_characters, dropped)
    (side,) = _prepare(Path(folder) / name, source, {"rows": encode}, origin, dropped)
    return Rows(side)


def _origin(
    source: Source, vocab: int, fingerprint: str, longest: int | None, dropped: Dropped | None
) -> dict[str, Any]:
    """All that decides what the stored rows are, as JSON gives it back."""
    try:
        stats = [Path(path).stat() for path in source.paths if path != STDIN]
    except OSError as error:
        raise _unreadable(error.filename, error) from None
    origin = {
        "kind": type(source).__name__,
        "source": asdict(source),
        "files": [(stat.st_size, stat.st_mtime_ns) for stat in stats],
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
    dropped: Dropped | None,
) -> list[Path]:
    """Writes PATH.SIDE for every side, then PATH.json, which says what they were made of."""
    sides = [_with(path, f".{side}") for side in encoders]
    record = _with(path, ".json")
    files = [record, *(_with(side, part) for side in sides for part in (*PARTS, ".json"))]
    if STDIN not in source.paths and all(file.exists() for file in files):
        made = _read_json(record)
        if made.get("origin") == origin:
            for side in sides:
                Rows(side).verify()
            if dropped is not None:
                dropped.update(made.get("dropped", {}))
            return sides

    def encoded(chunk: list[tuple[str, ...]]) -> list[Sequence[Ids]]:
        texts = map(list, zip(*chunk, strict=True))
        rows = [encode(side) for encode, side in zip(encoders.values(), texts, strict=True)]
        if any(len(side) != len(chunk) for side in rows):
            raise ValueError(f"{path}: an encoder gave fewer or more rows than it was given texts")
        return rows

    counted = None if dropped is None else Dropped()
    examples = read_examples(source, len(sides), origin["longest_characters"], counted)
    chunks = _chunks(texts for _, texts in examples)
    first = next(chunks, None)
    if first is None:
        names = ", ".join(map(name_of, source.paths))
        raise BadInput(f"{names}: no usable text (left out: {counted or 'nothing'})")
    _write(sides, origin["vocab"], map(encoded, chain([first], chunks)), record)
    if dropped is not None and counted is not None:
        dropped.update(counted)
    _write_json(record, {"origin": origin, "dropped": counted or {}})
    return sides


def _write(
    paths: Sequence[Path],
    vocab: int,
    chunks: Iterable[Sequence[Sequence[Ids]]],
    record: Path | None = None,
) -> None:
    """Writes chunks, each of them rows for every path.

    The files take their names when all are complete. `record` vouches for older ones, so it goes
    first: a crash between two names leaves nothing that looks whole.
    """
    staged: list[_Staged] = []
    try:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            staged.append(_Staged(path, vocab))
        for chunk in chunks:
            for side, rows in zip(staged, chunk, strict=True):
                side.add(rows)
        if record is not None:
            record.unlink(missing_ok=True)
        for side in staged:
            side.publish()
    except OSError as error:
        raise _unwritable(paths[0], error) from None
    finally:
        for side in staged:
            side.discard()


class _Staged:
    """One set of rows on its way to disk, under temporary names until it is published."""

    def __init__(self, path: Path, vocab: int):
        self.path, self.vocab = path, vocab
        self.dtype = next(dtype for dtype in DTYPES if vocab <= 256 ** np.dtype(dtype).itemsize)
        self.rows = self.elements = 0
        self.checksums = dict.fromkeys(PARTS, 0)
        self.files = {part: _temporary(_with(path, part)).open("wb") for part in PARTS}
        self._append(".idx", np.zeros(1, OFFSET))

    def add(self, rows: Sequence[Ids]) -> None:
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int64, lengths.sum())
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.vocab:
            raise ValueError(f"{self.path}: an id is not below the vocabulary, {self.vocab}")
        self._append(".bin", ids.astype(self.dtype))
        self._append(".idx", (self.elements + lengths.cumsum()).astype(OFFSET))
        self.rows += len(rows)
        self.elements += len(ids)

    def _append(self, part: str, array: np.ndarray) -> None:
        self.files[part].write(array.tobytes())
        self.checksums[part] = zlib.crc32(array.tobytes(), self.checksums[part])

    def publish(self) -> None:
        _with(self.path, ".json").unlink(missing_ok=True)
        for part, file in self.files.items():
            file.flush()
            os.fsync(file.fileno())
            file.close()
            _temporary(_with(self.path, part)).replace(_with(self.path, part))
        meta = {name: getattr(self, name) for name in META}
        _write_json(_with(self.path, ".json"), {"format": FORMAT, **meta})

    def discard(self) -> None:
        for part, file in self.files.items():
            file.close()
            _temporary(_with(self.path, part)).unlink(missing_ok=True)


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


def _utf8(texts: list[str]) -> list[bytes]:
    return [text.encode("utf-8") for text in texts]


def _with(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _temporary(path: Path) -> Path:
    return _with(path, f".{os.getpid()}.tmp")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    temporary = _temporary(path)
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(content, dict):
        raise _damaged(path)
    return content


def _mapped(path: Path, dtype: str, count: int) -> np.ndarray:
    """A file of exactly `count` numbers, read as it is looked at."""
    try:
        if path.stat().st_size != count * np.dtype(dtype).itemsize:
            raise _damaged(path)
        if count == 0:  # nothing cannot be mapped
            return np.empty(0, dtype)
        return np.memmap(path, dtype, mode="r").view(np.ndarray)
    except OSError as error:
        raise _unreadable(path, error) from None


def _checksum(array: np.ndarray) -> int:
    checksum = 0
    for start in range(0, len(array), BLOCK):
        checksum = zlib.crc32(array[start : start + BLOCK].tobytes(), checksum)
    return checksum


def _unreadable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path}: cannot be read ({error.strerror or error})")


def _unwritable(path: Path, error: OSError) -> BadInput:
    return BadInput(f"{path}: cannot be written ({error.strerror or error})")


def _damaged(path: Path) -> BadInput:
    return BadInput(f"{path}: damaged, or not written by this program; delete it to start afresh")
