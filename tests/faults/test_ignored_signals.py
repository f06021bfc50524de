"""Tests of signals where the shell ignores them: in its background, and under nohup."""

import shlex
import signal
import subprocess
import sys

import pytest

from small import environment
from warm import WarmProcess

ENDED = "import time; print('started', flush=True); time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_process_of_a_test_ends_by_a_signal(number):
    """A new one, and a warm one."""
    started = subprocess.Popen([sys.executable, "-c", ENDED], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None and started.stdout.readline() == "started\n"
    started.send_signal(number)
    assert started.wait(60) == -number
    started.stdout.close()
    warm = WarmProcess("-c", ENDED)
    while warm.streams[0].stat().st_size == 0:
        assert warm.poll() is None, warm.communicate()
    warm.send_signal(number)
    warm.wait(60)


@pytest.mark.slow
def test_they_end_where_the_shell_ignores_the_signals():
    words = (sys.executable, "-m", "pytest", "-q", "-x", __file__, "-m", "not slow")
    ignoring = f"trap '' INT TERM HUP; exec {shlex.join(words)}"
    done = subprocess.run(
        ["sh", "-c", ignoring],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
