"""Load on servers that share a GPU, with peers: sentence vectors, completions, translations.

    python bench/serve_gpu.py embed [--texts 16]
    python bench/serve_gpu.py complete [--clients 64] [--new-tokens 128]
    python bench/serve_gpu.py translate [--new-tokens 40]
    python bench/serve_gpu.py embed --small --seconds 2 --rounds 1      (a trial on a CPU)

Models have random weights from a seed (bench/serve_models.py), in bf16 on CUDA. Every server is a
process of its own, and all are started before the first round; then they take turns, each alone
under load, in an order that changes from round to round. --clients connections ask again as soon as
they are answered (closed loop), so their number over the mean latency is the number of requests a
second. Requests of the first --warm-up seconds of a turn do not count, nor do those of
--first-seconds before the first round.

Peers of "embed": transformers behind FastAPI, whose batches wait 5 ms. Of "complete": `transformers
serve` with continuous batching, and the continuous batching of transformers behind FastAPI. Of
"translate": ``generate`` in a loop behind FastAPI, and with batches that wait 5 ms. Output: a line
of JSON for each turn, then one for each system, with medians over the rounds and the lowest and
highest round in brackets. A peer that does not start is reported, with the end of its log.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from serve import WORDS, Load, answers, cpu_seconds, resident_mib, texts

PATHS = {"embed": "/embed", "complete": "/v1/completions", "translate": "/translate"}
NAMES = {"embed": "bert", "complete": "gpt2", "translate": "opus-en-de"}
HERE = Path(__file__).parent
START_SECONDS = 240


class System:
    """A server in a process of its own."""

    def __init__(self, name: str, words: list[str], port: int, log: Path, ready: str = "/health"):
        self.name, self.port, self.log, self.ready = name, port, log, ready
        self.start, self.seconds_to_start = time.perf_counter(), 0.0
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, *words], stdout=out, stderr=out, start_new_session=True
            )

    def wait(self) -> bool:
        """Wait until the server answers; whether it does."""
        while time.perf_counter() - self.start < START_SECONDS and self.process.poll() is None:
            if asyncio.run(answers(self.port, self.ready)):
                self.seconds_to_start = round(time.perf_counter() - self.start, 1)
                return True
            time.sleep(0.2)
        end = self.log.read_text(errors="replace")[-1_500:]
        print(json.dumps({"system": self.name, "started": False, "log": end}), flush=True)
        return False

    def close(self) -> None:
        """End the process, and those that it has started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(20)


