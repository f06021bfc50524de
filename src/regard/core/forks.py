"""Forked children of this process: threads of libraries do not survive a fork.

A child that computes with the threads of its parent would wait for them for ever, even with torch
alone. Processes that regard starts are therefore spawned, not forked. For forks by other libraries,
such as a data loader of torch, GNU's OpenMP ends its idle threads first and starts others when they
are needed, and torch computes in one thread in the child. Arm's Compute Library, which runs some
operators of torch, keeps its own number of threads.
"""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path

MAPPED_FILES = Path("/proc/self/maps")
PAUSE_HARD = 2  # omp_pause_hard: free all that the runtime can make again
TOKENIZER_THREADS = "TOKENIZERS_PARALLELISM"  # environment: whether texts are encoded in threads


def _end_idle_threads() -> None:
    """End the idle OpenMP threads of this thread, in every copy of libgomp that is loaded.

    Other OpenMP runtimes begin anew in a child by themselves.
    """
    with suppress(OSError):  # a system without /proc
        lines = MAPPED_FILES.read_text(errors="surrogateescape").splitlines()
        paths = {line.split(maxsplit=5)[-1] for line in lines if "libgomp" in line}
        for path in paths:
            with suppress(OSError, AttributeError):  # no library, or older than OpenMP 5.0
                library = ctypes.CDLL(path, mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
                library.omp_pause_resource_all(PAUSE_HARD)


def _use_one_thread() -> None:
    os.environ[TOKENIZER_THREADS] = "false"
    with suppress(KeyError, AttributeError):  # torch is not loaded, or only in part
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_end_idle_threads, after_in_child=_use_one_thread)
