"""The recipes of CIFAR-10 in a tiny form: averaged weights, resumed runs, another resolution."""

import numpy as np
import pytest
import torch

import regard
from regard.models.pools import POOLS
from regard.training.checkpoint import Checkpoints
from regard.training.loop import train
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run import prepare
from regard.weights.files import read_folder
from small_runs import ALONE

SMALL = {
    "batches.rows": 16,
    "batches.tokens": 16,
    "data.dev.held_out": 8,
    "optimiser.warmup": 2,
    "train.steps": 6,
    "train.ema": 0.5,
    "train.evaluate_every": 3,
    "train.checkpoint_every": 3,
    "train.precision": "fp32",
}
TINY = {f"model.change.{key}": size for key, size in (("width", 12), ("heads", 2), ("depth", 2))}
TINY |= {"model.change.inner": 16, **SMALL}


def prepared(name, folder, settings, out="run", **options):
    recipe = read(find(name), settings)
    return prepare(recipe, folder / out, ALONE, data=folder, **options)


def trained(run):
    """The model folder of a run that is trained to its end, and its last progress."""
    *_, ended = train(run.job)
    run.finish(ended.progress)
    run.lock.release()
    return run.model_folder, ended.progress


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Random images in an archive as that of CIFAR-10, and a model trained on them."""
    folder, draw = tmp_path_factory.mktemp("cifar"), np.random.default_rng(1)
    arrays = {}
    for name, count in (("train", 48), ("test", 10)):
        arrays[f"x_{name}"] = draw.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        arrays[f"y_{name}"] = (np.arange(count) % 10).astype(np.uint8)
    np.savez(folder / "cifar10.npz", **arrays)
    trained(prepared("cifar10", folder, TINY))
    return folder


def test_averaged_weights_are_evaluated_and_saved(folder):
    run, seen = prepared("cifar10", folder, TINY, "again"), {}
    evaluate = run.job.evaluate

    def note(model):
        seen[len(seen)] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return evaluate(model)

    run.job.evaluate = note
    place, progress = trained(run)
    saved, notes = read_folder(place), regard.load(place, "cpu").notes
    assert notes["weights"] == f"moving average at step {progress.best_step}"
    evaluated = seen[progress.best_step // 3 - 1]
    groups = Checkpoints(run.out / "checkpoints").load(progress.best_step)[1]
    assert saved.keys() == groups["average"].keys()
    for name, tensor in saved.items():
        assert torch.equal(tensor, groups["average"][name])
        assert torch.equal(tensor, evaluated[name])
    assert any(not torch.equal(saved[name], groups["model"][name]) for name in saved)


def test_a_killed_run_goes_on_bit_for_bit(folder):
    """With augmentation, mixed images, drop path, and averaged weights."""
    for event in train((run := prepared("cifar10", folder, TINY, "killed")).job):
        if event.figures and event.figures.get("step") == 3:
            break
    run.lock.release()
    place, _ = trained(prepared("cifar10", folder, TINY, "killed", resume=True))
    whole, parts = (read_folder(one) for one in (folder / "run" / "model", place))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def tuned_at_48(folder, start):
    """The model folder after fine-tuning at 48 × 48 pixels, where 144 patches stand for 64."""
    pytest.importorskip("PIL")
    run = prepared("cifar10-48", folder, {**SMALL, "model.start": str(start)}, f"{start}-48")
    assert run.job.model.trunk.embed.position.grid == (12, 12)
    return trained(run)[0]


def test_the_model_is_tuned_at_another_resolution(folder):
    start = folder / "run" / "model"
    tuned, before = (regard.load(one, "cpu") for one in (tuned_at_48(folder, start), start))
    assert tuned.tokenizer.size == (48, 48) and tuned.tokenizer.mean == before.tokenizer.mean
    assert tuned.labels.names == before.labels.names and "frog" in tuned.labels.names
    assert tuned.facts.pool == before.facts.pool == POOLS["mean"]
    other = {**SMALL, "model.start": str(start), "images.mean": [0.5]}
    with pytest.raises(regard.BadInput, match=r"images\.mean follows from model\.start"):
        prepared("cifar10-48", folder, other, "other")
    other = {**SMALL, "model.start": str(start), "model.change.positions": "learned"}
    with pytest.raises(
        regard.BadInput, match=r"trunk\.embed\.position\.weight is missing in the folder"
    ):
        prepared("cifar10-48", folder, other, "other")
    other = {**SMALL, "model.start": str(start), "model.paper": "deit"}
    with pytest.raises(regard.BadInput, match="holds a model of ViT, not of DeiT"):
        prepared("cifar10-48", folder, other, "other")


def test_learned_positions_are_interpolated_for_another_resolution(folder):
    learned = {"prefix_tokens": 1, "pool": "first", "positions": "learned"}
    learned = {f"model.change.{key}": value for key, value in learned.items()}
    start, _ = trained(prepared("cifar10", folder, {**TINY, **learned}, "learned"))
    tuned = regard.load(tuned_at_48(folder, start), "cpu")
    assert tuned.facts.pool == POOLS["first"]
    assert tuned.module.trunk.embed.position.weight.shape == (1 + 12 * 12, 12)
