"""With distributed.exact, weights have the same bits for any number of processes."""

from pathlib import Path

import pytest

from regard.core.errors import BadInput
from regard.training.parallel import check_processes
from regard.training.recipe.tables import DistributedConfig
from small import tensors_of, write_corpus
from small_documents import RECIPE as ANIMALS
from small_documents import write_animals
from small_ranks import losses_of
from warm import start_ranks

EXACT = ("distributed.exact=true", "optimiser.clip=0.5", "train.ema=0.9")


def train(recipe: Path, out: Path, ranks: int, *settings: str) -> None:
    changes = [word for setting in (*EXACT, *settings) for word in ("--set", setting)]
    words = ("train", recipe, "--data", recipe.parent, "--device", "cpu", *changes, "--out", out)
    for process in start_ranks("-m", "regard", *words, world=ranks):
        said = process.communicate(timeout=200)[1]
        assert process.returncode == 0, said


def runs(recipe: Path, counts: tuple[int, ...], *settings: str) -> list[Path]:
    folders = [recipe.parent / f"ranks-{count}" for count in counts]
    for count, folder in zip(counts, folders, strict=True):
        train(recipe, folder, count, *settings)
    return folders


def test_two_processes_have_the_bits_of_one(tmp_path):
    """Dropout included: it is drawn for each slice."""
    one, two = runs(write_corpus(tmp_path), (1, 2), "train.steps=6")
    assert tensors_of(one, 6) == tensors_of(two, 6)
    assert losses_of(one) == losses_of(two)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("batches.accumulate=3",), ("distributed.shards=8",)])
def test_one_two_and_four_processes(tmp_path, more):
    one, *others = runs(write_corpus(tmp_path, depth=2), (1, 2, 4), *more)
    for other in others:
        assert tensors_of(one, 12) == tensors_of(other, 12)
        assert (one / "model/model.safetensors").read_bytes() == (
            other / "model/model.safetensors"
        ).read_bytes()


@pytest.mark.slow
def test_pre_training(tmp_path):
    write_animals(tmp_path)
    (tmp_path / "animals.toml").write_text(ANIMALS)
    one, *others = runs(tmp_path / "animals.toml", (1, 2, 4))
    for other in others:
        assert tensors_of(one, 12) == tensors_of(other, 12)


def test_slices_that_cannot_be_dealt_evenly_are_refused():
    with pytest.raises(BadInput, match="4 slices of a step cannot be dealt to 3 processes evenly"):
        check_processes(DistributedConfig(exact=True, shards=4), 3)
