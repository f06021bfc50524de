"""Training of the kind "fsdp" in one process: its cost, GPT-2 XL, and its checkpoints.

    python bench/sharded.py step --model bert-base       (against the plain step)
    python bench/sharded.py step --model gpt2
    python bench/sharded.py xl                           (activation checkpointing, against peers)
    python bench/sharded.py checkpoint                   (how long a checkpoint stalls steps)
    python bench/sharded.py step --tiny; ... xl --tiny; ... checkpoint --tiny    (do they run?)

Steps in bf16 with fused AdamW and clipping over random tokens in full rows, without dropout, every
system in a process of its own, in turns. The plain step is that of ``regard train`` on one GPU:
compiled, and captured as CUDA graphs. One process of the kind "fsdp" takes the same steps, and has
the writer of shards; "FSDP2" divides the weights all the same, as several processes do. ``xl`` is
GPT-2 XL, of which only the inputs of blocks are kept; the peers are transformers' model with the
FSDP2 of accelerate or torch, eager or with compiled layers (--peers; peers/fsdp.py). MFU
counts what must be computed once, of 784 TFLOP/s. ``checkpoint`` compares rounds in which a
checkpoint begins at the first step with rounds without; its shards are written to a temporary
folder (--folder) in the background.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from corpus import batches_of, blocks, masked_rows, row_length
from measure import (
    OURS,
    Spec,
    add_options,
    emit,
    interval,
    print_speeds,
    rounded,
    rounds_of,
    running,
    setting,
)
from ours import annotated as masked
from ours import mean_loss, packed
from peers.common import Step, System, device, half, rounds_over
from pretrain_encoder import facts_of as encoder_of
from pretrain_gpt2 import ADAMW, OBJECTIVE, annotated, facts_of
from torch import Tensor, nn

from regard.core.batch import Batch, BatchLimits
from regard.models.facts import change
from regard.objectives.masked_lm import MaskedLM
from regard.training.checkpoint import Checkpoints, RunProgress, optimiser_tensors
from regard.training.distributed import World
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.parallel import recompute_blocks
from regard.training.precision import Precision
from regard.training.recipe.tables import DistributedConfig, OptimiserConfig
from regard.training.sharding import OneShard, Shards
from regard.weights.files import weights_of

SHARDS = {"regard, fsdp": False, "regard, FSDP2": True}  # whether weights are divided
PEERS = {
    "accelerate": {"divided_by": "accelerate"},
    "accelerate, compiled": {"divided_by": "accelerate", "compiles": True},
    "torch": {},
    "torch, compiled": {"compiles": True},
}


def sharded_step(
    model: nn.Module,
    objective: Any,
    collate: Callable[[Any], Batch],
    optimiser: dict[str, Any],
    place: torch.device,
    *,
    divided: bool = False,
    recompute: bool = False,
    compiles: bool = True,
    folder: Path | None = None,
) -> tuple[Step, Callable[[bool], None]]:
    """A step as one process of the kind "fsdp" makes it, and a call that begins a checkpoint in
    ``folder``, or waits until it is written. ``divided``: with the FSDP2 of several processes.
    """
    cuda, world = place.type == "cuda", World(0, 1, place)
    if recompute:
        recompute_blocks(model)
    precision = Precision("bf16" if cuda else "fp32", "as asked")
    config = DistributedConfig(kind="fsdp", checkpoint_blocks=recompute)
    shards = Shards(config, world, precision) if divided else OneShard(world)
    shards.place(model)
    model.train()
    forward = lambda batch: objective(model, batch)  # noqa: E731
    run = EagerStep(torch.compile(forward) if cuda and compiles else forward, lambda: half(place))
    settings = OptimiserConfig(**optimiser)
    updates: ModelOptimiser
    if captures := cuda and compiles and not (divided or recompute):
        updates = GraphedOptimiser(model, settings)
    else:
        updates = ModelOptimiser(model, settings, lazy=False)
    micro = GraphedStep(run, model) if captures else run
    number = 0

    def step(rows: Any) -> Tensor:
        batch = collate(rows).to(place)
        result = micro(batch, 1 / batch.weight)
        shards.await_copies()
        updates.step(1.0)
        updates.zero_grad()
        return mean_loss(result.loss, batch.weight)

    if folder is None:
        return step, lambda waits: None
    writer = shards.writer(Checkpoints(folder))

    def save(waits: bool) -> None:
        nonlocal number
        writer.wait()
        if waits:
            return
        number += 1
        moments = optimiser_tensors(model, updates.optimiser)
        tensors = {"model": weights_of(model), "optimiser": moments}
        keep = Checkpoints(folder).prune
        writer.save(RunProgress(step=number), tensors, lambda: keep([number]))

    return step, save


def causal(
    size: str, tiny: bool, corpus: dict[str, Any], rows: int, folder: str = "", **options: bool
) -> System:
    """GPT-2 of the kind "fsdp"; with a ``folder``, a round may begin with a checkpoint."""
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    step, save = sharded_step(
        built(facts_of(size, tiny)),
        OBJECTIVE,
        lambda batch: OBJECTIVE.collate(batch, limits),
        ADAMW,
        device(),
        folder=Path(folder) if folder else None,
        **options,
    )
    batches = [annotated(batch) for batch in batches_of(blocks(**corpus), rows)]

    def work(saves: bool = False, waits: bool = False) -> list[Tensor]:
        losses: list[Tensor] = []
        if waits:
            save(True)
            return losses
        for number, batch in enumerate(batches):
            if saves and number == 0:
                save(False)
            losses.append(step(batch))
        return losses

    return System(work, {"batches": len(batches)})


def encoder(tiny: bool, corpus: dict[str, Any], rows: int, **options: bool) -> System:
    """BERT of the kind "fsdp", without dropout."""
    objective = MaskedLM()
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    step, _ = sharded_step(
        built(bert_of(tiny)),
        objective,
        lambda batch: objective.collate(batch, limits),
        ADAMW,
        device(),
        **options,
    )
    return rounds_over(step, masked_batches(corpus, limits))


def plain_encoder(tiny: bool, corpus: dict[str, Any], rows: int) -> System:
    """The plain step of the same model."""
    from ours import training_step

    objective, place = MaskedLM(), device()
    limits = BatchLimits(rows * corpus["length"], rows, corpus["length"])
    collate = lambda batch: objective.collate(batch, limits)  # noqa: E731
    step = training_step(built(bert_of(tiny)), objective, collate, ADAMW, place)
    return rounds_over(step, masked_batches(corpus, limits))


def bert_of(tiny: bool) -> Any:
    """BERT-base without dropout."""
    return change(
        encoder_of("smallest" if tiny else "base", False), dropout=0.0, attention_dropout=0.0
    )


def built(facts: Any) -> nn.Module:
    """The model with new weights, drawn on the device."""
    torch.manual_seed(1)
    with device():
        return facts.build()


def masked_batches(corpus: dict[str, Any], limits: BatchLimits) -> list[Any]:
    """The batches of both systems."""
    batches = packed(masked_rows(**corpus), limits, np.random.default_rng(1))
    return [list(map(masked, batch)) for batch in batches]


def compare_steps(asked: argparse.Namespace) -> None:
    """Let the plain step and those of the kind "fsdp" take turns."""
    encodes = asked.model == "bert-base"
    rows, length = (4, 64) if asked.tiny else (64, 512) if encodes else (32, 1024)
    facts = bert_of(asked.tiny) if encodes else facts_of("small", asked.tiny)
    count, vocab = rows * asked.steps, facts.trunk.embed.vocab
    corpus = {"count": count, "length": length, "vocab": vocab}
    settings = {"tiny": asked.tiny, "corpus": corpus, "rows": rows}
    forms = {
        name: {**settings, "divided": divided, "compiles": not asked.eager}
        for name, divided in SHARDS.items()
        if name in asked.forms
    }
    if encodes:
        drawn = masked_rows(**corpus)
        positions = sum(len(row.positions) for row in drawn)
        flops = facts.training_flops([(row_length(row),) for row in drawn], {"mlm": positions})
        specs = {OURS: Spec("sharded:plain_encoder", settings)}
        specs |= {name: Spec("sharded:encoder", form) for name, form in forms.items()}
    else:
        flops = facts.training_flops([(length,)] * count)
        size = {"size": "small"}
        specs = {OURS: Spec("pretrain_gpt2:ours", size | settings)}
        specs |= {name: Spec("sharded:causal", size | form) for name, form in forms.items()}
    with running(specs, asked) as workers:
        shape = {"model": asked.model, "rows": rows, "length": length}
        print_speeds(workers, asked, units=count * length, flops=flops, **shape)


def xl_settings(asked: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """GPT-2 XL, and its rows."""
    facts = facts_of("xl", asked.tiny)
    rows, length = (4, 64) if asked.tiny else (asked.rows, 1024)
    vocab = facts.trunk.embed.vocab
    corpus = {"count": rows * asked.steps, "length": length, "vocab": vocab}
    return {"size": "xl", "tiny": asked.tiny, "corpus": corpus, "rows": rows}, facts


def compare_xl(asked: argparse.Namespace) -> None:
    """GPT-2 XL with activation checkpointing, against transformers with FSDP2."""
    settings, facts = xl_settings(asked)
    corpus, rows = settings["corpus"], settings["rows"]
    from regard.models.papers import gpt2

    ours = {**settings, "recompute": True, "compiles": not asked.eager}
    theirs = {"config": gpt2.HF.config_of(facts), "optimiser": ADAMW}
    theirs |= {"corpus": corpus, "rows": rows}
    chosen = {name: PEERS[name] for name in asked.peers}
    specs = {OURS: Spec("sharded:causal", {**ours, "divided": asked.divided})}
    specs |= {name: Spec("peers.fsdp:causal_lm", theirs | form) for name, form in chosen.items()}
    flops = facts.training_flops([(corpus["length"],)] * corpus["count"])
    with running(specs, asked) as workers:
        units = corpus["count"] * corpus["length"]
        print_speeds(workers, asked, units=units, flops=flops, model="gpt2-xl", rows=rows)


def compare_checkpoints(asked: argparse.Namespace) -> None:
    """Rounds of GPT-2 XL with and without a checkpoint."""
    settings, _ = xl_settings(asked)
    folder = Path(mkdtemp(dir=asked.folder, prefix="shards-"))
    ours = {**settings, "recompute": True, "compiles": not asked.eager, "folder": str(folder)}
    # The first checkpoint allocates pinned memory.
    warm = ({}, {"saves": True}, {"waits": True})
    try:
        with running({OURS: Spec("sharded:causal", ours)}, asked, warm) as workers:
            plain = rounds_of(workers, asked)[OURS]
            saving, writing = [], []
            for _ in range(asked.rounds):
                for seconds, arguments in ((saving, {"saves": True}), (writing, {"waits": True})):
                    workers[OURS].begin(**arguments)
                    seconds.append(workers[OURS].end())
            step, whole = interval(plain).median / asked.steps, interval(saving).median
            emit(
                asked,
                system=OURS,
                seconds_per_step=round(step, 4),
                round_seconds=rounded(interval(plain), 3),
                round_seconds_with_checkpoint=rounded(interval(saving), 3),
                stall_of_a_step=round((whole - interval(plain).median) / step, 4),
                stall_of_a_round=round(whole / interval(plain).median - 1, 4),
                seconds_until_written=rounded(interval(writing), 2),  # after the round
                steps=asked.steps,
            )
            emit(asked, model="gpt2-xl", rows=settings["rows"], **setting(workers))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Print one JSON line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("step", "xl", "checkpoint"))
    parser.add_argument("--model", choices=("bert-base", "gpt2"), default="bert-base")
    parser.add_argument("--rows", type=int, default=16, help="rows of 1,024 tokens of GPT-2 XL")
    parser.add_argument("--steps", type=int, default=8, help="steps of a round")
    parser.add_argument("--folder", type=Path, help="where checkpoints are written")
    parser.add_argument("--eager", action="store_true", help="steps are not compiled")
    parser.add_argument("--forms", nargs="*", choices=SHARDS, default=[*SHARDS], help="of step")
    parser.add_argument("--divided", action="store_true", help="FSDP2 in one process, for xl")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=[*PEERS][:2], help="of xl")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=5, seconds=40, papers=["gpt-2"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rounds, asked.steps = 2, 2
    compare = {"step": compare_steps, "xl": compare_xl, "checkpoint": compare_checkpoints}
    compare[asked.what](asked)


if __name__ == "__main__":
    main()
