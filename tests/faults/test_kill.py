"""Killed at any moment, a run goes on as if nothing had happened."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import regard
from small import environment, journal_of, tensors_of, write_corpus
from verb import run
from warm import WarmProcess, killed

STEPS = 40
CHANGES = (
    *("--set", f"train.steps={STEPS}"),
    *("--set", "train.checkpoint_every=1"),
    *("--set", "train.evaluate_every=10"),
    *("--set", "train.report_every=7"),
    *("--set", "train.ema=0.9"),
    *("--set", "text.dropout=0.1"),
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    run("train", corpus / "small.toml", "--data", corpus, "--out", out, *CHANGES)
    return out


def kill_after(corpus, out, checkpoints: int, delay: float, *more: str) -> int:
    """Start or resume, and kill a moment after so many more checkpoints; how it ended."""
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out, *CHANGES, *more)
    return killed(arguments, out, checkpoints, delay)


def test_sigkill_at_random_points(corpus, undisturbed, tmp_path, seed):
    draw = random.Random(seed)
    out = tmp_path / "run"
    out.mkdir()
    first = kill_after(corpus, out, draw.randint(0, 2), draw.random() * 0.5)
    assert first == -signal.SIGKILL
    kill_after(corpus, out, draw.randint(1, 9), draw.random() * 0.05, "--resume")
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out, *CHANGES)
    run(*arguments, "--resume")
    assert tensors_of(out, STEPS) == tensors_of(undisturbed, STEPS)
    model = "model/model.safetensors"
    assert (out / model).read_bytes() == (undisturbed / model).read_bytes()
    assert journal_of(out) == journal_of(undisturbed)


@pytest.mark.slow
def test_a_small_campaign(tmp_path, seed):
    script = Path(__file__).with_name("kill_campaign.py")
    words = [sys.executable, script, "--kills", "12", "--seed", str(seed), "--out", tmp_path]
    done = subprocess.run(
        words, env=environment(), capture_output=True, text=True, timeout=1200, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_polite_signal_finishes_the_step_and_saves(corpus, tmp_path, number, code):
    out = tmp_path / "run"
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out)
    endless = ("--set", "train.steps=1000000", "--set", "train.checkpoint_every=1000000")
    process = WarmProcess("-m", "regard", *arguments, *endless)
    while not (out / "metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert "everything is saved" in said
    steps = sorted(int(path.name[5:]) for path in out.glob("checkpoints/step-*"))
    assert steps[-1] > 0
    assert not list(out.glob("checkpoints/.*"))
    assert said.splitlines()[-1].startswith(f"{out / 'model'}: step ")
    assert "--resume continues" in said.splitlines()[-1]
    assert regard.load(out / "model", "cpu").notes["weights"] == f"step {steps[-1]}"


def test_a_signal_keeps_the_best_model_not_the_last(corpus, tmp_path):
    """The model of the stopped run is the best one; resumed, the run replaces it."""
    out = tmp_path / "run"
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out)
    best = ("--set", "train.evaluate_every=1", "--set", "train.checkpoint_every=1000")
    overfit = ("--set", "optimiser.rate=0.3", "--set", "optimiser.warmup=1")
    endless = ("--set", "train.steps=1000000")
    process = WarmProcess("-m", "regard", *arguments, *best, *overfit, *endless)
    while not any(figures["event"] == "dev" and figures["step"] > 9 for figures in logged(out)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    dev = {figures["step"]: figures["loss"] for figures in logged(out) if figures["event"] == "dev"}
    lowest = min(dev, key=dev.__getitem__)
    assert lowest < max(dev)
    assert said.splitlines()[-1].startswith(f"{out / 'model'}: step {lowest}, ")
    assert run("translate", out / "model", corpus / "test.src").stdout.count("\n") == 12
    more = ("--set", f"train.steps={max(dev) + 2}", "--resume")
    assert "resumed after step" in run(*arguments, *best, *overfit, *more).stderr


def test_a_budget_ends_with_the_name_of_the_model(corpus, tmp_path):
    out = tmp_path / "run"
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out)
    said = run(*arguments, "--set", "train.steps=1000000", "--budget", "0.5s").stderr
    assert "the time budget is used up" in said
    assert said.splitlines()[-1].startswith(f"{out / 'model'}: step ")
    assert run("translate", out / "model", corpus / "test.src").stdout.count("\n") == 12


def logged(out: Path) -> list[dict]:
    """The whole lines of the log of a run that may be going on."""
    path = out / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(corpus, tmp_path):
    out = tmp_path / "run"
    arguments = ("train", corpus / "small.toml", "--data", corpus, "--out", out)
    run(*arguments)
    before = tensors_of(out, 12)
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "sys.argv = ['regard', *sys.argv[1:]]; from regard.cli import main; main()"
    )
    longer = ("--resume", "--set", "train.steps=20")
    process = WarmProcess("-c", script, *arguments, *longer)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 2, said
    assert "cannot be written" in said
    assert "Traceback" not in said
    assert tensors_of(out, 12) == before
    assert not list(out.glob("checkpoints/.*"))


def test_an_unwritable_folder_is_one_line(corpus, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    place = ("--data", corpus, "--out", blocked / "run")
    done = run("train", corpus / "small.toml", *place, code=2)
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
