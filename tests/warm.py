"""Python processes that begin with torch and regard loaded, forked from a server that did no more.

They are for tests of what a process does. How one starts is tested with a new Python.
"""

import multiprocessing
import os
import runpy
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from small import environment

SERVER = multiprocessing.get_context("forkserver")
MODULES = ["torch._dynamo", "regard.api", "regard.cli.verbs.train", "regard.training.sharding"]
SERVER.set_forkserver_preload(MODULES)


class WarmProcess(SERVER.Process):
    """A process of ``python WORDS`` (``-m module ...`` or ``-c code ...``), started at once."""

    def __init__(self, *words: object, cwd: Path | None = None, **variables: str):
        super().__init__(daemon=True)  # ends with the tests
        self.words, self.cwd = [str(word) for word in words], cwd or Path.cwd()
        self.variables = {**environment(), **variables}
        self.streams = [Path(tempfile.mkstemp(prefix=name)[1]) for name in ("stdout-", "stderr-")]
        self.start()

    def run(self) -> None:
        """The process itself."""
        os.environ.clear()
        os.environ.update(self.variables)
        sys.path[:0] = self.variables.get("PYTHONPATH", "").split(os.pathsep)
        torch.set_num_threads(1)  # as OMP_NUM_THREADS says: the server has read its own
        os.chdir(self.cwd)
        for number, path in enumerate(self.streams, 1):
            os.dup2(os.open(path, os.O_WRONLY), number)
        option, what, *rest = self.words
        sys.argv = [option, *rest]
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            exec(what, {"__name__": "__main__"})

    @property
    def returncode(self) -> int | None:
        return self.exitcode

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended."""
        self.join(timeout)
        assert self.exitcode is not None, f"{self.words} runs on after {timeout} seconds"
        return self.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it wrote to standard output and standard error, when it has ended."""
        self.wait(timeout)
        output, errors = (path.read_text() for path in self.streams)
        for path in self.streams:
            path.unlink()
        return output, errors

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def start_ranks(*words: object, world: int = 2, **variables: str) -> list[WarmProcess]:
    """Start Python processes that train together, without a launcher."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world), **variables}
    return [WarmProcess(*words, RANK=str(rank), **place) for rank in range(world)]


def killed(arguments: Sequence[object], out: Path, checkpoints: int, delay: float = 0.0) -> int:
    """Run a verb, and kill it a moment after so many new checkpoints; how it ended."""
    seen = {path.name for path in out.glob("checkpoints/step-*")}
    process = WarmProcess("-m", "regard", *arguments)
    new: set[str] = set()
    while process.poll() is None and len(new) < checkpoints:
        new |= {path.name for path in out.glob("checkpoints/step-*")} - seen
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait()
