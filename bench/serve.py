"""Load on a server: latencies and throughput of requests that come whether or not it keeps up.

    python bench/serve.py embed MODEL [--rates 20,40,80] [--seconds 20] [--peer-path FOLDER]
    python bench/serve.py embed MODEL --clients 16 --infinity-path FOLDER --rounds 3
    python bench/serve.py generate MODEL [--clients 64] [--new-tokens 64]
    python bench/serve.py overhead MODEL [--rounds 10]

Arrivals are random (Poisson, open loop): a request is sent at its time, and its latency counts from
then on, so that waiting in any queue shows. With --clients N, N connections ask again as soon as
they are answered (closed loop), which shows the throughput; cpu_ms are the milliseconds of all
cores that the server used for a request. Lengths of texts are mixed (log-normal,
median 12 words). Requests of the first --warm-up seconds do not count. "embed" also runs
sentence-transformers behind FastAPI (bench/peers/transformers_server.py), if it is installed, or in
the folder --peer-path, and infinity-emb (bench/peers/infinity_server.py) in --infinity-path;
systems take turns in each round, each server alone. "overhead" is the CPU time of a single client
in the process of the server, of a direct call with its text, and of a server that answers with the
same number of bytes without a model (bench/peers/constant_server.py), in turns. Each line of output
is a JSON object.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

WORDS = (
    "the of and to in a is that for it was on are as with his they at be this from have or by one "
    "had not but what all were when we there can an your which their said if do will each about"
)
HERE = Path(__file__).parent


class Connection:
    """A connection that is kept open, with one request at a time."""

    def __init__(self, port: int):
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and content of an answer."""
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next(int(line[15:]) for line in lines if line.startswith("content-length:"))
        return int(lines[0].split()[1]), await self.reader.readexactly(length)


class Load:
    """Requests of one kind, and the figures of their answers."""

    def __init__(self, port: int, path: str, bodies: list[bytes], warm_up: float):
        self.port, self.path, self.bodies, self.warm_up = port, path, bodies, warm_up
        self.free: list[Connection] = []
        self.latencies: list[float] = []
        self.statuses: Counter[str] = Counter()
        self.answered = 0  # of all requests, those of the warm-up included
        self.keeps_answers = False
        self.answers: list[bytes] = []  # those that count, if they are kept

    async def ask(self, body: bytes, due: float, start: float) -> None:
        """Send a request, and note its latency from the time at which it was due."""
        connection = self.free.pop() if self.free else Connection(self.port)
        try:
            status, answer = await connection.post(self.path, body)
            self.free.append(connection)
        except (OSError, asyncio.IncompleteReadError):
            status = 0
        self.answered += 1
        if due - start >= self.warm_up:
            self.statuses[str(status)] += 1
            if status == 200 and self.keeps_answers:
                self.answers.append(answer)
            if status == 200:
                self.latencies.append(time.perf_counter() - due)

    async def open_loop(self, rate: float, seconds: float, seed: int) -> None:
        """Send requests at random times, ``rate`` in a second."""
        draw, start, tasks = random.Random(seed), time.perf_counter(), []
        due = start
        while due - start < seconds + self.warm_up:
            due += draw.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.ensure_future(self.ask(draw.choice(self.bodies), due, start)))
        await asyncio.gather(*tasks)

    async def closed_loop(self, clients: float, seconds: float, seed: int) -> None:
        """Send a request for each client as soon as its last one is answered."""
        start = time.perf_counter()

        async def client(number: int) -> None:
            draw = random.Random(seed + number)
            while (now := time.perf_counter()) - start < seconds + self.warm_up:
                await self.ask(draw.choice(self.bodies), now, start)

        await asyncio.gather(*map(client, range(int(clients))))

    def figures(self, seconds: float) -> dict[str, Any]:
        """Requests a second, percentiles in milliseconds, and answers by status."""
        ordered = sorted(self.latencies)
        ms = {
            f"p{share}": round(
                1_000 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1
            )
            for share in (50, 90, 99)
            if ordered
        }
        return {"per_second": round(len(ordered) / seconds, 1), **ms, "statuses": {**self.statuses}}


@contextmanager
def server(words: list[str], port: int, threads: int, more: str | None) -> Iterator[int]:
    """The process of a server, once it answers."""
    paths = [each for each in (more, os.environ.get("PYTHONPATH")) if each]
    variables = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(
        [sys.executable, *words], env={**os.environ, **variables}, stderr=subprocess.DEVNULL
    )
    try:
        while not asyncio.run(answers(port)):
            if process.poll() is not None:
                raise SystemExit(f"{words[0]} ended with {process.returncode}")
            time.sleep(0.2)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def cpu_seconds(process: int) -> float:
    """Seconds of all cores that a process has used; a busy machine does not change them much."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(process: int) -> float:
    """Memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


