"""Bytes, and lines of bytes or of text, from files: plain, gz or xz, or standard input."""

import codecs
import contextlib
import gzip
import io
import lzma
import os
import select
import stat
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from regard.core.errors import BadInput
from regard.core.files import check_name
from regard.data.readers.fields import BadExample

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STDIN, LINE_FEED = "-", "\n"
PACKED = (".gz", ".xz")  # suffixes of compressed files
BLOCK = 1 << 20  # bytes of a running text that are read at once
BEGINNING = 1 << 16  # bytes by which line ends are recognised
END = 3  # bytes by which a line that is too long is longer, with its end or without
TO_UTF8 = "convert the file, as by iconv -f WINDOWS-1252 -t UTF-8"
UTF16_MARK = (0xFE, 0xFF)  # the first byte of a file in UTF-16
CHUNK = 1 << 16  # bytes read at once: the capacity of a pipe
LONGEST = 1 << 26  # bytes of a line: a device or an archive may have no line ends at all


class Arrivals:
    """Lines of one stream; ``ready`` tells whether the next line can be read without waiting.

    A regular file is always ready. A line of more than ``longest`` bytes is truncated and ends the
    stream.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self.longest = longest
        self._stream: BinaryIO | None = None
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []  # of a line whose end has not arrived
        self._length = 0  # of that
        self._ended = False

    def lines(self, stream: BinaryIO) -> Iterator[bytes]:
        """The lines of ``stream`` with their line ends."""
        if not _may_pause(stream):
            yield from iter(partial(with_line_feeds(stream).readline, self.longest + END), b"")
            return
        self._stream = stream
        while True:
            while not self._lines and not self._ended:
                self._read(stream)
            if not self._lines:
                return
            yield self._lines.popleft()

    def ready(self, seconds: float) -> bool:
        """Whether a line or the end of the stream arrives within ``seconds``."""
        if self._stream is None:
            return True
        while not self._lines and not self._ended:
            if not select.select([self._stream], [], [], seconds)[0]:
                return False
            self._read(self._stream)
        return True

    def _read(self, stream: BinaryIO) -> None:
        """Read the bytes that have arrived; wait if there are none."""
        chunk = stream.read1(CHUNK)  # type: ignore[attr-defined]
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._lines.append(b"".join([*self._rest, line, b"\n"]))
            self._rest, self._length = [], 0
        self._rest.append(rest)
        self._length += len(rest)
        if not chunk or self._length > self.longest + END:
            self._ended = True
            if last := b"".join(self._rest):
                self._lines.append(last)


def _may_pause(stream: BinaryIO) -> bool:
    """Whether a stream is a pipe, a socket or a terminal that can be polled."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
        select.select([stream], [], [], 0)
    except (AttributeError, OSError, ValueError):  # not a file, or one that cannot be polled
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


class _CarriageReturns(io.RawIOBase):
    """A stream of bytes with a line feed in place of each carriage return."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        chunk = self._stream.read(len(view)).replace(b"\r", b"\n")
        view[: len(chunk)] = chunk
        return len(chunk)


def with_line_feeds(stream: BinaryIO) -> BinaryIO:
    """The stream, with line feeds if its lines end in carriage returns alone, as on old Macs.

    Those are recognised at its beginning, which then has no line feed.
    """
    try:
        beginning = cast(io.BufferedReader, stream).peek(BEGINNING)
    except AttributeError:  # a stream in memory
        return stream
    if b"\r" not in beginning[:-1] or {*b"\n\0"} & {*beginning}:
        return stream
    return cast(BinaryIO, io.BufferedReader(_CarriageReturns(stream), BEGINNING))


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


def first_bytes(path: str | Path, size: int) -> bytes:
    """The first bytes of a file, after decompression."""
    with opened(path) as file:
        return file.read(size)


def coded_lines(
    path: str | Path, encoding: str, arrivals: Arrivals | None = None
) -> Iterator[bytes]:
    """Lines of a file in any encoding, as UTF-8, without line ends and byte order mark."""
    if codecs.lookup(encoding).name == "utf-8":
        yield from raw_lines(path, arrivals)
        return
    number = 0
    with opened(path) as file:
        text = io.TextIOWrapper(with_line_feeds(file), encoding, newline="\n")
        try:
            for number, line in enumerate(iter(partial(text.readline, LONGEST), ""), start=1):
                if len(line) >= LONGEST:
                    most = f"more than {LONGEST:,} characters without a line feed"
                    raise BadInput(f"{name_of(path)}:{number}: {most}")
                ended = line[:-2] if line.endswith("\r\n") else line.removesuffix("\n")
                yield ended.removeprefix("" if number > 1 else "\ufeff").encode()
        except UnicodeError as error:
            place = f"{name_of(path)}: after line {number:,}"
            raise BadInput(f"{place}: not {encoding} ({error}); declare its encoding") from None
        finally:
            text.detach()


def read_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, of standard input (``-``), or of a .gz or .xz file.

    Only a line feed (after an optional carriage return) ends a line, or a carriage return in a
    file that begins without line feeds: other line separators of Unicode occur inside sentences,
    and parallel files must stay parallel. ``arrivals`` tells whether the next line has arrived.
    """
    return (line for _, line in numbered_lines(path, arrivals))


def numbered_lines(path: str | Path, arrivals: Arrivals | None = None) -> Iterator[tuple[str, str]]:
    """Read (where, line) of every line of a file, as ``read_lines``."""
    for number, raw in enumerate(raw_lines(path, arrivals), start=1):
        where = f"{name_of(path)}:{number}"
        yield where, decoded(raw, where)


def whole_text(path: str | Path) -> str:
    """All lines as one text; it ends in a line feed if the file does."""
    return "".join(text_blocks(path))


def text_blocks(path: str | Path) -> Iterator[str]:
    """The text in blocks of bytes, whatever the length of its lines."""
    line, column = 1, 0  # where the next block begins
    decoder, held = codecs.getincrementaldecoder("utf-8")(), ""
    with opened(path) as file:
        mark, ended = "\ufeff", False  # a byte order mark goes at the start
        stream = with_line_feeds(file)
        while not ended:
            raw = stream.read(BLOCK)
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
    is_utf16 = column == 1 and byte in UTF16_MARK
    remedy = TO_UTF8.replace("WINDOWS-1252", "UTF-16") if is_utf16 else TO_UTF8
    return BadExample(where, "not UTF-8", f"not UTF-8 ({place}); {remedy}")


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
            return io.BufferedReader(gzip.open(path), BEGINNING)
        case ".xz":
            return io.BufferedReader(lzma.open(path), BEGINNING)
    return path.open("rb", buffering=BEGINNING)


def suffix_of(path: str | Path) -> str:
    """The suffix of a file in small letters; of a compressed file, the suffix before .gz or .xz."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower()
