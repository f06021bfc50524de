"""State is carried from batch to batch of a stream, and over a resume, bit for bit."""

import json
import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from regard.core.errors import BadInput
from regard.core.pytree import tensors_in
from regard.data.batches.sampler import StreamSampler
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.drawn_step import share
from regard.training.loop.events import ReportEvent
from regard.training.loop.run_store import CarriedState
from regard.training.loop.trainable import TrainableModel
from regard.training.loop.trainer import Trainer
from regard.weights.files import weights_of
from small import write_corpus
from small_streams import NextToken, TinyLM, TokenStreams, stream_job, text
from warm import start_ranks

STEPS = 40  # more than two epochs of 16 chunks


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("streams"))


def losses(job, resume=False):
    return [event.loss for event in train(job, resume=resume) if isinstance(event, ReportEvent)]


def test_chunks_add_up_to_whole_streams(recipe, tmp_path):
    """As long as weights stand still, carried states give the loss of streams read at once."""
    job = stream_job(recipe, tmp_path, "optimiser.rate=1e-30", "train.steps=32")
    found = torch.tensor(losses(job)).view(2, 16)
    streams = torch.from_numpy(text().reshape(4, 100)[:, : 16 * 6 + 1])
    model = TinyLM()
    logits_BLV, _ = model(streams[:, :-1], NextToken().initial_state(model, 4))
    nll_BL = F.cross_entropy(logits_BLV.transpose(1, 2), streams[:, 1:], reduction="none")
    expected = nll_BL.view(4, 16, 6).mean((0, 2))
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(found[1], expected, rtol=1e-5, atol=0)  # the epoch begins anew


def test_gradients_stay_within_a_chunk(recipe, tmp_path):
    """The state of the chunk before comes without its graph: a second backward needs none."""
    trainer = Trainer(stream_job(recipe, tmp_path, "train.steps=3"))
    trainer.start(False)
    trainer.step()
    assert trainer.carried.tree is not trainer.carried.initial
    assert not any(tensor.requires_grad for tensor in tensors_in(trainer.carried.tree))
    trainer.step()


@pytest.mark.thinned
@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("killed", [5, 20])
def test_resume_is_exact(recipe, tmp_path, killed, accumulate):
    """Also from the second epoch, and with several chunks a step."""
    steps = STEPS // accumulate
    settings = (f"batches.accumulate={accumulate}", f"train.steps={steps}")
    settings += ("train.checkpoint_every=1",)
    straight = stream_job(recipe, tmp_path / "a", *settings)
    expected, seen = losses(straight), 0
    assert len(expected) == steps and expected[-1] < expected[0]
    for event in train(stream_job(recipe, tmp_path / "b", *settings)):
        seen += isinstance(event, ReportEvent)
        if seen == killed // accumulate + 2:
            break
    again = stream_job(recipe, tmp_path / "b", *settings)
    last = again.checkpoints.steps()[-1]
    assert 0 < last < steps
    assert losses(again, resume=True) == expected[last:]
    one, other = weights_of(straight.model), weights_of(again.model)
    assert all(torch.equal(one[name], other[name]) for name in one)
    states = [job.checkpoints.load(steps, only=("carried",))[1] for job in (straight, again)]
    assert all(map(torch.equal, *(state["carried"].values() for state in states)))