async def answers(port: int, path: str = "/health") -> bool:
    """Whether a server is there, and answers with 200."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    head = f"GET {path} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    first = await reader.readline()
    writer.close()
    return b" 200 " in first


def texts(count: int, seed: int) -> list[str]:
    """Texts of mixed lengths."""
    draw, words = random.Random(seed), WORDS.split()
    lengths = (max(1, min(200, round(draw.lognormvariate(2.5, 0.8)))) for _ in range(count))
    return [" ".join(draw.choices(words, k=length)) for length in lengths]


def systems(given: argparse.Namespace) -> dict[str, tuple[list[str], str, str | None]]:
    """Command, path and import path of each system."""
    port = str(given.port)
    ours = ["-m", "regard", "serve", given.model, "--port", port, *given.option]
    path = "/v1/generate" if given.kind == "generate" else "/v1/embed"
    chosen: dict[str, tuple[list[str], str, str | None]] = {"regard": (ours, path, None)}
    if given.kind == "embed" and not given.alone:
        peer = [str(HERE / "peers" / "transformers_server.py"), "sentences", given.model, port]
        chosen["sentence-transformers + FastAPI"] = (peer, "/embed", given.peer_path)
    if given.kind == "embed" and given.infinity_path:
        peer = [str(HERE / "peers" / "infinity_server.py"), given.model, port]
        chosen["infinity-emb"] = (peer, "/embeddings", given.infinity_path)
    return chosen


def bodies(given: argparse.Namespace, system: str) -> list[bytes]:
    """Bodies of requests, in the shape of a system."""
    made = []
    for number, text in enumerate(texts(500, given.seed)):
        if given.kind == "generate":
            body: dict[str, Any] = {"text": text, "max_new_tokens": given.new_tokens}
            body |= {"min_new_tokens": given.new_tokens, "seed": number, "temperature": 1.0}
        elif system == "infinity-emb":
            body = {"model": "model", "input": text}
        else:
            body = {"text": text} if system == "regard" else {"inputs": text}
        made.append(json.dumps(body).encode())
    return made


REQUESTS = 100  # of a turn of "overhead"
TEXT = "the old man reads a book in his garden"


def thread_seconds(process: int) -> float:
    """Seconds of all threads of a process, more exact than ``cpu_seconds``."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def overhead(given: argparse.Namespace) -> None:
    """Print the CPU milliseconds of a request, a direct call and a constant answer."""
    from regard import load
    from regard.layers.kernels.bucketed import equal_lengths

    embed = load(given.model, "cpu").component("embed").predict
    body, own = json.dumps({"text": TEXT}).encode(), os.getpid()
    size = len(json.dumps(embed([TEXT])[0].tolist()))
    words, path, _ = systems(given)["regard"]
    constant = [str(HERE / "peers" / "constant_server.py"), str(size), str(given.port + 1)]
    turns: dict[str, list[float]] = {"regard": [], "constant": [], "direct": []}

    def call_directly() -> None:
        with equal_lengths():  # as the server does
            for _ in range(REQUESTS):
                embed([TEXT])

    def ask(port: int) -> None:
        async def ask_all() -> None:
            connection = Connection(port)
            for _ in range(REQUESTS):
                status, _ = await connection.post(path, body)
                assert status == 200

        asyncio.run(ask_all())

    with (
        server(words, given.port, given.threads, None) as served,
        server(constant, given.port + 1, 1, None) as answering,
    ):
        runs = {
            "regard": (partial(ask, given.port), served),
            "constant": (partial(ask, given.port + 1), answering),
            "direct": (call_directly, own),
        }
        for turn in range(given.rounds + 1):
            for name, (run, process) in runs.items():
                before = thread_seconds(process)
                run()
                if turn:  # the first is the warm-up
                    used = (thread_seconds(process) - before) / REQUESTS
                    turns[name].append(1_000 * used)
    pairs = zip(turns["regard"], turns["direct"], strict=True)
    turns["regard over direct"] = [ours - direct for ours, direct in pairs]
    for name, ms in turns.items():
        spread = {"least": min(ms), "median": statistics.median(ms), "most": max(ms)}
        print(json.dumps({"cpu_ms": name, **{key: round(ms, 2) for key, ms in spread.items()}}))


def main() -> None:
    """Put load on each system, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kind", choices=["embed", "generate", "overhead"])
    parser.add_argument("model")
    parser.add_argument("--rates", default="")
    parser.add_argument("--clients", type=int, default=0)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=8_917)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer-path")
    parser.add_argument("--infinity-path")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without the peer")
    parser.add_argument("--option", action="append", default=[], help="more words of regard serve")
    given = parser.parse_args()
    if given.kind == "overhead":
        overhead(given)
        return
    for name, (words, path, more) in [*systems(given).items()] * given.rounds:
        with server(words, given.port, given.threads, more) as process:
            loads = [("rate", float(each)) for each in given.rates.split(",") if each]
            loads += [("clients", given.clients)] * bool(given.clients)
            for kind, amount in loads:
                load = Load(given.port, path, bodies(given, name), given.warm_up)
                run = load.open_loop if kind == "rate" else load.closed_loop
                before, resident = cpu_seconds(process), resident_mib(process)
                asyncio.run(run(amount, given.seconds, given.seed))
                used = (cpu_seconds(process) - before) / max(1, load.answered)
                figures = {"system": name, kind: amount, **load.figures(given.seconds)}
                figures |= {"cpu_ms": round(1_000 * used, 1), "mib_before": resident}
                print(json.dumps(figures | {"mib_after": resident_mib(process)}), flush=True)


if __name__ == "__main__":
    main()
