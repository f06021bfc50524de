"""Lines of a pipe or a terminal, with a test whether the next line has arrived."""

import os
import select
import stat
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

END = 3  # bytes by which a line that is too long is longer, with its end or without
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
            yield from iter(partial(stream.readline, self.longest + END), b"")
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
