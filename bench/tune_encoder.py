"""Fine-tuning an encoder: regard against transformers' Trainer, same start, rows and settings.

    python bench/tune_encoder.py glue-rte --start FOLDER --data UNDERSTANDING [--seeds 1 2 3]
    python bench/tune_encoder.py glue-rte --start FOLDER --data UNDERSTANDING --losses 50

Recipes say what is learned and how long, and which dropout all have. Every system has a process of
its own, and they take turns, one seed after another: regard, the Trainer as it comes ("eager") and
with torch_compile ("compiled"); --peers names some of these. All read the same token ids, as many
rows a step, in an order of their own; their weights after the last step are scored by the same
scorer. The clock runs from before the first step until after the half and the last, without judging
and saving: sentences a second in all, graphs captured or compiled on the way included, and
"steady", of the second half. The Trainer runs in bf16 on CUDA, groups rows by length (--random: it
does not) and pads to the longest row of a batch. With --losses: no dropout, fp32, one order of rows
for both, a constant rate; the losses of so many steps, side by side.
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from measure import OURS, Spec, SystemEnded, Worker, add_options, emit, running, setting
from worker import System, settle

import regard
from regard.models.folders import folder as folders
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import EndEvent, ReportEvent, SaveEvent
from regard.training.loop.microbatch import EagerStep
from regard.training.optimiser import ModelOptimiser
from regard.training.recipe import Recipe, read, task_of
from regard.training.recipe_files import find
from regard.training.run import Run, prepare

PEERS = ("eager", "compiled")


def recipe_of(name: str, settings: list[str], seed: int = 1) -> Recipe:
    """A recipe that only reports its middle, and judges and saves at its end."""
    steps = read(find(name), settings).train.steps
    times = [f"train.{key}={steps}" for key in ("evaluate_every", "checkpoint_every")]
    times += [f"train.report_every={_half(steps)}", f"train.seed={seed}"]
    return read(find(name), [*settings, *times])


def _half(steps: int) -> int:
    return max(1, steps // 2)


def ours(recipe: str, settings: list[str], data: str, folder: str) -> System:
    """regard train. A round returns what one of peers/trainer.py does."""

    def clock() -> float:
        settle()
        return time.perf_counter()

    def work(seed: int) -> dict[str, Any]:
        out = Path(folder) / f"regard-{seed}"
        run = prepare(recipe_of(recipe, settings, seed), out, World.join(), data=Path(data))
        times: list[float] = []
        for event in train(run.job):
            if isinstance(event, ReportEvent) or (isinstance(event, SaveEvent) and not times):
                times.append(clock())
            if isinstance(event, EndEvent):
                run.finish(event.progress)
        seconds = {"half": times[1] - times[0], "all": times[-1] - times[0]}
        return {**seconds, "padding": 0.0, "folder": str(run.model_folder)}

    return System(work)


def write_start(run: Run, recipe: Recipe, folder: Path) -> None:
    """Write the model that training begins with, and the rows, as transformers reads them."""
    stored = folders.LoadedModel(run.paper, run.facts, run.job.model, run.tokenizer, run.labels)
    folders.write(folder, stored, "hf")
    rows = [as_theirs(recipe, row, goal) for row, goal in examples_of(run)]
    (folder / "rows.json").write_text(json.dumps(rows))


def examples_of(run: Run) -> Any:
    """All rows of training, with their goals, in their order."""
    dataset = run.job.sampler.dataset
    return dataset.read(0, np.arange(len(dataset)))


def as_theirs(recipe: Recipe, row: Any, goal: Any) -> dict[str, Any]:
    """A row and its goal as transformers calls them."""
    plain = {"input_ids": np.asarray(row.tokens).tolist()}
    plain["token_type_ids"] = np.asarray(row.segments).tolist()
    goals = np.asarray(goal).tolist()
    if recipe.task == "answer":
        return {**plain, "start_positions": goals[0], "end_positions": goals[1]}
    return {**plain, "labels": goals if recipe.task == "tag" else goals[0]}


def their_arguments(recipe: Recipe) -> dict[str, Any]:
    """The recipe as the Trainer wants to be told."""
    optimiser = recipe.optimiser
    return {
        "per_device_train_batch_size": recipe.batches.rows,
        "max_steps": recipe.train.steps,
        "learning_rate": optimiser.rate,
        "lr_scheduler_type": optimiser.schedule,
        "warmup_steps": optimiser.warmup_steps(recipe.train.steps),
        "weight_decay": optimiser.decay,
        "adam_beta1": optimiser.betas[0],
        "adam_beta2": optimiser.betas[1],
        "adam_epsilon": optimiser.eps,
        "max_grad_norm": optimiser.clip,
    }


def scores(recipe: Recipe, folder: Path, data: Path) -> dict[str, float]:
    """What the test set says of a model folder."""
    assert recipe.data.test is not None
    model, task = regard.load(folder), task_of(recipe)
    judged = task.test_scores(model, task.read(recipe.data.test, data)).scores
    return {score.name: round(score.value, 2) for score in judged}


def scorable(tuned: Path, run: Run) -> Path:
    """A folder of the Trainer's weights with the tokenizer and labels of the run."""
    read_back = folders.read(tuned)
    model = replace(read_back, tokenizer=run.tokenizer, labels=run.labels, extras=None)
    folders.write(tuned / "scored", model)
    return tuned / "scored"


