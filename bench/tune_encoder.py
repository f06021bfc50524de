"""Fine-tuning an encoder: regard against transformers' Trainer, same start, rows and settings.

    python bench/tune_encoder.py glue-rte --start FOLDER --data UNDERSTANDING [--seeds 1 2 3]
    python bench/tune_encoder.py glue-rte --start FOLDER --data UNDERSTANDING --losses 50

Recipes say what is learned and how long, and which dropout both have. Both systems read the same
token ids, 32 rows a step in an order of their own; their weights after the last step are scored by
the same scorer. Both are timed by one clock, from before the first step until after the half and
the last, without judging and saving: sentences a second in all, graphs captured on the way
included, and "steady", of the second half. The Trainer runs in bf16 on CUDA, groups rows by length
(--random: it does not) and pads to the longest row of a batch. With --losses: no dropout, fp32, one
order of rows for both, a constant rate; the losses of so many steps, side by side.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from measure import setting, settle
from torch import Tensor

import regard
from regard.ground.batch import IGNORED
from regard.models.formats import folder as folders
from regard.training.distributed import World
from regard.training.loop import train
from regard.training.loop.events import EndEvent, ReportEvent, SaveEvent
from regard.training.loop.microbatch import EagerStep
from regard.training.optim.optimiser import ModelOptimiser
from regard.training.recipe import Recipe, read, task_of
from regard.training.recipe_files import find
from regard.training.run import Run, prepare

Row = dict[str, Any]


class Times(NamedTuple):
    """Seconds of training: until the middle, and in all; and the share of padding."""

    half: float
    all: float
    padding: float = 0.0


def clock() -> float:
    """Seconds, when all that was asked of the device is done."""
    settle()
    return time.perf_counter()


def ours(recipe: Recipe, data: Path, out: Path) -> tuple[Times, dict[str, float]]:
    """How long training took, and the scores on the test set."""
    run = prepare(recipe, out, World.join(), data=data)
    times: list[float] = []
    for event in train(run.job):
        if isinstance(event, ReportEvent) or (isinstance(event, SaveEvent) and not times):
            times.append(clock())
        if isinstance(event, EndEvent):
            run.finish(event.progress)
    seconds = Times(times[1] - times[0], times[-1] - times[0])
    return seconds, scores(recipe, run.model_folder, data)


def theirs(
    recipe: Recipe, data: Path, out: Path, *, grouped: bool = True
) -> tuple[Times, dict[str, float]]:
    """The same of the Trainer."""
    from transformers import Trainer, TrainerCallback

    times: list[float] = []

    class Clock(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            times.append(clock())

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step in (_half(recipe), recipe.train.steps):
                times.append(clock())

    run = prepare(recipe, out / "rows", World.join(), data=data)
    model = reference(run, out / "start")
    rows = [
        as_theirs(recipe, row, goal) for row, goal in run.job.sampler.dataset.read(0, _all(run))
    ]
    batches = Padded()
    trainer = Trainer(
        model=model,
        args=their_arguments(recipe, out, **(by_length() if grouped else {})),
        train_dataset=rows,
        data_collator=batches,
        callbacks=[Clock()],
    )
    trainer.train()
    seconds = Times(times[1] - times[0], times[-1] - times[0], batches.share)
    model.save_pretrained(out / "tuned")
    tuned = replace(
        folders.read(out / "tuned"), tokenizer=run.tokenizer, labels=run.labels, origin=None
    )
    folders.write(out / "scored", tuned)
    return seconds, scores(recipe, out / "scored", data)


def by_length() -> dict[str, Any]:
    """How this version of transformers is told to put rows of like length together."""
    from transformers import TrainingArguments

    known = {field.name for field in fields(TrainingArguments)}
    if "train_sampling_strategy" in known:
        return {"train_sampling_strategy": "group_by_length"}
    return {"group_by_length": True}


def their_arguments(recipe: Recipe, out: Path, **changed: Any) -> Any:
    """The recipe as the Trainer wants to be told."""
    from transformers import TrainingArguments

    asked = recipe.optimiser
    given = {
        "output_dir": str(out / "trainer"),
        "per_device_train_batch_size": recipe.batches.rows,
        "max_steps": recipe.train.steps,
        "learning_rate": asked.rate,
        "lr_scheduler_type": asked.schedule,
        "warmup_steps": asked.warmup_steps(recipe.train.steps),
        "weight_decay": asked.decay,
        "adam_beta1": asked.betas[0],
        "adam_beta2": asked.betas[1],
        "adam_epsilon": asked.eps,
        "max_grad_norm": asked.clip,
        "optim": "adamw_torch_fused",
        "bf16": torch.cuda.is_available(),
        "seed": recipe.train.seed,
        "save_strategy": "no",
        "logging_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    return TrainingArguments(**{**given, **changed})


def scores(recipe: Recipe, folder: Path, data: Path) -> dict[str, float]:
    """What the test set says of a model folder."""
    assert recipe.data.test is not None
    model = regard.load(folder)
    task = task_of(recipe)
    found = task.test_scores(model, task.read(recipe.data.test, data)).scores
    return {score.name: round(score.value, 2) for score in found}


def reference(run: Run, folder: Path, dropout: float | None = None) -> Any:
    """transformers' model with the weights that regard begins with, and the recipe's dropout."""
    import transformers

    read = run.tokenizer, run.labels
    folders.write(folder, folders.LoadedModel(run.paper, run.facts, run.job.model, *read), "hf")
    name = json.loads((folder / "config.json").read_text())["architectures"][0]
    changed = {
        "hidden_dropout_prob": dropout,
        "classifier_dropout": dropout,
        "attention_probs_dropout_prob": dropout,
    }
    changed = {key: value for key, value in changed.items() if value is not None}
    kind = getattr(transformers, name)
    return kind.from_pretrained(folder, local_files_only=True, **changed)


def as_theirs(recipe: Recipe, row: Any, goal: Any) -> Row:
    """A row and its goal as transformers call them."""
    said: Row = {"input_ids": row.tokens, "token_type_ids": row.segments}
    if recipe.task == "answer":
        return {**said, "start_positions": goal[0], "end_positions": goal[1]}
    return {**said, "labels": goal if recipe.task == "tag" else goal[0]}


class Padded:
    """Puts rows together, padded to the longest, and counts what it adds."""

    def __init__(self) -> None:
        self.real = self.all = 0

    @property
    def share(self) -> float:
        """How much of the batches so far is padding."""
        return 1 - self.real / self.all

    def __call__(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        longest = int(lengths.max())
        self.real += int(lengths.sum())
        self.all += len(rows) * longest
        fills = {"input_ids": 0, "token_type_ids": 0, "labels": IGNORED}
        batch = {}
        for name in rows[0]:
            if np.ndim(rows[0][name]) == 0:
                batch[name] = torch.tensor([row[name] for row in rows])
                continue
            table = np.full((len(rows), longest), fills[name])
            for line, row in zip(table, rows, strict=True):
                line[: len(row[name])] = row[name]
            batch[name] = torch.from_numpy(table)
        batch["attention_mask"] = (torch.arange(longest) < lengths[:, None]).long()
        return batch


def losses(recipe: Recipe, data: Path, out: Path, steps: int) -> tuple[list[float], list[float]]:
    """Ours and theirs at each step: same weights, same batches, no dropout, a constant rate."""
    from torch.utils.data import SequentialSampler
    from transformers import Trainer

    noted: list[float] = []

    class InOrder(Trainer):
        def _get_train_sampler(self, *_: Any) -> SequentialSampler:
            return SequentialSampler(self.train_dataset)

        def compute_loss(self, *given: Any, **named: Any) -> Any:
            loss = super().compute_loss(*given, **named)
            noted.append(float(loss[0] if isinstance(loss, tuple) else loss))
            return loss

    torch.set_float32_matmul_precision("highest")
    run = prepare(recipe, out / "rows", World.join(), data=data)
    count, device = recipe.batches.rows, run.job.world.device
    peer = reference(run, out / "start", dropout=0.0)
    drawn = run.job.sampler.dataset.read(0, _all(run))[: steps * count]
    model = run.job.model.to(device).eval()  # without dropout
    objective, updates = run.job.objective, ModelOptimiser(model, recipe.optimiser)
    micro, mine = EagerStep(lambda batch: objective(model, batch), nullcontext), []
    for step in range(steps):
        batch = objective.collate(drawn[step * count : (step + 1) * count]).to(device)
        loss = micro(batch, 1 / batch.weight).loss
        updates.step(1.0)
        model.zero_grad()
        mine.append(float(loss) / batch.weight)
    settings = {"max_steps": steps, "lr_scheduler_type": "constant", "warmup_steps": 0}
    arguments = their_arguments(recipe, out, **settings, bf16=False)
    rows = [as_theirs(recipe, row, goal) for row, goal in drawn]
    InOrder(model=peer, args=arguments, train_dataset=rows, data_collator=Padded()).train()
    return mine, noted


def _all(run: Run) -> np.ndarray:
    return np.arange(run.job.sampler.count)


def _half(recipe: Recipe) -> int:
    return max(1, recipe.train.steps // 2)


def main() -> None:
    """Print one JSON line for each run, and means and ratios for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--start", required=True, help="a BERT folder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", action="append", default=[], help="as in regard train")
    parser.add_argument("--only", choices=["regard", "trainer"])
    parser.add_argument("--random", action="store_true", help="the Trainer does not group rows")
    parser.add_argument("--losses", type=int, help="print so many losses of both instead")
    asked = parser.parse_args()
    for name in asked.recipes:
        settings = [f"model.start={asked.start}", *asked.set]
        recipe = read(find(name), settings)
        last = [
            f"train.{key}={recipe.train.steps}" for key in ("evaluate_every", "checkpoint_every")
        ]
        last.append(f"train.report_every={_half(recipe)}")
        with TemporaryDirectory() as out:
            if asked.losses:
                mine, noted = losses(recipe, asked.data, Path(out), asked.losses)
                apart = [abs(a - b) for a, b in zip(mine, noted, strict=True)]
                print(json.dumps({"recipe": name, "regard": mine, "trainer": noted}))
                print(json.dumps({"recipe": name, "largest_difference": max(apart)}))
                continue
            speeds: dict[str, list[float]] = {"regard": [], "trainer": []}
            for seed in asked.seeds:
                recipe = read(find(name), [*settings, *last, f"train.seed={seed}"])
                sentences = recipe.train.steps * recipe.batches.rows
                for system in [asked.only] if asked.only else ["regard", "trainer"]:
                    place = Path(out) / f"{system}-{seed}"
                    if system == "regard":
                        seconds, found = ours(recipe, asked.data, place)
                    else:
                        grouped = not asked.random
                        seconds, found = theirs(recipe, asked.data, place, grouped=grouped)
                    rest = sentences - _half(recipe) * recipe.batches.rows
                    steady = rest / (seconds.all - seconds.half)
                    speeds[system].append(steady)
                    line = {"recipe": name, "system": system, "seed": seed, **found}
                    line |= {"sentences_per_second": round(sentences / seconds.all)}
                    line |= {"steady": round(steady), "padding": round(seconds.padding, 3)}
                    print(json.dumps(line), flush=True)
            medians = {key: statistics.median(one) for key, one in speeds.items() if one}
            if len(medians) == 2:
                ratio = medians["regard"] / medians["trainer"]
                print(json.dumps({"recipe": name, **medians, "ratio": round(ratio, 2)}))
    print(json.dumps(setting()))


if __name__ == "__main__":
    main()
