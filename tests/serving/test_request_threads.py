"""Threads of requests: values, errors, their number, and an end that does not wait for them."""

import asyncio
import threading
import time

import pytest

from regard.core.errors import BadInput
from regard.serving.request_threads import RequestThreads
from work import ends


def test_values_and_errors():
    async def run():
        threads = RequestThreads()
        assert await threads.run(threading.get_ident) != threading.get_ident()
        with pytest.raises(BadInput, match="a line"):
            await threads.run(refuse)

    def refuse():
        raise BadInput("a line")

    asyncio.run(run())


def test_a_thread_that_is_left_behind_keeps_its_place_and_nobody_waits_for_it():
    gate, threads_left = threading.Event(), []

    def wait():
        threads_left.append(threading.current_thread())
        gate.wait(60)

    async def give_up_two():
        threads = RequestThreads(at_once=1)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await threads.run(wait)

    try:
        with ends(60):
            asyncio.run(give_up_two())
            while not threads_left:
                time.sleep(0.01)
        (left,) = threads_left  # the second request had no place
        assert left.is_alive() and left.daemon
    finally:
        gate.set()
    left.join(60)
    assert not left.is_alive()


def test_a_place_is_free_again():
    async def run():
        threads = RequestThreads(at_once=2)
        values = await asyncio.gather(*(threads.run(lambda n=n: n) for n in range(9)))
        assert values == [*range(9)]

    asyncio.run(run())