def losses(recipe: Recipe, run: Run, folder: Path, steps: int) -> tuple[list[float], list[float]]:
    """Ours and theirs at each step: same weights, same batches, no dropout, a constant rate."""
    from peers.trainer import InOrder, Padded, read_model, training_arguments

    torch.set_float32_matmul_precision("highest")
    count, device = recipe.batches.rows, run.job.world.device
    write_start(run, recipe, folder)
    rows = json.loads((folder / "rows.json").read_text())[: steps * count]
    drawn = examples_of(run)[: steps * count]
    model = run.job.model.to(device).eval()  # without dropout
    objective, updates = run.job.objective, ModelOptimiser(model, recipe.optimiser)
    micro, mine = EagerStep(lambda batch: objective(model, batch), nullcontext), []
    for step in range(steps):
        batch = objective.collate(drawn[step * count : (step + 1) * count]).to(device)
        loss = micro(batch, 1 / batch.weight).loss
        updates.step(1.0)
        model.zero_grad()
        mine.append(float(loss) / batch.weight)
    constant = {"max_steps": steps, "lr_scheduler_type": "constant", "warmup_steps": 0}
    settings = {**their_arguments(recipe), **constant, "bf16": False}
    trainer = InOrder(
        model=read_model(str(folder), dropout=0.0),
        args=training_arguments(folder, **settings),
        train_dataset=rows,
        data_collator=Padded(),
    )
    trainer.train()
    return mine, trainer.losses


def main() -> None:
    """Print one JSON line for each run, and medians and ratios for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--start", required=True, help="a BERT folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", action="append", default=[], help="as in regard train")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--random", action="store_true", help="the Trainer does not group rows")
    parser.add_argument("--losses", type=int, help="print so many losses of both instead")
    add_options(parser, rounds=1, seconds=600, papers=["bert"])
    asked = parser.parse_args()
    for name in asked.recipes:
        with TemporaryDirectory() as folder:
            tune(name, asked, Path(folder))


def tune(name: str, asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns at one recipe."""
    settings = [f"model.start={asked.start}", *asked.set]
    recipe, start = recipe_of(name, settings), folder / "start"
    run = prepare(recipe, folder / "rows", World.join(), data=asked.data)
    if asked.losses:
        mine, theirs = losses(recipe, run, start, asked.losses)
        apart = [abs(a - b) for a, b in zip(mine, theirs, strict=True)]
        emit(asked, recipe=name, regard=mine, trainer=theirs)
        emit(asked, recipe=name, largest_difference=max(apart))
        return
    own = {"recipe": name, "settings": settings, "data": str(asked.data), "folder": str(folder)}
    specs = {OURS: Spec("tune_encoder:ours", own)}
    if asked.peers:
        write_start(run, recipe, start)
    for form in asked.peers:
        theirs = {"folder": str(start), "arguments": their_arguments(recipe)}
        theirs |= {"form": form, "grouped": not asked.random}
        specs[f"Trainer, {form}"] = Spec("peers.trainer:fine_tuning", theirs)
    steady: dict[str, list[float]] = {system: [] for system in specs}
    with running(specs, asked, ()) as workers:
        for seed in asked.seeds:
            for system in list(workers):
                speed = report(name, recipe, system, workers, seed, asked, run)
                steady[system] += speed
        place = setting(workers)
    medians = {system: statistics.median(speeds) for system, speeds in steady.items() if speeds}
    for system in (system for system in medians if system != OURS and OURS in medians):
        ratio = round(medians[OURS] / medians[system], 2)
        emit(asked, recipe=name, system=system, regard_over_it=ratio, seeds=len(asked.seeds))
    emit(asked, recipe=name, **place)


def report(
    name: str,
    recipe: Recipe,
    system: str,
    workers: dict[str, Worker],
    seed: int,
    asked: argparse.Namespace,
    run: Run,
) -> list[float]:
    """Let a system tune with one seed; its sentences a second in the second half of the steps."""
    worker = workers[system]
    worker.begin(seed=seed)
    try:
        worker.end(asked.seconds)
    except SystemEnded as error:
        emit(asked, recipe=name, system=system, seed=seed, failed=str(error))
        workers.pop(system).close()
        return []
    seconds, tuned = worker.result, Path(worker.result["folder"])
    steps, rows = recipe.train.steps, recipe.batches.rows
    steady = (steps - _half(steps)) * rows / (seconds["all"] - seconds["half"])
    judged = scores(recipe, tuned if system == OURS else scorable(tuned, run), asked.data)
    emit(
        asked,
        recipe=name,
        system=system,
        seed=seed,
        **judged,
        sentences_per_second=round(steps * rows / seconds["all"]),
        steady=round(steady),
        padding=seconds["padding"],
        **worker.remarks,
    )
    return [steady]


if __name__ == "__main__":
    main()
