"""Threads for what would keep the event loop from other requests: documents, large answers."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from regard.core.cancellation import cancelled_if
from regard.serving.request_errors import FAILED, Failure, Unavailable

Value = TypeVar("Value")
MOST_THREADS = 8
STOPPING = "the server is stopping"


class RequestThreads:
    """Threads of requests, at most ``at_once``; the process does not wait for them at its end.

    The work of a request that is given up ends at its next step (``check_wanted``), and counts
    until then.
    """

    def __init__(self, at_once: int = MOST_THREADS, name: str = "request"):
        self.name, self._free = name, asyncio.Semaphore(at_once)
        self._refusals: set[Callable[[], None]] = set()  # of those that wait for a value
        self._abandoned = False

    async def run(self, function: Callable[[], Value]) -> Value:
        """The value of a function, called in a thread of its own."""
        await self._free.acquire()
        if self._abandoned:
            self._free.release()
            raise Unavailable(STOPPING)
        loop = asyncio.get_running_loop()
        value: asyncio.Future[Value] = loop.create_future()
        refuse = partial(self._refuse, value)
        self._refusals.add(refuse)
        value.add_done_callback(lambda _: self._refusals.discard(refuse))
        threading.Thread(
            target=self._call, args=(function, loop, value), name=self.name, daemon=True
        ).start()
        return await value

    def abandon(self) -> None:
        """Refuse the requests that wait for a value, now and later."""
        self._abandoned = True
        for refuse in [*self._refusals]:
            refuse()

    def _refuse(self, value: "asyncio.Future[Value]") -> None:
        if not value.done():
            value.set_exception(Unavailable(STOPPING))

    def _call(
        self,
        function: Callable[[], Value],
        loop: asyncio.AbstractEventLoop,
        value: "asyncio.Future[Value]",
    ) -> None:
        try:
            with cancelled_if(value.done):
                result = function()
        except Exception as error:
            call_in_loop(loop, self._end, value, value.set_exception, error)
        except BaseException as error:  # a panic of a library in Rust
            failure = Failure(FAILED)
            failure.__cause__ = error
            call_in_loop(loop, self._end, value, value.set_exception, failure)
        else:
            call_in_loop(loop, self._end, value, value.set_result, result)

    def _end(
        self, value: "asyncio.Future[Value]", set_outcome: Callable[[object], None], outcome: object
    ) -> None:
        self._free.release()
        if not value.done():
            set_outcome(outcome)


def call_in_loop(
    loop: asyncio.AbstractEventLoop, function: Callable[..., None], *values: object
) -> None:
    """Call a function in the thread of a request, unless it has ended: then nobody waits."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)
