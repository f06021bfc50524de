"""Checkpoints of divided weights: resumed by any number of processes, whole or not at all."""

import random
import signal
import time
from pathlib import Path

import pytest
import torch

from regard.core.errors import BadInput
from regard.training.checkpoint import Checkpoints
from regard.training.dry_run import estimate_rank
from regard.weights.files import read_tensors
from small import journal_of, write_corpus
from small_ranks import SMOOTH, STILL, losses_of, same, tensors_at
from small_rnn import prepared, write_streams
from verb import run
from warm import start_ranks

FSDP = "distributed.kind=fsdp"
AVERAGED = ("optimiser.clip=0.5", "train.ema=0.9")


def train(recipe: Path, out: Path, ranks: int, *settings: str, resume: bool = False) -> None:
    """A run, or the rest of one, by so many processes."""
    changes = [word for setting in (SMOOTH, *settings) for word in ("--set", setting)]
    words = ("train", recipe, "--data", recipe.parent, "--device", "cpu", *changes, "--out", out)
    more = ("--resume",) if resume else ()
    for process in start_ranks("-m", "regard", *words, *more, world=ranks):
        said = process.communicate(timeout=200)[1]
        assert process.returncode == 0, said


@pytest.mark.slow
def test_a_divided_run_resumes_bit_for_bit(tmp_path):
    recipe = write_corpus(tmp_path, depth=2)
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train(recipe, straight, 2, FSDP, *AVERAGED)
    train(recipe, stopped, 2, FSDP, *AVERAGED, "train.steps=6")
    assert len([*(stopped / "checkpoints" / "step-00000006").glob("shard-*")]) == 2
    train(recipe, stopped, 2, FSDP, *AVERAGED, resume=True)
    assert same(tensors_at(straight, 12), tensors_at(stopped, 12))
    stored = tensors_at(stopped, 12)
    folder = read_tensors(stopped / "model" / "model.safetensors")
    assert all(torch.equal(folder[name], stored[f"average/{name}"]) for name in folder)


@pytest.mark.slow
def test_exact_sums_of_three_processes_resume_bit_for_bit(tmp_path):
    recipe, exact = write_corpus(tmp_path), ("distributed.exact=true", "distributed.shards=3")
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    train(recipe, straight, 3, *exact)
    train(recipe, stopped, 3, *exact, "train.steps=6")
    train(recipe, stopped, 3, *exact, resume=True)
    assert same(tensors_at(straight, 12), tensors_at(stopped, 12))
    assert journal_of(straight) == journal_of(stopped)


def test_one_process_has_the_plain_steps_and_writes_in_the_background(tmp_path, monkeypatch):
    """As there is nothing to divide; its checkpoints have the form of shards."""
    monkeypatch.chdir(tmp_path)
    recipe = write_corpus(tmp_path)
    for name, settings in {"plain": (), "one": (FSDP,)}.items():
        changes = [word for setting in (*settings, *AVERAGED) for word in ("--set", setting)]
        run("train", recipe, "--data", tmp_path, "--device", "cpu", *changes, "--out", name)
    plain, one = Path("plain"), Path("one")
    assert len([*(one / "checkpoints" / "step-00000012").glob("shard-*")]) == 1
    assert same(tensors_at(plain, 12), tensors_at(one, 12))
    model = "model/model.safetensors"
    assert (plain / model).read_bytes() == (one / model).read_bytes()


WAYS = {
    "2 to 1": ((2, FSDP), (1,)),
    "2 to 4": ((2, FSDP), (4, FSDP)),
    "4 to 2": ((4, FSDP), (2, FSDP)),
    "1 to 2": ((1,), (2, FSDP)),
    "ddp to fsdp": ((2, "distributed.kind=ddp"), (2, FSDP)),
    "fsdp to ddp": ((2, FSDP), (2, "distributed.kind=ddp")),
    "hsdp to fsdp": ((4, "distributed.kind=hsdp", "distributed.replicas=2"), (2, FSDP)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), WAYS.values(), ids=WAYS.keys())
