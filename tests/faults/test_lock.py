"""Two commands never write into one run folder."""

import time

import pytest

from regard.core.lock import LOCK
from small import write_corpus
from verb import run
from warm import WarmProcess

RARELY = ("--set", "train.checkpoint_every=1000000", "--set", "train.evaluate_every=1000000")


@pytest.fixture
def running(tmp_path):
    """A run that has not come to its first checkpoint, and its command."""
    write_corpus(tmp_path)
    words = ("train", tmp_path / "small.toml", "--data", tmp_path, "--out", tmp_path / "run")
    process = WarmProcess("-m", "regard", *words, *RARELY, "--set", "train.steps=1000000")
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.01)
    yield process, (*words, *RARELY)
    process.kill()
    process.wait()


def files_of(folder):
    """All files but the journals, with what they are."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in paths
        if path.name != "metrics.jsonl" and "tensorboard" not in path.parts
    }


def test_a_second_run_is_refused_while_the_first_goes_on(running, tmp_path):
    process, words = running
    before = files_of(tmp_path / "run")
    for more in ((), ("--resume",)):
        done = run(*words, *more, code=2)
        assert f"in use by another run (process {process.pid}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert process.poll() is None
        assert files_of(tmp_path / "run") == before
    process.kill()
    process.wait()
    run(*words, "--resume")
    assert (tmp_path / "run" / LOCK).exists()
