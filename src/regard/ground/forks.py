"""Forked children of this process: threads of libraries do not survive a fork.

A child that computes in more than one thread would wait for the others for ever, with torch alone
as well. Processes that regard starts are therefore spawned, not forked. Where somebody else forks,
such as a data loader of torch, the child computes in one thread.
"""

import os
import sys
from contextlib import suppress

TOKENIZER_THREADS = "TOKENIZERS_PARALLELISM"  # environment: whether texts are encoded in threads


def _use_one_thread() -> None:
    os.environ[TOKENIZER_THREADS] = "false"
    with suppress(KeyError, AttributeError):  # torch is not loaded, or only in part
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)