def test_any_number_of_processes_resumes(tmp_path, first, then):
    """With the same examples in the same order, so that losses agree."""
    recipe = write_corpus(tmp_path, depth=2)
    train(recipe, tmp_path / "straight", 1, STILL, *AVERAGED)
    train(recipe, tmp_path / "moved", *first, STILL, *AVERAGED, "train.steps=6")
    train(recipe, tmp_path / "moved", *then, STILL, *AVERAGED, resume=True)
    one, other = losses_of(tmp_path / "straight"), losses_of(tmp_path / "moved")
    assert other == pytest.approx(one, abs=2e-5)
    expected, moved = (tensors_at(tmp_path / name, 12) for name in ("straight", "moved"))
    assert expected.keys() == moved.keys()
    assert all(torch.allclose(expected[name], moved[name], atol=1e-3) for name in expected)


CARRIED = {
    "LSTM": ("model.change.dropout=0.2", "objective.causal-lm.mean_length=12"),  # learned start
    "ELMo": (
        "model.paper=elmo",
        "model.change={width=4, cells=6, filters=[[1, 4]], longest=8, character_size=3}",
        "text.lower=",
        "text.vocab=30",
        "objective.bilm.words=20",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", CARRIED.values(), ids=CARRIED.keys())
def test_carried_streams_of_a_divided_run_resume_bit_for_bit(tmp_path, settings):
    """Each process carries the states of its own streams; the checkpoint has all of them."""
    recipe = write_streams(tmp_path) / "lstm.toml"
    train(recipe, tmp_path / "straight", 2, FSDP, *settings)
    train(recipe, tmp_path / "stopped", 2, FSDP, *settings, "train.steps=6")
    train(recipe, tmp_path / "stopped", 2, FSDP, *settings, resume=True)
    straight, stopped = (tensors_at(tmp_path / name, 12) for name in ("straight", "stopped"))
    assert any(name.startswith("carried/") for name in stopped)
    assert same(straight, stopped)
    assert losses_of(tmp_path / "straight") == losses_of(tmp_path / "stopped")


@pytest.mark.slow
def test_streams_that_three_processes_cannot_share_are_refused(tmp_path):
    """Before the first checkpoint, for which processes gather their states."""
    write_streams(tmp_path)
    words = ("train", tmp_path / "lstm.toml", "--data", tmp_path, "--device", "cpu")
    running = start_ranks("-m", "regard", *words, "--out", tmp_path / "run", world=3)
    reason = "8 streams, 3 processes: each process needs the same number of streams"
    for process in running:
        said = process.communicate(timeout=100)[1]
        assert reason in said and "frame #" not in said and "terminate" not in said
    assert [process.returncode for process in running].count(-signal.SIGABRT) == 0
    with pytest.raises(BadInput, match=reason):
        estimate_rank(prepared(tmp_path, tmp_path / "dry").job, ranks=3, gpu=None)


@pytest.mark.slow
def test_forty_kills_lose_nothing(tmp_path):
    """Both processes are killed at random moments, most of them in a write."""
    recipe, draw = write_corpus(tmp_path), random.Random(5)
    settings = (SMOOTH, FSDP, "train.checkpoint_every=1", "train.steps=400", "train.ema=0.9")
    changes = [word for setting in settings for word in ("--set", setting)]
    out, reached = tmp_path / "killed", 0
    words = ("train", recipe, "--data", tmp_path, "--device", "cpu", *changes, "--resume")
    for _ in range(40):
        running = start_ranks("-m", "regard", *words, "--out", out)
        known = Checkpoints(out / "checkpoints")
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline and max(known.steps(), default=0) <= reached:
            assert all(process.poll() is None for process in running)
            time.sleep(0.005)
        time.sleep(draw.random() * 0.1)
        for process in running:
            process.send_signal(signal.SIGKILL)
        for process in running:
            process.wait(20)
        last = known.steps()[-1]
        assert last > reached
        assert known.load(last)[0].step == last  # it is whole
        reached = last
    ended = (*settings[1:3], "train.ema=0.9", f"train.steps={reached}")
    train(recipe, tmp_path / "straight", 2, *ended)
    assert same(tensors_at(out, reached), tensors_at(tmp_path / "straight", reached))
