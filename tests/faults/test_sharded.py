"""Processes that divide the weights of a model have the losses of one process."""

from functools import partial
from pathlib import Path

import pytest
import torch

from small import write_corpus
from small_documents import RECIPE as ANIMALS
from small_documents import write_animals
from small_ranks import RECURRENT, SMOOTH, STILL, losses
from small_teacher import write_teacher
from warm import start_ranks

STILL_ENCODER = tuple(f"model.change.{kind}=0.0" for kind in ("dropout", "attention_dropout"))
STILL_T5 = ("model.change.attention_dropout=0.0", "model.change.inner_dropout=0.0")
STILL_T5 = (*STILL_T5, "model.change.final_dropout=0.0")
FSDP, HSDP = ("distributed.kind=fsdp",), ("distributed.kind=hsdp", "distributed.replicas=2")
BOTH = [(FSDP, 2), (FSDP, 4), (HSDP, 4)]
IDS = ["fsdp 2", "fsdp 4", "hsdp 2 x 2"]


def ranks(count: int):
    return partial(start_ranks, world=count)


def test_two_shards_give_the_losses_of_one_process(tmp_path):
    alone, together = losses(write_corpus(tmp_path, depth=3), STILL, SMOOTH, *FSDP)
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=1e-5)
    plain, divided = (tmp_path / name / "model" for name in ("alone", "together"))
    one, two = (read_weights(folder) for folder in (plain, divided))
    assert one.keys() == two.keys()
    assert all(torch.allclose(one[name], two[name], atol=1e-4) for name in one)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    from regard.weights.files import read_tensors

    return read_tensors(folder / "model.safetensors")


MORE = {
    "clipped, averaged": ("optimiser.clip=0.5", "train.ema=0.9"),
    "whole weights": ("distributed.reshard=false",),
    "recomputed blocks": ("distributed.checkpoint_blocks=true",),
    "accumulated": ("batches.accumulate=2",),
    "recurrent": (*RECURRENT, SMOOTH),
    "levels": ("optimiser.unfreeze_every=3", "optimiser.layer_decay=0.5", SMOOTH),
    "frozen": ('optimiser.freeze=["source"]', SMOOTH),
    "chosen by BLEU": ("train.metric=bleu",),
    "relative positions": ("model.paper=t5", "model.size=small", *STILL_T5, SMOOTH),
}


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "count"), BOTH, ids=IDS)
@pytest.mark.parametrize("more", MORE.values(), ids=MORE.keys())
def test_translators(tmp_path, settings, count, more):
    alone, together = losses(
        write_corpus(tmp_path, depth=3), *more, STILL, *settings, launch=ranks(count)
    )
    assert len(alone) == 14
    assert together == pytest.approx(alone, abs=2e-5)


ENCODERS = {
    "BERT": (),
    # A head with dropout, and samples of a generator: the same draws only for whole batches.
    "ALBERT": (
        *("model.paper=albert", "model.size=base", "model.change.embedding_size=16"),
        "batches.accumulate=4",
    ),
    "ELECTRA": ("model.paper=electra", "model.size=small", "batches.accumulate=4"),
}
ENCODERS["a teacher"] = (
    *("model.start=teacher", "model.layers=every second", "model.size=", "text=false"),
    *("objective.next-sentence=false", "objective.distillation.teacher=teacher"),
    "model.change={dropout=0.0, attention_dropout=0.0}",
)


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "count"), BOTH, ids=IDS)
@pytest.mark.parametrize("more", ENCODERS.values(), ids=ENCODERS.keys())
def test_pre_training(tmp_path, settings, count, more):
    write_animals(tmp_path)
    write_teacher(tmp_path / "teacher")
    (tmp_path / "animals.toml").write_text(ANIMALS)
    recipe = tmp_path / "animals.toml"
    alone, together = losses(
        recipe, *STILL_ENCODER, SMOOTH, "train.steps=6", *more, *settings, launch=ranks(count)
    )
    assert len(alone) == 7
    assert together[:6] == pytest.approx(alone[:6], abs=2e-5)  # then the dev set: other samples
