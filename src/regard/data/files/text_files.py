"""Bytes, and lines of bytes or of text, from files: plain, gz or xz, or standard input."""

import codecs
import contextlib
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from regard.data.files.arrivals import END, Arrivals
from regard.data.files.fields import BadExample
from regard.ground.errors import BadInput
from regard.ground.files import check_name

STDIN, LINE_FEED = "-", "\n"
BLOCK = 1 << 20  # bytes of a running text that are read at once


def name_of(path: str | Path) -> str:
    """The name of a file in messages."""
    return "standard input" if str(path) == STDIN else str(path)


def raw_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[bytes]:
    """Lines without line ends and byte order mark; ``arrivals`` limits and polls a stream."""
    for line in ended_lines(path, arrivals):
        yield line.removesuffix(b"\n")


def ended_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[bytes]:
    """Lines with their ends, each a line feed; the last line may have none."""
    with opened(path) as file:
        mark, arrivals = codecs.BOM_UTF8, arrivals or Arrivals()
        for number, line in enumerate(arrivals.lines(file), start=1):
            if len(line) >= arrivals.longest + END:
                where = f"{name_of(path)}:{number}"
                raise BadInput(f"{where}: more than {arrivals.longest:,} bytes without a line feed")
            line, mark = line.removeprefix(mark), b""
            if line:
                yield line[:-2] + b"\n" if line.endswith(b"\r\n") else line


def read_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, of standard input (``-``), or of a .gz or .xz file.

    Only a line feed (after an optional carriage return) ends a line: other line separators of
    Unicode occur inside sentences, and parallel files must stay parallel. ``arrivals`` tells
    whether the next line has arrived.
    """
    for number, raw in enumerate(raw_lines(path, arrivals), start=1):
        yield decoded(raw, f"{name_of(path)}:{number}")


def whole_text(path: str | Path) -> str:
    """All lines as one text; it ends in a line feed if the file does."""
    return "".join(text_blocks(path))


def text_blocks(path: str | Path) -> Iterator[str]:
    """The text in blocks of bytes, whatever the length of its lines."""
    line, column = 1, 0  # where the next block begins
    decoder, held = codecs.getincrementaldecoder("utf-8")(), ""
    with opened(path) as file:
        mark, ended = "\ufeff", False  # a byte order mark goes at the start
        while not ended:
            raw = file.read(BLOCK)
            ended = not raw
            try:
                text = held + decoder.decode(raw, final=ended)
            except UnicodeDecodeError as error:
                raw, at = error.object, error.start
                before = (held + raw[:at].decode()).removeprefix(mark)
                column = len(before) - before.rfind("\n") + (0 if "\n" in before else column)
                where = f"{name_of(path)}:{line + before.count(LINE_FEED)}"
                raise _not_utf8(where, raw[at], column) from None
            if text:
                text, mark = text.removeprefix(mark), ""
            held = text[-1:] if text.endswith("\r") and not ended else ""
            text = text.removesuffix(held)
            line += text.count(LINE_FEED)
            column = len(text) - text.rfind("\n") - 1 + (0 if "\n" in text else column)
            if text:
                yield text.replace("\r\n", "\n")


def decoded(raw: bytes, where: str) -> str:
    """The text of a line."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        raise _not_utf8(where, raw[error.start], column) from None


def _not_utf8(where: str, byte: int, column: int) -> BadExample:
    place = f"byte 0x{byte:02x} at column {column}"
    return BadExample(where, "not UTF-8", f"not UTF-8 ({place})")


@contextlib.contextmanager
def opened(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file of bytes; an error of reading in this block is a ``BadInput``."""
    check_name(path)
    try:
        with _open(path) as file:
            yield file
    except (EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"{name_of(path)}: damaged or truncated archive ({error})") from None
    except OSError as error:
        raise BadInput(f"{name_of(path)}: cannot be read ({error.strerror or error})") from None


def _open(path: str | Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if str(path) == STDIN:
        return contextlib.nullcontext(sys.stdin.buffer)
    path = Path(path)
    match path.suffix.lower():
        case ".gz":
            if path.stat().st_size == 0:  # gzip itself takes this for an archive of nothing
                raise EOFError("it holds no bytes")
            return io.BufferedReader(gzip.open(path))
        case ".xz":
            return io.BufferedReader(lzma.open(path))
    return path.open("rb")