def free_ports(count: int) -> list[int]:
    """Ports that no process listens on."""
    with ExitStack() as bound:
        sockets = [bound.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def systems(given: argparse.Namespace, folder: Path) -> list[System]:
    """Start all servers of a kind of load."""
    place, peer = str(folder), str(HERE / "peers" / "transformers_server.py")
    log = given.logs or folder.parent
    device = ["--device", "cpu"] if given.small else ["--device", "cuda", "--precision", "bf16"]
    port, *ports = free_ports(3)
    serve = ["-m", "regard", "serve", place, "--port", str(port), "--name", folder.name, *device]
    started = [System("regard", serve + given.option, port, log / "regard.log", "/health/ready")]
    if given.alone:
        return started
    if given.kind == "embed":
        words = [peer, "embed", place, str(ports[0])]
        name = "transformers + FastAPI"
        started.append(System(name, words, ports[0], log / "peer.log"))
    elif given.kind == "translate":
        forms = {
            "generate in a loop + FastAPI": ["--window", "0", "--batch", "1"],
            "generate in batches + FastAPI": ["--window", "0.005", "--batch", "64"],
        }
        for number, ((name, more), port) in enumerate(zip(forms.items(), ports, strict=True)):
            words = [peer, "translate", place, str(port), *more]
            started.append(System(name, words, port, log / f"peer{number}.log"))
    else:
        dtype, at = ("float32", "cpu") if given.small else ("bfloat16", "cuda:0")
        command = "import sys; from transformers.cli.transformers import main; sys.exit(main())"
        words = ["-c", command, "serve", place, "--continuous-batching", "--port", str(ports[0])]
        words += ["--host", "127.0.0.1", "--device", at, "--dtype", dtype]
        # The other peer has a cache on the same GPU.
        blocks = ["--cb-num-blocks", "64", "--cb-max-batch-tokens", "256"]
        words += blocks if given.small else ["--cb-max-memory-percent", "0.3"]
        started.append(System("transformers serve", words, ports[0], log / "serve.log"))
        words = [peer, "complete", place, str(ports[1])]
        words += ["--blocks", "64"] if given.small else ["--memory", "0.3"]
        name = "continuous batching + FastAPI"
        started.append(System(name, words, ports[1], log / "peer.log"))
    return started


def bodies(given: argparse.Namespace, folder: Path) -> list[bytes]:
    """Bodies of requests, the same for every system."""
    made, inputs = list[dict[str, Any]](), texts(512 * given.texts, given.seed)
    for at in range(0, len(inputs), given.texts):
        some = inputs[at : at + given.texts]
        if given.kind == "embed":
            made.append({"inputs": some[0] if given.texts == 1 else some})
        elif given.kind == "complete":
            body = {"model": str(folder), "prompt": some[0], "max_tokens": given.new_tokens}
            made.append(body | {"temperature": 0})
        else:
            made.append({"q": some[0], "source": "en", "target": "de"})
    return [json.dumps(body).encode() for body in made]


def for_regard(body: bytes, folder: Path) -> bytes:
    """A body with the name that the model has in regard."""
    content = json.loads(body)
    return json.dumps(content | {"model": folder.name} if "model" in content else content).encode()


def first_load(system: System, given: argparse.Namespace, sent: list[bytes]) -> bool:
    """Load before the first round, which does not count; whether a request was answered well."""
    load = Load(system.port, PATHS[given.kind], sent, 0.0)
    load.keeps_answers = True
    asyncio.run(load.closed_loop(given.clients, given.first_seconds, given.seed - 1))
    if not load.answers:
        print(json.dumps({"system": system.name, "statuses": load.statuses}), flush=True)
    return bool(load.answers)


def turn(system: System, given: argparse.Namespace, sent: list[bytes], seed: int) -> dict[str, Any]:
    """Figures of a system under load."""
    load = Load(system.port, PATHS[given.kind], sent, given.warm_up)
    load.keeps_answers = given.kind == "complete"
    used, own = cpu_seconds(system.process.pid), time.process_time()
    asyncio.run(load.closed_loop(given.clients, given.seconds, seed))
    used, own = cpu_seconds(system.process.pid) - used, time.process_time() - own
    figures = load.figures(given.seconds)
    if load.latencies:  # a count of slow answers would depend on where the window ends
        figures["per_second"] = round(given.clients / statistics.fmean(load.latencies), 1)
    if given.kind == "complete" and load.answers:
        tokens = [json.loads(each)["usage"]["completion_tokens"] for each in load.answers]
        rate = statistics.fmean(tokens) * figures["per_second"]
        figures["tokens_per_second"] = round(rate, 1)
    whole = given.seconds + given.warm_up
    figures["server_cpus"], figures["client_cpus"] = round(used / whole, 2), round(own / whole, 2)
    figures["mib"] = resident_mib(system.process.pid)
    return figures


def summary(name: str, turns: list[dict[str, Any]], first: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and the ratio of throughput to the first system, by round."""
    figures: dict[str, Any] = {"system": name, "rounds": len(turns)}
    for key in ("per_second", "tokens_per_second", "p50", "p90", "p99"):
        if values := [each[key] for each in turns if key in each]:
            figures[key] = [statistics.median(values), min(values), max(values)]
    pairs = zip(first, turns, strict=True)
    rates = [(ours["per_second"], theirs["per_second"]) for ours, theirs in pairs]
    if all(theirs for _, theirs in rates):
        ratios = [ours / theirs for ours, theirs in rates]
        three = statistics.median(ratios), min(ratios), max(ratios)
        figures["regard_is_faster_by"] = [round(ratio, 2) for ratio in three]
    return figures


def main() -> None:
    """Write a model, start all systems, and put load on each in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("kind", choices=PATHS)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--new-tokens", type=int, default=0, help="default: 128, translations 40")
    parser.add_argument("--texts", type=int, default=1, help="texts of a request to embed")
    parser.add_argument("--seconds", type=float, default=0, help="default: 5, completions 15")
    parser.add_argument("--warm-up", type=float, default=1.5)
    parser.add_argument("--first-seconds", type=float, default=4, help="load before the rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, help="folder for the logs of all servers")
    parser.add_argument("--alone", action="store_true", help="without peers")
    parser.add_argument("--small", action="store_true", help="small models, on a CPU")
    parser.add_argument("--option", action="append", default=[], help="more words of regard serve")
    given = parser.parse_args()
    given.seconds = given.seconds or (15 if given.kind == "complete" else 5)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends the servers
    given.new_tokens = given.new_tokens or (40 if given.kind == "translate" else 128)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as ended:
        folder = Path(scratch) / NAMES[given.kind]
        write_model(given, folder)
        started = systems(given, folder)
        for system in started:
            ended.callback(system.close)
        ready = [system for system in started if system.wait()]
        if not ready or ready[0].name != "regard":
            raise SystemExit("regard serve did not start")
        sent = bodies(given, folder)
        own = [for_regard(body, folder) for body in sent]
        requests = {each.name: own if each.name == "regard" else sent for each in ready}
        ready = [each for each in ready if first_load(each, given, requests[each.name])]
        turns: dict[str, list[dict[str, Any]]] = {system.name: [] for system in ready}
        for number in range(given.rounds):
            order = ready[number % len(ready) :] + ready[: number % len(ready)]
            for system in order:
                seed = given.seed + 1_000 * number
                figures = turn(system, given, requests[system.name], seed)
                turns[system.name].append(figures)
                print(json.dumps({"round": number, "system": system.name, **figures}), flush=True)
        for system in ready:
            figures = summary(system.name, turns[system.name], turns["regard"])
            print(json.dumps(figures | {"start_seconds": system.seconds_to_start}), flush=True)


def write_model(given: argparse.Namespace, folder: Path) -> None:
    """Write the folder of a random model."""
    import serve_models
    import torch

    torch.manual_seed(given.seed)
    words = WORDS.split()
    if given.kind == "embed":
        serve_models.write_bert(folder, words, given.small)
    elif given.kind == "complete":
        serve_models.write_gpt2(folder, words, given.small)
    else:
        serve_models.write_marian(folder, words, given.small, given.new_tokens)


if __name__ == "__main__":
    main()
