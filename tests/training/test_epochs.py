"""Runs whose length is given in epochs."""

import math
from fractions import Fraction

import pytest
import torch

from regard.training.distributed import World
from regard.training.dry_run import count_epoch
from regard.training.loop import train
from regard.training.loop.events import DevEvent
from regard.training.loop.trainer import Trainer
from regard.training.recipe import read
from regard.training.recipe.tables import TrainConfig
from regard.training.run import prepare
from small import tensors_of, write_corpus
from small_rnn import write_streams
from verb import run

ALONE = World(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder)
    return folder


def prepared(corpus, out, *settings, **limits):
    return prepare(read(corpus / "small.toml", settings), out, ALONE, data=corpus, **limits)


@pytest.mark.parametrize(("epochs", "accumulate"), [(2, 1), (1.5, 1), (0.1, 1), (2, 3), (0.01, 1)])
def test_epochs_are_steps_by_the_batches_of_the_data(corpus, tmp_path, epochs, accumulate):
    settings = (f"train.epochs={epochs}", f"batches.accumulate={accumulate}")
    job = prepared(corpus, tmp_path / "run", *settings).job
    batches = count_epoch(job.sampler.uncounted()).batches
    assert batches > 3
    exactly = Fraction(str(epochs)) * batches / accumulate
    assert job.recipe.train.steps == max(1, math.ceil(exactly))


ABOVE = [(1.1, 100, 110), (2.2, 55, 121), (2.2, 100, 220)]  # 1.1 * 100 = 110.00000000000001
PARTS = [(1.5, 7, 11), (0.01, 30, 1), (2, 5, 10), (3, 31.25, 94), (0.35, 20, 7)]


@pytest.mark.parametrize(("epochs", "batches", "steps"), ABOVE + PARTS)
def test_rounding_adds_no_step(epochs, batches, steps):
    assert TrainConfig(epochs=epochs).over(batches).steps == steps
    assert (epochs * batches > steps) == ((epochs, batches, steps) in ABOVE)


def test_the_schedule_ends_with_the_epochs(corpus, tmp_path):
    settings = ("train.epochs=4", "optimiser.schedule=linear", "optimiser.warmup=0.1")
    job = prepared(corpus, tmp_path / "run", *settings).job
    steps = job.recipe.train.steps
    trainable = Trainer(job).trainable
    assert trainable.rate(steps + 1) == 0 and trainable.rate(steps) > 0
    assert trainable.rate(max(1, int(0.1 * steps))) == pytest.approx(0.01)


def test_a_resumed_run_has_the_same_length_and_weights(corpus, tmp_path):
    settings = ("train.epochs=1.2", "optimiser.schedule=linear", "train.checkpoint_every=1000")
    whole = prepared(corpus, tmp_path / "whole", *settings)
    *_, end = train(whole.job)
    stop = iter([False] * 4 + [True])
    part = prepared(corpus, tmp_path / "part", *settings, stop_requested=lambda: next(stop))
    *_, stopped = train(part.job)
    assert stopped.reason == "request" and stopped.progress.step == 5
    part.release()
    again = prepared(corpus, tmp_path / "part", *settings, resume=True)
    *_, resumed = train(again.job, resume=True)
    steps = whole.job.recipe.train.steps
    assert resumed.progress.step == end.progress.step == steps
    assert tensors_of(tmp_path / "part", steps) == tensors_of(tmp_path / "whole", steps)


@pytest.mark.slow
def test_a_run_is_made_longer_by_epochs(corpus, tmp_path):
    run("train", corpus / "small.toml", "--data", corpus, "--out", tmp_path / "run")
    longer = ("--set", "train.epochs=4", "--resume")
    said = run("train", corpus / "small.toml", "--data", corpus, "--out", tmp_path / "run", *longer)
    assert "resumed after step 12" in said.stderr and "ended after step 20" in said.stderr


def test_a_dry_run_prints_the_steps(corpus, tmp_path):
    told = ("--data", corpus, "--dry-run", "--set", "train.epochs=2", "--device", "cpu")
    said = run("train", corpus / "small.toml", *told).stdout
    batches = int(said.split("an epoch")[1].split()[0])
    assert f"{2 * batches} steps, 2 epochs" in said


def test_an_epoch_over_streams_is_a_pass_over_every_stream(tmp_path):
    write_streams(tmp_path)
    recipe = read(tmp_path / "lstm.toml", ["train.epochs=2"])
    job = prepare(recipe, tmp_path / "run", ALONE, data=tmp_path).job
    assert job.recipe.train.steps == 2 * job.sampler.dataset.chunks


def test_a_run_is_evaluated_at_the_end_of_each_epoch(corpus, tmp_path):
    settings = ("train.epochs=3", "train.evaluate_every=", "train.checkpoint_every=1000")
    job = prepared(corpus, tmp_path / "run", *settings).job
    batches = job.sampler.epoch_batches()
    steps = [event.progress.step for event in train(job) if isinstance(event, DevEvent)]
    assert steps == [batches, 2 * batches, 3 * batches]


@pytest.mark.parametrize(
    ("batches", "every"), [(0.5, 1), (7, 7), (2.5, 3), (1_000, 1_000), (1_500, 750), (4_000, 1_000)]
)
def test_long_epochs_are_evaluated_in_equal_parts(batches, every):
    assert TrainConfig(epochs=2).over(batches).evaluate_every == every
    assert TrainConfig(epochs=2, evaluate_every=5).over(batches).evaluate_every == 5
    assert TrainConfig(steps=9).over(batches).evaluate_every == 1_000
