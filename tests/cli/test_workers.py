"""Blocks of lines that workers share: the results and the file of one process, after any kill."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import regard
from regard.cli.io import line_io, output
from regard.ground.workers import Workers
from regard.tasks.components import ComponentSpec
from small import environment
from small_bert import model as small_bert
from small_gpt import write_gpt2
from verb import run

COUNT = 50


class Inline(Workers):
    """Workers in this process, each job with a copy of the component; jobs are begun late."""

    def __init__(self, spec):
        super().__init__(2)
        self.run_block = spec.open_block_runner()

    def close(self):
        self.run_block = None

    def submit(self, job):
        return partial(self.run_block, *job)


@pytest.fixture
def _inline(monkeypatch):
    """Workers are in this process, and blocks have 8 lines."""

    @contextmanager
    def workers(spec, count, ray):
        yield None if not count and ray is None else Inline(replace(spec, device="cpu"))

    monkeypatch.setattr(ComponentSpec, "workers", workers)
    monkeypatch.setattr(line_io, "BLOCK", 8)
    monkeypatch.setattr(output, "EVERY", 0.0)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "model"
    small_bert("one").save(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(f"the cat sat {'on the boat ' * (n % 5)}\n" for n in range(COUNT)))
    return path


@pytest.mark.usefixtures("_inline")
@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_workers_print_what_one_process_prints(classifier, texts, verb):
    arguments = (verb, classifier, texts, "--device", "cpu", "--batch-size", 1)
    alone, shared = run(*arguments), run(*arguments, "--workers", 2)
    assert shared.stdout == alone.stdout and alone.stdout.count("\n") == COUNT
    assert f"{COUNT} results of {COUNT} inputs, 0 bad, 0 cut" in shared.stderr
    assert "results of" not in alone.stderr
    assert ("label: " if verb == "predict" else "norm of vector: mean") in shared.stderr


@pytest.mark.usefixtures("_inline")
@pytest.mark.parametrize("verb", ["generate", "score", "translate"])
def test_workers_of_models_of_language(small_run, verb, texts, tmp_path):
    model = small_run / "run" / "model" if verb == "translate" else write_gpt2(tmp_path / "gpt")
    options = {"generate": ("--max-new-tokens", 2, "--temperature", 2, "--seed", 3)}.get(verb, ())
    arguments = (verb, model, texts, "--device", "cpu", "--batch-size", 1, *options)
    alone, shared = run(*arguments), run(*arguments, "--workers", 2)
    assert shared.stdout == alone.stdout and alone.stdout.count("\n") == COUNT
    assert f"{COUNT} results of {COUNT} inputs" in shared.stderr


@pytest.mark.usefixtures("_inline")
def test_bad_lines_are_beside_the_results_of_workers(classifier, texts):
    lines = texts.read_bytes().splitlines(True)
    texts.write_bytes(b"".join([*lines[:20], b"\xff\n", b"\n", *lines[20:]]))
    command = ("predict", classifier, texts, "--json", "--workers", 2)
    done = run(*command, "--skip-bad")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["line"] for record in records] == [*range(1, COUNT + 3)]
    assert "not UTF-8" in records[20]["error"] and records[21]["label"] is None
    assert f"{COUNT} results of {COUNT + 2} inputs, 1 bad" in done.stderr
    refused = run(*command, code=2)
    assert refused.stdout.count("\n") == 20 and "in.txt:21: not UTF-8" in refused.stderr


class Stop(BaseException):
    """A run ends here as if it was killed."""


@pytest.mark.usefixtures("_inline")
def test_a_stopped_run_of_workers_is_resumed(classifier, texts, tmp_path, monkeypatch):
    out = tmp_path / "out.jsonl"
    command = ("predict", classifier, texts, "--json", "--workers", 2)
    whole, resumable = run(*command), (*command, "--out", out, "--resume")
    add = output.SavedProgress.add

    def stopped(progress, keys):
        add(progress, keys)
        if progress.inputs >= 24:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(output.SavedProgress, "add", stopped)
        with pytest.raises(Stop):
            run(*resumable)
    alone = [word for word in resumable if word not in ("--workers", 2)]
    assert "differs in: blocks" in run(*alone, code=2).stderr  # other windows round otherwise
    done = run(*resumable)
    assert "continues after 24 inputs" in done.stderr and out.read_text() == whole.stdout
    statistics = next(line for line in whole.stderr.splitlines() if "results of" in line)
    assert f"{COUNT} results of {COUNT} inputs" in statistics and statistics in done.stderr


def test_one_text_has_nothing_to_share(classifier, texts):
    refused = run("score", classifier, texts, "--whole", "--workers", 1, code=2)
    assert "--workers: cannot be used with --whole" in refused.stderr


@pytest.mark.usefixtures("_inline")
def test_bulk_in_python(classifier, texts, tmp_path, monkeypatch):
    out = tmp_path / "out.jsonl"
    lines = texts.read_bytes().splitlines(True)
    texts.write_bytes(b"".join([*lines[:20], b"\xff\n", *lines[20:]]))
    report = regard.bulk(classifier, texts, task="predict", out=out, device="cpu")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert (report.inputs, report.bad, len(records)) == (COUNT + 1, 1, COUNT + 1)
    assert "error" in records[20] and records[21]["label"]
    assert str(report).startswith(f"{COUNT} results of {COUNT + 1} inputs, 1 bad")
    table = tmp_path / "in.csv"
    table.write_text("id,text\n7,the cat sat\n8,the boat\n")
    regard.bulk(classifier, table, task="embed", out=tmp_path / "out.csv", device="cpu")
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0] == "id,text,vector" and rows[2].startswith("8,the boat,")
    for name in ("out.txt", "out.csv"):
        with pytest.raises(regard.BadInput, match="out"):
            regard.bulk(classifier, texts, task="predict", out=tmp_path / f"new-{name}")
    with pytest.raises(regard.BadInput, match="did you mean 'predict'"):
        regard.bulk(classifier, texts, task="predicts", out=tmp_path / "new.jsonl")


def children(process):
    """The living children of a process that run Python."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in listed]


def is_alive(process):
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def many_texts(tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("".join(f"the cat sat on {'the boat ' * (n % 5)}\n" for n in range(9_000)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("which", ["worker", "driver"])
def test_kill_9_loses_and_repeats_nothing(classifier, many_texts, which, tmp_path):
    out, partial_out = tmp_path / "out.jsonl", tmp_path / "out.jsonl.partial"
    words = ["predict", classifier, many_texts, "--json", "--workers", 2, "--device", "cpu"]
    command = [sys.executable, "-m", "regard", *map(str, words)]
    expected = subprocess.run(command, env=environment(), capture_output=True, check=True).stdout
    process = subprocess.Popen([*command, "--out", out, "--resume"], env=environment())
    while not (partial_out.exists() and partial_out.stat().st_size):
        assert process.poll() is None
        time.sleep(0.01)
    workers = children(process.pid)
    os.kill(process.pid if which == "driver" else workers[-1], signal.SIGKILL)
    process.wait()
    if which == "driver":
        assert process.returncode == -signal.SIGKILL and not out.exists()
        deadline = time.monotonic() + 20
        while any(map(is_alive, workers)):  # they end with the driver
            assert time.monotonic() < deadline
            time.sleep(0.05)
        subprocess.run([*command, "--out", out, "--resume"], env=environment(), check=True)
    assert out.read_bytes() == expected and expected.count(b"\n") == 9_000
