"""Before a command runs: lazy imports, Ctrl-C, errors of options and of environment variables."""

import signal
import subprocess
import sys
import time

import pytest

import regard
from small import command, environment

STARTED = "from regard.__main__ import main; import sys; sys.argv = ['regard', *{}]\n"
EMBED = STARTED.format(["embed", "no-such-folder"])  # loads torch before it looks for the folder
LOADING = "print('loading', flush=True); main()"


@pytest.mark.parametrize(
    "delay", [0.3, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.0, 1.0))]
)
def test_ctrl_c_while_it_is_loaded_shows_no_traceback(delay):
    started = subprocess.Popen(
        [sys.executable, "-c", EMBED + LOADING],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None and started.stdout.readline() == "loading\n"
    time.sleep(0.02 + delay)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=120)
    assert "Traceback" not in errors
    if "no-such-folder" not in errors:  # on a slow machine it is still loading
        assert (started.returncode, errors) == (130, "regard: stopped\n")


@pytest.mark.slow
def test_an_ignored_ctrl_c_stays_ignored():
    ignores = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    ignores += STARTED.format(["papers"])
    sent = "import os; import regard.cli; os.kill(os.getpid(), signal.SIGINT); main()"
    done = subprocess.run(
        [sys.executable, "-c", ignores + sent], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and "BERT" in done.stdout


def test_a_switch_with_a_wrong_name_is_one_line():
    wrong = {**environment(), "REGARD_HIDE": "bf61"}
    done = subprocess.run(command("papers"), env=wrong, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "regard: REGARD_HIDE: 'bf61' cannot be hidden; did you mean 'bf16'?\n"


def test_names_are_imported_when_they_are_used():
    quick = "import sys, regard; assert 'torch' not in sys.modules; assert 'load' in dir(regard)"
    subprocess.run([sys.executable, "-c", quick], check=True)
    assert set(regard._NAMES) == set(regard.__all__)
    for name in regard.__all__:
        assert getattr(regard, name).__class__ is not None
    with pytest.raises(AttributeError, match="'regard' has no attribute 'lode'"):
        _ = regard.lode  # type: ignore[attr-defined]


def test_a_subpackage_is_imported_when_it_is_used():
    used = "import sys, regard; assert regard.metrics is sys.modules['regard.metrics']"
    subprocess.run([sys.executable, "-c", used], check=True)


def test_the_entry_file_is_loaded_once():
    loaded = "import sys, regard.cli; assert 'regard.__main__' not in sys.modules"
    subprocess.run([sys.executable, "-c", loaded], check=True)


def test_a_model_translates_with_everything_hidden(small_run):
    """Like this machine: no difference in what a short text becomes, in 8 bits."""
    texts = (small_run / "test.src").read_text().splitlines()
    bare = {**environment(), "REGARD_HIDE": "bf16,avx512,avx2,compiler,cuda"}
    model = small_run / "run" / "model"
    done = subprocess.run(
        command("translate", model, small_run / "test.src", "--precision", "int8"),
        env=bare,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    ours = regard.load(model, "cpu", precision="int8").translate(texts)
    assert done.stdout.splitlines() == [one[0].text for one in ours]