def test_states_that_do_not_fit_are_refused(recipe, tmp_path):
    job = stream_job(recipe, tmp_path, "train.steps=2")
    list(train(job))
    more = replace(job, sampler=StreamSampler(TokenStreams(text(), rows=5, chunk=6)))
    with pytest.raises(BadInput, match=r"carried\.safetensors: the carried state does not fit"):
        next(train(more, resume=True))


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_process_goes_on_with_the_states_of_the_streams_that_it_reads(
    recipe, tmp_path, processes
):
    """Of a checkpoint by any number of processes, which has the states in the order of streams."""
    worlds = [World(rank, processes, torch.device("cpu")) for rank in range(processes)]
    states = [CarriedState(stream_job(recipe, tmp_path, world=world)) for world in worlds]
    stored = {
        str(number): torch.rand(4, *tensor.shape[1:])
        for number, tensor in enumerate(tensors_in(states[0].initial))
    }
    for state, world in zip(states, worlds, strict=True):
        state.load(stored, "here")
        (rows,) = (rows for _, _, rows in share(world, 1, processes))
        for number, tensor in enumerate(tensors_in(state.tree)):
            assert torch.equal(tensor, stored[str(number)][rows])
    of_all = zip(*(tensors_in(state.tree) for state in states), strict=True)
    states[0].world = SimpleNamespace(all_gather=lambda tensor: [*next(of_all)])
    gathered = states[0].gather()
    assert gathered.keys() == stored.keys()
    assert all(torch.equal(gathered[name], stored[name]) for name in stored)


RANKS = """
import json, sys
from pathlib import Path
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import ReportEvent
from small_streams import stream_job
from warm import start_ranks

recipe, out, resume, *settings = sys.argv[1:]
world = World.join("cpu")
with world.together():
    job = stream_job(Path(recipe), Path(out), *settings, world=world)
    events = train(job, resume=bool(resume))
    losses = [event.loss for event in events if isinstance(event, ReportEvent)]
    if world.is_leader:
        Path(out, "losses.json").write_text(json.dumps(losses))
"""


def together(recipe, out, *settings, resume=False):
    """The losses of two processes."""
    out.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, sys.path))
    words = (recipe, out, "resume" if resume else "", *settings)
    processes = start_ranks("-c", RANKS, *words, PYTHONPATH=path)
    said = [one.communicate(timeout=120)[1] for one in processes]
    assert [one.returncode for one in processes] == [0, 0], said
    return json.loads((out / "losses.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("before", ["alone", "together"])
def test_two_processes_go_on_where_others_ended(recipe, tmp_path, before):
    shorter, longer = (
        ("batches.accumulate=2", f"train.steps={steps}", "train.checkpoint_every=10")
        for steps in (10, 14)
    )
    if before == "alone":
        losses(stream_job(recipe, tmp_path / "b", *shorter))
    else:
        together(recipe, tmp_path / "b", *shorter)
    straight = losses(stream_job(recipe, tmp_path / "c", *longer))
    going_on = together(recipe, tmp_path / "b", *longer, resume=True)
    assert going_on == pytest.approx(straight[10:], abs=1e-5)


def test_two_processes_keep_streams_of_their_own(recipe, tmp_path):
    """They agree with one, and one goes on where they ended."""
    settings = ("batches.accumulate=2", "train.steps=10", "train.checkpoint_every=10")
    alone = stream_job(recipe, tmp_path / "a", *settings)
    expected = losses(alone)
    assert together(recipe, tmp_path / "b", *settings) == pytest.approx(expected, abs=1e-5)
    longer = ("batches.accumulate=2", "train.steps=14", "train.checkpoint_every=10")
    going_on = losses(stream_job(recipe, tmp_path / "b", *longer), resume=True)
    straight = losses(stream_job(recipe, tmp_path / "c", *longer))
    assert going_on == pytest.approx(straight[10:], abs=1e-5)


@pytest.mark.gpu
def test_captured_steps_carry_states_too(recipe, tmp_path, monkeypatch):
    cuda = World(0, 1, torch.device("cuda", 0))
    settings = (f"train.steps={STEPS}", "train.compile=false")
    captured = stream_job(recipe, tmp_path / "a", *settings, world=cuda)
    assert TrainableModel(captured).captures
    found = losses(captured)
    monkeypatch.setattr(TrainableModel, "captures", False)
    eager = losses(stream_job(recipe, tmp_path / "b", *settings, world=cuda))
    assert found == pytest.approx(eager, rel=1e-4)
    assert eager[-1] < eager[0]
