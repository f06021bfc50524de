"""Every optimiser with every kind of distribution: as in one process, or refused by name."""

import json
from itertools import product
from typing import get_args

import pytest

from regard.core.errors import BadInput
from regard.training.recipe import read
from regard.training.recipe.tables import DistributedConfig, OptimiserConfig
from small import write_corpus
from small_ranks import STILL
from warm import start_ranks

OPTIMISERS = get_args(OptimiserConfig.model_fields["kind"].annotation)
KINDS = {  # how processes share a model, and their number
    **{kind: ((f"distributed.kind={kind}",), 2) for kind in ("auto", "ddp", "fsdp")},
    "hsdp": (("distributed.kind=hsdp", "distributed.replicas=2"), 4),
    "exact": (("distributed.exact=true",), 2),
}
REFUSED = {(kind, way) for kind in ("adafactor", "relative-adamw") for way in ("fsdp", "hsdp")}
# Averaging begins at the first worse evaluation; at this epsilon Adam steps by no rounding.
SETTINGS = {
    "nt-asgd": ("optimiser.nonmonotone=1", "train.evaluate_every=1", "optimiser.rate=1"),
    "sgd": ("optimiser.rate=1",),
    "adam": ("optimiser.eps=1e-3",),
    "adamw": ("optimiser.eps=1e-3", "optimiser.decay=0.1"),
    "relative-adamw": ("optimiser.eps=1e-3", "optimiser.decay=0.1"),
}
RUNS = """
import json, sys
from pathlib import Path
import torch
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.recipe import read
from regard.training.run import prepare

recipe, out, runs = sys.argv[1:]
world = World.join("cpu")
with world.together():
    for name, settings in json.loads(runs).items():
        folder = Path(recipe).parent
        run = prepare(read(Path(recipe), settings), Path(out) / name, world, data=folder)
        *_, end = train(run.job)
        if world.is_leader:
            run.finish(end.progress)
        run.release()
        world.barrier()
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"), depth=2)


def settings_of(optimiser, *sharing):
    few = ("train.steps=4", "train.evaluate_every=2", "train.checkpoint_every=4", STILL)
    kind = f"optimiser.kind={optimiser}"
    return [*few, kind, *SETTINGS.get(optimiser, ()), "optimiser.warmup=0", *sharing]


def trained(recipe, out, count, runs):
    """The weights of models that so many processes trained, by the names of their runs."""
    from regard.weights.files import read_tensors

    ranks = start_ranks("-c", RUNS, recipe, out, json.dumps(runs), world=count)
    said = [rank.communicate(timeout=240)[1] for rank in ranks]
    assert not any(rank.returncode for rank in ranks), "\n".join(said)
    return {name: read_tensors(out / name / "model" / "model.safetensors") for name in runs}


@pytest.fixture(scope="module")
def alone(recipe, tmp_path_factory):
    """The weights of each optimiser in one process."""
    runs = {optimiser: settings_of(optimiser) for optimiser in OPTIMISERS}
    return trained(recipe, tmp_path_factory.mktemp("alone"), 1, runs)


@pytest.mark.parametrize(
    "kind",
    ["fsdp", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "fsdp")],
)
def test_processes_train_as_one_does(recipe, alone, tmp_path, kind):
    sharing, count = KINDS[kind]
    optimisers = [each for each in OPTIMISERS if (each, kind) not in REFUSED]
    runs = {each: settings_of(each, *sharing) for each in optimisers}
    for optimiser, weights in trained(recipe, tmp_path, count, runs).items():
        assert weights.keys() == alone[optimiser].keys()
        for name, tensor in weights.items():
            assert tensor.allclose(alone[optimiser][name], atol=1e-4), (optimiser, name)


@pytest.mark.parametrize(("optimiser", "kind"), [*product(OPTIMISERS, KINDS)])
def test_what_cannot_be_divided_is_refused_by_name_before_data_is_read(recipe, optimiser, kind):
    settings = settings_of(optimiser, *KINDS[kind][0])
    if (optimiser, kind) not in REFUSED:
        assert isinstance(read(recipe, settings).distributed, DistributedConfig)
        return
    with pytest.raises(BadInput, match=rf"{optimiser} reads whole matrices, which .*'{kind}'"):
        read(recipe, settings)
