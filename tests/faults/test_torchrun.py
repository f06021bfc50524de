"""One process and two agree; if one fails, both end."""

import os
import subprocess
import sys

import pytest

from regard.data.batches.sampler import Dataset
from small import start, write_corpus
from small_documents import RECIPE as ANIMALS
from small_documents import write_animals
from small_ranks import RECURRENT, SMOOTH, STILL, losses, start_with_group
from small_teacher import write_teacher
from small_tuning import write_tuning
from warm import start_ranks

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def torchrun(*words: object, **variables: str) -> list[subprocess.Popen[str]]:
    return [start(*TORCHRUN, *words, **variables)]


@pytest.mark.parametrize(
    ("launch", "settings"),
    [
        (start_ranks, (STILL,)),
        pytest.param(torchrun, (STILL,), marks=pytest.mark.slow),
        pytest.param(  # a batch for each: draws are equal
            torchrun, ("model.change.dropout=0.2", "batches.accumulate=2"), marks=pytest.mark.slow
        ),
        pytest.param(start_ranks, (*RECURRENT, STILL, SMOOTH), marks=pytest.mark.slow),
    ],
    ids=["slices", "slices by torchrun", "whole batches", "recurrent"],
)
def test_two_ranks_give_the_same_losses(tmp_path, launch, settings):
    alone, together = losses(write_corpus(tmp_path), *settings, launch=launch)
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
def test_ranks_use_a_process_group_that_is_open(tmp_path):
    alone, together = losses(write_corpus(tmp_path), STILL, launch=start_with_group)
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
def test_ranks_add_up_weights_that_only_reading_tells(tmp_path):
    """Each reads rows of its own, and counts the tokens that are masked in them."""
    write_animals(tmp_path)
    (tmp_path / "animals.toml").write_text(ANIMALS)
    still = [f"model.change.{kind}=0.0" for kind in ("dropout", "attention_dropout")]
    alone, together = losses(tmp_path / "animals.toml", *still, "train.steps=6")
    assert len(alone) == 7
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
def test_ranks_learn_the_same_from_a_teacher(tmp_path):
    """In pre-training each runs it, in fine-tuning all read what the leader wrote."""
    write_animals(tmp_path)
    write_teacher(tmp_path / "teacher")
    begin = ("model.start=teacher", "model.layers=every second", "model.size=", "text=false")
    still = "model.change={dropout=0.0, attention_dropout=0.0}"
    taught = ("objective.next-sentence=false", "objective.distillation.teacher=teacher")
    alone, together = losses(tmp_path / "animals.toml", *begin, still, *taught, "train.steps=6")
    assert len(alone) == 7 and together == pytest.approx(alone, abs=1e-4)
    (tmp_path / "tuning").mkdir()
    recipe = write_tuning(tmp_path / "tuning", "one")
    first = (*begin[:1], "model.size=", "text=false", still)
    write_teacher(tmp_path / "tuning" / "teacher")
    losses(recipe, *first)
    for out in ("alone", "together"):
        (recipe.parent / out).rename(recipe.parent / f"teacher-{out}")
    taught = ("distillation.teacher=teacher-alone/model", "distillation.weight=1.0")
    alone, together = losses(recipe, *begin, still, *taught)
    assert len(alone) == 14 and together == pytest.approx(alone, abs=1e-4)


@pytest.mark.slow
def test_a_batch_of_fewer_rows_than_ranks(tmp_path):
    """One rank has nothing to do and must still meet the other."""
    still = "model.change={width=16, heads=2, longest=48, dropout=0.0}"
    recipe = write_tuning(tmp_path, "several")
    alone, together = losses(recipe, still, "batches.rows=1", "train.steps=6")
    assert len(alone) == 7
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
def test_ranks_unfreeze_the_same_levels(tmp_path):
    still = "model.change={width=16, heads=2, longest=48, dropout=0.0}"
    levels = ("optimiser.unfreeze_every=epoch", "optimiser.layer_decay=0.5")
    alone, together = losses(write_tuning(tmp_path, "one"), still, *levels, SMOOTH)
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)


NARROW = """
from regard.cli import main
from regard.data.batches.sampler import Dataset

Dataset.window = 7
main()
"""


@pytest.mark.slow
def test_three_ranks_exchange_the_rows_of_many_windows(tmp_path, monkeypatch):
    """An epoch of 120 examples has 18 windows; the last has one row, and two ranks get none."""
    monkeypatch.setattr(Dataset, "window", 7)
    (tmp_path / "narrow.py").write_text(NARROW)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])

    def launch(*words):
        assert words[:2] == ("-m", "regard")
        return start_ranks("-m", "narrow", *words[2:], world=3, PYTHONPATH=path)

    settings = (STILL, SMOOTH, "batches.accumulate=2")
    alone, together = losses(write_corpus(tmp_path), *settings, launch=launch)
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)


FAILS = """
import os
from regard.cli import main
from regard.objectives.seq2seq import Seq2Seq

collate, calls = Seq2Seq.collate, []

def failing(self, *words):
    calls.append(words)
    if len(calls) == 4 and os.environ["RANK"] == "1":
        raise RuntimeError("no more paper")
    return collate(self, *words)

Seq2Seq.collate = failing
main()
"""


@pytest.mark.parametrize("launch", [start_ranks, pytest.param(torchrun, marks=pytest.mark.slow)])
def test_one_rank_that_fails_ends_all(tmp_path, launch):
    recipe = write_corpus(tmp_path)
    (tmp_path / "fails.py").write_text(FAILS)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    place = ("--data", tmp_path, "--out", tmp_path / "out", "--device", "cpu")
    running = launch("-m", "fails", "train", recipe, *place, PYTHONPATH=path)
    said = [process.communicate(timeout=120)[1] for process in running]
    assert {process.returncode for process in running} == {1}
    assert "rank 0 ends: rank 1 failed (RuntimeError: no more paper)" in said[0]
    assert "Connection closed" not in "".join(said)


WAITS = """
import time
from regard.training.distributed import World

world = World.join("cpu")
with world.together():
    assert world.from_leader(lambda: {"rank": world.rank}) == {"rank": 0}
    world.barrier()
    if world.rank == FAILING:
        raise ValueError("no more paper")
    time.sleep(600)
"""


@pytest.mark.parametrize("failing", [0, 1])
def test_a_rank_does_not_wait_for_one_that_failed(failing):
    """Whatever it waits for, and without a launcher: the process of rank 0 holds the store."""
    world = start_ranks("-c", WAITS.replace("FAILING", str(failing)))
    said = [one.communicate(timeout=120)[1] for one in world]
    assert [one.returncode for one in world] == [1, 1]
    end = f"regard: rank {1 - failing} ends: rank {failing} failed (ValueError: no more paper)"
    assert said[1 - failing].strip().splitlines() == [end]
    assert "no more paper" in said[failing] and "ends" not in said[failing]
