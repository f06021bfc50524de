"""Several times more requests than a server can answer: refusals, right answers, flat memory.

``OVERLOAD_SECONDS=300 OVERLOAD_MODEL=FOLDER`` makes it longer, and takes a model of sentence
vectors; the test prints its figures.
"""

import asyncio
import base64
import json
import os
import random
import threading
import time
from collections import deque
from pathlib import Path

import httpx
import numpy as np
import pytest

from regard.api import load
from serving.running_server import serving_process
from small_bert import SENTENCES
from small_bert import model as small_bert

SECONDS = float(os.environ.get("OVERLOAD_SECONDS", "12"))
DEADLINE = 10.0
TIMES = 5  # the load, in capacities


def resident_mib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the process has ended")


class Overload:
    """Clients of one server, and the figures of their answers."""

    def __init__(self, url, texts, expected):
        self.url, self.texts, self.expected = url, texts, expected
        self.seconds, self.refused, self.wrong, self.others = [], 0, 0, []
        self.longest_retry = 0

    async def ask(self, client, number):
        start, number = time.monotonic(), number % len(self.texts)
        body = {"model": "m", "input": self.texts[number], "encoding_format": "base64"}
        answer = await client.post("/v1/embeddings", json=body)
        if answer.status_code == 429:
            self.refused += 1
            self.longest_retry = max(self.longest_retry, int(answer.headers["retry-after"]))
        elif answer.status_code == 200:
            self.seconds.append(time.monotonic() - start)
            data = answer.json()["data"][0]["embedding"]
            vector = np.frombuffer(base64.b64decode(data), "<f4")
            self.wrong += not np.allclose(vector, self.expected[number], atol=1e-5)
        else:
            self.others.append(answer.status_code)

    async def clients(self, count, seconds):
        """As many clients as ``count``, which ask without a pause."""
        end = time.monotonic() + seconds
        limits = httpx.Limits(max_connections=count)
        options = {"base_url": self.url, "timeout": 60, "trust_env": False, "limits": limits}

        async def ask_on(client, number):
            draws = random.Random(number)
            while time.monotonic() < end:
                before = self.refused
                await self.ask(client, draws.randrange(1 << 30))
                if self.refused > before:
                    await asyncio.sleep(0.05)

        async with httpx.AsyncClient(**options) as client:
            await asyncio.gather(*(ask_on(client, number) for number in range(count)))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_overload_leaves_memory_flat_and_answers_right(tmp_path):
    folder = os.environ.get("OVERLOAD_MODEL")
    if folder is None:
        folder = tmp_path / "model"
        small_bert("one").save(folder)
    model, draws = load(folder, "cpu"), random.Random(0)
    texts = [" ".join(draws.choices(SENTENCES, k=draws.randint(1, 5))) for _ in range(40)]
    expected = [model.embed([text], as_numpy=True)[0] for text in texts]
    tokens = sum(len(each.ids) for each in model.tokens(texts)) // len(texts)
    options = "--name", "m", "--max-queued-tokens", 8 * tokens, "--deadline", DEADLINE
    with serving_process(folder, *options) as (process, url):
        log = threading.Thread(target=lambda: deque(process.stderr, 0))
        log.start()
        load_ = Overload(url, texts, expected)
        asyncio.run(load_.clients(8, 3))
        first = resident_mib(process.pid)
        sizes, end = [first], time.monotonic() + SECONDS
        while time.monotonic() < end:
            asyncio.run(load_.clients(8 * TIMES, min(10.0, SECONDS / 3)))
            sizes.append(resident_mib(process.pid))
        process.kill()
        log.join(60)
    p99 = float(np.percentile(load_.seconds, 99))
    figures = {"answered": len(load_.seconds), "refused": load_.refused, "p99_s": round(p99, 3)}
    print(json.dumps(figures | {"rss_mib": [round(size) for size in sizes]}))
    assert load_.refused > 0 and load_.longest_retry >= 1 and not load_.others
    assert load_.seconds and not load_.wrong and p99 < DEADLINE
    assert sizes[-1] < 1.15 * sizes[1] + 8, sizes
