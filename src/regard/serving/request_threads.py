"""Threads for what would keep the event loop from other requests: documents, large answers."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from regard.serving.worker import call_in_loop

Value = TypeVar("Value")
AT_ONCE = 8


class RequestThreads:
    """Threads of requests, at most ``at_once``; the process does not wait for them at its end.

    A request that is given up leaves its thread behind, which counts until its function ends.
    """

    def __init__(self, at_once: int = AT_ONCE):
        self._free = asyncio.Semaphore(at_once)

    async def run(self, function: Callable[[], Value]) -> Value:
        """The value of a function, called in a thread of its own."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        value: asyncio.Future[Value] = loop.create_future()
        threading.Thread(
            target=self._call, args=(function, loop, value), name="request", daemon=True
        ).start()
        return await value

    def _call(
        self,
        function: Callable[[], Value],
        loop: asyncio.AbstractEventLoop,
        value: "asyncio.Future[Value]",
    ) -> None:
        try:
            result = function()
        except Exception as error:
            call_in_loop(loop, self._end, value, value.set_exception, error)
        else:
            call_in_loop(loop, self._end, value, value.set_result, result)

    def _end(
        self, value: "asyncio.Future[Value]", set_outcome: Callable[[object], None], outcome: object
    ) -> None:
        self._free.release()
        if not value.done():
            set_outcome(outcome)
