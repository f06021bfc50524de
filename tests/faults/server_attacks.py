"""What a stranger may send to a server: each attack with its answers, the delay of others, memory.

    python tests/faults/server_attacks.py

A server with a key runs as a process of its own, with a small random model. During each attack
``/health`` is asked without a pause. ``delay_ms`` is the most CPU time that the server took until
it answered, which a busy machine does not change much; ``grown_mib`` the most memory it had above
that before, and ``kept_mib`` what it still has afterwards. The exit code is 1 if an answer is
wrong, a delay is above ``DELAY``, or memory above its budget.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [one for one in (str(TESTS),) if one not in sys.path]

KEY = "a-key-of-a-user-1"
DELAY = 100  # milliseconds of CPU time that /health may wait
GROWTH = 320  # MiB, of which bodies in flight have 64, and their copies as many
KEPT = 96  # MiB: heaps of the system that requests leave behind, once for all attacks
MOST = 262_144  # characters and ids of a request
NAMES = 60_000
SETTLED = 2  # seconds after which memory is weighed
DRAIN = 2  # seconds
EXIT = 30  # seconds after SIGTERM: the drain, the refusals, the ends of threads, a busy machine
WORDS = "The girl sees the dog near the house. "


def build(folder: Path) -> None:
    """A small random model with 1,024 positions."""
    import torch

    from regard.api import Model
    from regard.models.facts import change
    from regard.models.folders.loaded_model import LoadedModel
    from regard.models.heads import NextTokenHead
    from regard.models.papers import gpt2
    from small_gpt import TEXTS, VOCAB, train_encoder_tokenizer

    tokenizer = train_encoder_tokenizer(TEXTS, "gpt2-bpe", VOCAB, lower=False, longest=1_024)
    sizes = {"width": 32, "inner": 64, "depth": 4, "heads": 8, "longest": 1_024}
    facts = change(gpt2.SMALL, vocab=len(tokenizer.words), init_std=0.5, **sizes)
    facts = facts.with_heads(NextTokenHead())
    torch.manual_seed(0)
    Model(LoadedModel(gpt2.PAPER, facts, facts.build().eval(), tokenizer)).save(folder)


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    process: int
    port: int

    def ask(
        self, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and content of an answer; the status is 0 if the connection was closed."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            method = "POST" if body else "GET"
            connection.request(method, path, body or None, dict(headers or {}))
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, ValueError):  # refused before its body was sent
            return 0, b""
        finally:
            connection.close()

    def post(self, path: str, body: object) -> tuple[int, bytes]:
        """The answer to JSON with the key."""
        return self.ask(path, json.dumps(body).encode(), {"x-api-key": KEY})

    def cpu_seconds(self) -> float:
        """CPU time of all threads."""
        total = 0
        for task in Path(f"/proc/{self.process}/task").iterdir():
            with suppress(OSError):  # the thread has ended
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def resident_mib(self) -> float:
        """Memory."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Watch:
    """Delay of /health, and memory of a server, until ``end``."""

    def __init__(self, server: Server):
        self.server, self.delays, self.sizes = server, list[float](), [server.resident_mib()]
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=each) for each in (self._ask, self._weigh)]
        for thread in self.threads:
            thread.start()

    def _ask(self) -> None:
        while not self.ending.wait(0.01):
            wall, cpu = time.monotonic(), self.server.cpu_seconds()
            status, _ = self.server.ask("/health")
            wall, cpu = time.monotonic() - wall, self.server.cpu_seconds() - cpu
            self.delays.append(1_000 * min(wall, cpu) if status == 200 else float("inf"))

    def _weigh(self) -> None:
        while not self.ending.wait(0.02):
            self.sizes.append(self.server.resident_mib())

    def end(self) -> None:
        """Watch no longer."""
        self.ending.set()
        for thread in self.threads:
            thread.join()


Answers = list[int]
Attack = Callable[[Server], Answers]


def same(count: int, ask: Callable[[], tuple[int, bytes]]) -> Answers:
    """The status of equal requests at a time."""
    with ThreadPoolExecutor(count) as pool:
        return [status for status, _ in pool.map(lambda _: ask(), range(count))]


def host_header(server: Server) -> Answers:
    """The path of /health in the header Host, without a key."""
    body = b'{"model": "model", "input": "a"}'
    hosts = ("x/health?", "x/health#", "127.0.0.1/health/ready/")
    return [server.ask("/v1/embeddings", body, {"Host": host})[0] for host in hosts]


