"""Blocks of lines that workers share: the results and the file of one process, after any kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import regard
from counted_blocks import BLOCK, FILE, finished_blocks
from local_ray import RAY, SYSTEMS, options_of
from regard.core.workers import AHEAD
from regard.experiments.bulk import result_file
from small import environment
from small_bert import model as small_bert
from small_gpt import write_gpt2
from verb import run

COUNT = 50
MANY = 20 * BLOCK


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


@pytest.mark.usefixtures("inline_workers")
@pytest.mark.parametrize("verb", ["predict", "embed"])
def test_workers_print_what_one_process_prints(classifier, texts, verb):
    arguments = (verb, classifier, texts, "--device", "cpu", "--batch-size", 1)
    alone, shared = run(*arguments), run(*arguments, "--workers", 2)
    assert shared.stdout == alone.stdout and alone.stdout.count("\n") == COUNT
    assert f"{COUNT} results of {COUNT} inputs, 0 bad, 0 cut" in shared.stderr
    assert re.search(r"^[\d.]+ s: [\d,.]+ inputs/s, [\d,]+ tokens/s$", shared.stderr, re.MULTILINE)
    assert "results of" not in alone.stderr
    assert ("label: " if verb == "predict" else "norm of vector: mean") in shared.stderr


@pytest.mark.usefixtures("inline_workers")
@pytest.mark.parametrize("verb", ["generate", "score", "translate"])
def test_workers_of_models_of_language(small_run, verb, texts, tmp_path):
    model = small_run / "run" / "model" if verb == "translate" else write_gpt2(tmp_path / "gpt")
    options = {"generate": ("--max-new-tokens", 2, "--temperature", 2, "--seed", 3)}.get(verb, ())
    arguments = (verb, model, texts, "--device", "cpu", "--batch-size", 1, *options)
    alone, shared = run(*arguments), run(*arguments, "--workers", 2)
    assert shared.stdout == alone.stdout and alone.stdout.count("\n") == COUNT
    assert f"{COUNT} results of {COUNT} inputs" in shared.stderr


@pytest.mark.usefixtures("inline_workers")
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


@pytest.mark.usefixtures("inline_workers")
def test_a_stopped_run_of_workers_is_resumed(classifier, texts, tmp_path, monkeypatch):
    out = tmp_path / "out.jsonl"
    command = ("predict", classifier, texts, "--json", "--workers", 2)
    whole, resumable = run(*command), (*command, "--out", out, "--resume")
    add = result_file.SavedProgress.add

    def stopped(progress, keys):
        add(progress, keys)
        if progress.inputs >= 24:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(result_file.SavedProgress, "add", stopped)
        with pytest.raises(Stop):
            run(*resumable)
    alone = [word for word in resumable if word not in ("--workers", 2)]
    assert (
        "(differs in: --workers or --ray)" in run(*alone, code=2).stderr
    )  # other windows round otherwise
    done = run(*resumable)
    assert "continues after 24 inputs" in done.stderr and out.read_text() == whole.stdout
    statistics = next(line for line in whole.stderr.splitlines() if "results of" in line)
    assert f"{COUNT} results of {COUNT} inputs" in statistics and statistics in done.stderr


def test_one_text_has_nothing_to_share(classifier, texts):
    refused = run("score", classifier, texts, "--whole", "--workers", 1, code=2)
    assert "--workers: cannot be used with --whole" in refused.stderr


@pytest.mark.usefixtures("inline_workers")
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
    assert rows[0] == "id,text,vector,error" and rows[2].startswith("8,the boat,")
    for name in ("out.txt", "out.csv"):
        with pytest.raises(regard.BadInput, match="out"):
            regard.bulk(classifier, texts, task="predict", out=tmp_path / f"new-{name}")
    with pytest.raises(regard.BadInput, match="did you mean 'predict'"):
        regard.bulk(classifier, texts, task="predicts", out=tmp_path / "new.jsonl")


@pytest.fixture(scope="module")
def many_texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "in.txt"
    path.write_text("".join(f"the cat sat on {'the boat ' * (n % 5)}\n" for n in range(MANY)))
    return path


@pytest.fixture(scope="module")
def expected(classifier, many_texts, tmp_path_factory):
    """The bytes that a run writes if nobody disturbs it, and what it prints."""
    folder = tmp_path_factory.mktemp("expected")
    process = start(command_of(classifier, many_texts, folder / "out", "processes"), folder / "log")
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    return (folder / "out").read_bytes(), stderr


def command_of(model, file, out, system):
    words = ("predict", model, file, "--json", "--device", "cpu", "--out", out, "--resume")
    return [*map(str, (*words, *options_of(system)))]


def start(words, log):
    """``regard`` in a process of its own, which notes finished blocks in a file."""
    variables = {**environment(), "PYTHONPATH": os.pathsep.join(sys.path), FILE: str(log)}
    code = "import counted_blocks; counted_blocks.main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], env=variables, stderr=subprocess.PIPE, text=True
    )


def is_alive(process):
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def statistics(stderr):
    return next(line for line in stderr.splitlines() if " results of " in line)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_kill_9_of_a_worker_loses_and_repeats_nothing(
    classifier, many_texts, expected, system, tmp_path
):
    out, log = tmp_path / "out", tmp_path / "log"
    process = start(command_of(classifier, many_texts, out, system), log)
    wait_until(lambda: len(finished_blocks(log)) > 4 or process.poll() is not None)
    before = {worker for _, worker in finished_blocks(log)}
    os.kill(finished_blocks(log)[-1][1], signal.SIGKILL)
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    assert (out.read_bytes(), statistics(stderr)) == (expected[0], statistics(expected[1]))
    counts = Counter(first for first, _ in finished_blocks(log))
    assert {*counts} == {*range(0, MANY, BLOCK)}
    assert counts.total() <= len(counts) + 2 * AHEAD  # those that were not handed in
    assert {worker for _, worker in finished_blocks(log)} - before


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_kill_9_of_the_driver_loses_and_repeats_nothing(
    classifier, many_texts, expected, system, tmp_path
):
    out, partial_out, logs = tmp_path / "out", tmp_path / "out.partial", [*map(str, "12")]
    command = command_of(classifier, many_texts, out, system)
    process = start(command, tmp_path / logs[0])
    wait_until(lambda: len(finished_blocks(tmp_path / logs[0])) > 8 or process.poll() is not None)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not out.exists()
    before = finished_blocks(tmp_path / logs[0])
    wait_until(lambda: not any(is_alive(worker) for _, worker in before))  # they end with it
    before = finished_blocks(tmp_path / logs[0])
    saved = json.loads((tmp_path / "out.partial.json").read_text())["inputs"]
    written = partial_out.read_bytes().count(b"\n")
    assert saved >= BLOCK and written - saved <= BLOCK  # saved as soon as they are written
    assert len(before) <= saved / BLOCK + 2 * AHEAD
    process = start(command, tmp_path / logs[1])
    stderr = process.communicate()[1]
    assert process.returncode == 0, stderr
    assert f"continues after {saved:,} inputs" in stderr
    assert (out.read_bytes(), statistics(stderr)) == (expected[0], statistics(expected[1]))
    again = sorted(first for first, _ in finished_blocks(tmp_path / logs[1]))
    assert again == [*range(saved, MANY, BLOCK)]  # no block whose results were written


@pytest.mark.slow
@pytest.mark.parametrize("count", [None, 9])
@pytest.mark.parametrize("system", [pytest.param("ray", marks=RAY)])
def test_actors_have_a_core_each(classifier, texts, count, system):
    command = ["predict", classifier, texts, "--json", "--device", "cpu", *options_of(system)]
    if count is None:
        assert run(*command).stdout == run(*command[:-2]).stdout
        return
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        command[command.index(2)] = count
        assert "9 workers: Ray has 2 CPUs; use at most 2" in run(*command, code=2).stderr
    finally:
        ray.shutdown()