def large_texts(server: Server) -> Answers:
    """4 MiB to be tokenised, and as many ids."""
    text, ids = WORDS * ((4 << 20) // len(WORDS)), [5] * (2 << 20)
    bodies = {
        "/tokenize": {"inputs": text},
        "/decode": {"ids": ids},
        "/detokenize": {"tokens": ids},
    }
    return [server.post(path, body)[0] for path, body in bodies.items()]


def allowed_texts(server: Server) -> Answers:
    """As many characters as are allowed."""
    text = (WORDS * (MOST // len(WORDS) + 1))[:MOST]
    return same(2, lambda: server.post("/tokenize", {"inputs": text}))


def emoji(server: Server) -> Answers:
    """As many characters of four bytes, each of which may be four tokens."""
    return [server.post("/tokenize", {"inputs": "\U0001f600" * MOST})[0]]


def completions(server: Server, **more: object) -> Answers:
    """A completion of 16 tokens, with more keys."""
    return [server.post("/v1/completions", {"model": "model", "prompt": "A"} | more)[0]]


def biased(server: Server) -> Answers:
    """As many biases as are allowed, eight times, with a neighbour who has none."""
    bias = {str(token): -1 for token in range(280)}
    with ThreadPoolExecutor(1) as pool:
        others = pool.submit(completions, server)
        body = {"model": "model", "prompt": "A", "logit_bias": bias}
        return same(8, lambda: server.post("/v1/completions", body)) + others.result()


def many_options(server: Server) -> Answers:
    """Options of the most bytes, other ones in every request."""
    numbers = range(200)
    stops = ([f"{number:03}{at:02}" + "x" * 240 for at in range(16)] for number in numbers)
    body = {"text": "A", "max_new_tokens": 1}
    return [server.post("/v1/generate", body | {"stop_strings": each})[0] for each in stops]


def form(name: str, size: int) -> tuple[bytes, dict[str, str]]:
    """A form of some bytes, and its type."""
    if name == "parts":
        head = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n'
        content = head + b"\r\n--y" * (size // 5) + b"\r\n--x--\r\n"
        return content, {"content-type": "multipart/form-data; boundary=x"}
    return b"q=" + b"%41" * (size // 3), {"content-type": "application/x-www-form-urlencoded"}


def forms(server: Server, size: int, headers: Mapping[str, str] | None = None) -> Answers:
    """Forms of both types, four of each at a time."""
    answers = Answers()
    for name in ("parts", "fields"):
        content, kind = form(name, size)
        answers += same(4, partial(server.ask, "/translate", content, kind | dict(headers or {})))
    return answers


def unfinished(server: Server, path: str, header: str = "") -> Answers:
    """100 bodies of which the last byte never comes, for five seconds."""
    size = 8 << 20
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{header}\r\n".encode()
    content, connections = head + b"a" * (size - 1), list[socket.socket]()

    def send() -> tuple[int, bytes]:
        connection = socket.create_connection(("127.0.0.1", server.port), 60)
        connections.append(connection)
        try:
            connection.sendall(content)
            connection.settimeout(5)
            answer = connection.recv(64)
            return int(answer.split()[1]) if answer else 0, answer
        except TimeoutError:
            return 100, b""  # it is still read
        except OSError:
            return 0, b""

    try:
        return same(100, send)
    finally:
        for connection in connections:
            connection.close()


def inspections(server: Server, name: str = "weights") -> Answers:
    """Attention of 1,000 tokens."""
    ids = server.post("/tokenize", {"prompt": WORDS * 100})[1]
    text = WORDS * (1_000 * 100 // len(json.loads(ids)["tokens"]))
    body = {"text": text, "inspect": {"values": [name]}}
    return same(2, lambda: server.post("/v1/embed", body))


def many_items(server: Server) -> Answers:
    """8 MiB of empty texts, of ids and of brackets."""
    size = (8 << 20) - 100
    contents = (
        b'"",' * (size // 3) + b'""',
        b"5," * (size // 2) + b"5",
        b"[]," * (size // 3) + b"[]",
    )
    bodies = (b'{"model": "model", "input": [%s]}' % content for content in contents)
    return [server.ask("/v1/embeddings", body, {"x-api-key": KEY})[0] for body in bodies]


ATTACKS: dict[str, tuple[Attack, Sequence[int]]] = {
    "Host with the path of /health": (host_header, (400, 401)),
    "4 MiB to /tokenize, /decode and /detokenize": (large_texts, (413, 400)),
    "262,144 characters to /tokenize": (allowed_texts, (200,)),
    "262,144 emoji to /tokenize": (emoji, (413,)),
    "60,000 names in logit_bias": (
        partial(completions, logit_bias={str(token): 1 for token in range(NAMES)}),
        (400,),
    ),
    "60,000 stop strings": (partial(completions, stop=[f"s{at}" for at in range(NAMES)]), (400,)),
    "280 biases, 8 times": (biased, (200,)),
    "200 sets of the largest options": (many_options, (200,)),
    "forms of 8 MiB without a key": (partial(forms, size=8 << 20), (0, 413)),
    "forms of 512 KiB without a key": (partial(forms, size=1 << 19), (401, 429)),
    "forms of 8 MiB with a key": (
        partial(forms, size=(8 << 20) - 100, headers={"x-api-key": KEY}),
        (400, 413),
    ),
    "100 unfinished bodies without a key": (partial(unfinished, path="/translate"), (0, 413)),
    "100 unfinished bodies with a key": (
        partial(unfinished, path="/v1/embed", header=f"X-API-Key: {KEY}\r\n"),
        (0, 100, 429),
    ),
    "weights of 1,000 tokens": (inspections, (400,)),
    "states of 1,000 tokens": (partial(inspections, name="states"), (200,)),
    "8 MiB of items": (many_items, (400, 413)),
}


@contextmanager
def serving(model: Path, keys: Path) -> Iterator[Server]:
    """A server of a model with keys, until the end of the block."""
    words = [sys.executable, "-m", "regard", "serve", str(model), "--name", "model", "--port", "0"]
    words += ["--device", "cpu", "--api-keys", str(keys), "--drain", str(DRAIN)]
    source = str(TESTS.parent / "src")
    variables = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=variables)
    assert process.stderr is not None
    try:
        ports = (re.search(r"port (\d+);", line) for line in process.stderr)
        server = Server(process.pid, int(next(port[1] for port in ports if port)))
        threading.Thread(target=lambda: [*process.stderr], daemon=True).start()  # type: ignore[misc]
        while server.ask("/health/ready")[0] != 200:
            time.sleep(0.1)
        yield server
    finally:
        process.kill()
        process.wait()


def end_of(server: Server) -> float:
    """Seconds from SIGTERM, in the middle of much work, to the end of the process."""
    text = (WORDS * (MOST // len(WORDS) + 1))[:MOST]
    ids = {"ids": [[5] * 10] * 1_000}
    asks = (
        ("/tokenize", {"inputs": text}),
        ("/v1/embed", {"inputs": [text] * 4}),
        ("/decode", ids),
    )
    pool = ThreadPoolExecutor(12)
    for path, body in asks * 4:
        pool.submit(server.post, path, body)
    time.sleep(0.3)
    os.kill(server.process, signal.SIGTERM)
    start = time.monotonic()
    while time.monotonic() - start < 60 and os.waitpid(server.process, os.WNOHANG) == (0, 0):
        time.sleep(0.05)
    pool.shutdown(wait=False)
    return time.monotonic() - start


def campaign(
    folder: Path, names: Sequence[str] = (), rounds: int = 1
) -> Iterator[dict[str, object]]:
    """A record of each attack, with ``wrong``, and at last of the end of the server."""
    build(folder / "model")
    (folder / "keys").write_text(KEY)
    with serving(folder / "model", folder / "keys") as server:
        server.post("/tokenize", {"inputs": WORDS})
        completions(server)
        first = server.resident_mib()
        for name in [*(names or ATTACKS)] * rounds:
            attack, expected = ATTACKS[name]
            before, watch = server.resident_mib(), Watch(server)
            start = time.monotonic()
            answers = attack(server)
            seconds = time.monotonic() - start
            time.sleep(SETTLED)
            watch.end()
            figures = {
                "delay_ms": round(max(watch.delays), 1),
                "grown_mib": round(max(watch.sizes) - before, 1),
                "kept_mib": round(server.resident_mib() - first, 1),
            }
            bounds = {"delay_ms": DELAY, "grown_mib": GROWTH, "kept_mib": KEPT}
            wrong = [key for key, most in bounds.items() if figures[key] > most]
            wrong += [] if {*answers} <= {*expected} else ["answers"]
            yield {
                "attack": name,
                "answers": dict(Counter(answers)),
                "seconds": round(seconds, 2),
                **figures,
                "wrong": wrong,
            }
        seconds = end_of(server)
        record = {"attack": "SIGTERM in the middle of work", "seconds": round(seconds, 2)}
        yield {**record, "wrong": ["seconds"] if seconds > EXIT else []}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often each is made")
    parser.add_argument("--only", nargs="*", default=(), choices=ATTACKS, metavar="ATTACK")
    options, wrong = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as folder:
        for record in campaign(Path(folder), options.only, options.rounds):
            print(json.dumps(record), flush=True)
            wrong += bool(record["wrong"])
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
