"""What a pre-training objective is worth at equal compute: six of them, and none, on four tasks.

    python bench/objectives.py all --data DATA --work FOLDER [--device cuda] [--seconds 1000]
    python bench/objectives.py table
    python bench/objectives.py records > src/regard/models/papers/measured.toml

DATA has text/ and understanding/. ``all`` is three stages, which can be called one by one:

    prepare    the vocabulary and the books as ids, once for all, and encoders without training
    pretrain   the recipes objectives-*, all at once on one device, with equal FLOPs
    tune       every encoder on every task: two rates with the first seed, of which the development
               set chooses one, then the other seeds; --workers runs at a time

A variant of an objective has its settings in its name, as in "spans@optimiser.rate=1e-3"; so
several rates are tried at once:

    python bench/objectives.py pretrain ... --encoders spans@optimiser.rate={5e-4,1e-3}

--set gives settings to all objectives. Whatever ends is a line of --results. What stands there is
not done again; an interrupted pre-training goes on from its last checkpoint in FOLDER. ``table``
prints Markdown, ``records`` what `regard papers --results` shows.
"""

import argparse
import json
import multiprocessing
import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from objectives_table import best_rate, records, tables

import regard
from regard.experiments.scores import evaluate
from regard.models.folders import folder as folders
from regard.models.papers import paper
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers import family_of_kind
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.training.distributed import World
from regard.training.loop import seed_everything
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import find
from regard.training.run import prepare
from regard.training.run_folder import claim

Line = dict[str, Any]  # of the results

OBJECTIVES = (
    "masked-lm",
    "next-sentence",
    "sentence-order",
    "spans",
    "replaced-tokens",
    "permutation-lm",
)
NONE, VARIANT = "none", "@"
RATES = (1e-4, 3e-4)
SEEDS = (1, 2, 3)
NEVER = 1_000_000  # steps
TASKS: dict[str, dict[str, Any]] = {  # recipes, and what differs here
    "glue-sst2": {
        "batches.rows": 64,
        "train.steps": 3_110,  # three epochs
        "optimiser.warmup": 300,
        "train.evaluate_every": 622,
    },
    "conll2003": {},
    "glue-cola": {},
    "glue-mrpc": {},
}
TINY_PRETRAINING = {
    "model.change.depth": 2,
    "model.change.width": 128,
    "model.change.heads": 2,
    "model.change.inner": 512,
    "text.vocab": 300,
    "data.dev.held_out": 2,
    "batches.tokens": 512,
    "batches.rows": 32,
    "batches.longest": 32,
    "optimiser.warmup": 2,
    "train.steps": 8,
    "train.evaluate_every": 4,
    "train.checkpoint_every": 4,
}
TINY_TUNING = {
    "batches.longest": 32,
    "batches.tokens": 512,
    "batches.rows": 8,
    "optimiser.warmup": 1,
    "train.steps": 4,
    "train.evaluate_every": 2,
}
TEXTS = {"table": tables, "records": records}
RESULTS = Path(__file__).with_name("objectives.jsonl")


@dataclass(frozen=True)
class Setup:
    """Where the data is and where runs are, and how large; no run starts after ``deadline``."""

    data: Path
    work: Path
    device: str | None
    share: float
    tiny: bool
    deadline: float

    @property
    def seconds_left(self) -> float:
        """Until the deadline."""
        return self.deadline - time.time()

    @property
    def books(self) -> Path:
        """The run folder whose vocabulary and ids all others take over."""
        return self.work / "books"

    def model(self, encoder: str, seed: int) -> Path:
        """The folder of an encoder; one without training was drawn by ``seed``."""
        return self.work / (f"{encoder}-{seed}" if encoder == NONE else encoder) / "model"


class Tuning(NamedTuple):
    """One run of fine-tuning."""

    task: str
    encoder: str
    seed: int
    rate: float


class Results:
    """What has been measured: a file of JSON lines."""

    def __init__(self, path: Path):
        self.path = path
        text = path.read_text() if path.exists() else ""
        self.lines: list[Line] = [json.loads(line) for line in text.splitlines()]

    def add(self, line: Line) -> None:
        """Write it at once."""
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def find(self, **keys: Any) -> Line | None:
        """The line that has all of these."""
        return next((line for line in self.lines if keys.items() <= line.items()), None)


def prepare_books(setup: Setup, seeds: Sequence[int]) -> None:
    """The vocabulary, the books as ids, and an encoder without training for each seed."""
    recipe = pretraining_recipe(OBJECTIVES[0], replace(setup, share=1.0))
    data = setup.data / "text"
    run = prepare(recipe, setup.books, World.join("cpu"), data=data, resume=True)
    for seed in seeds:
        seed_everything(seed, 0)
        drawn = folders.LoadedModel(run.paper, run.facts, run.facts.build(), run.tokenizer)
        folders.write(setup.model(NONE, seed), drawn)
    say(f"prepared: {run.sizes}, vocabulary {len(run.tokenizer.words):,}")


def recipe_name(encoder: str) -> str:
    """The recipe that pre-trains an encoder."""
    return f"objectives-{encoder.split(VARIANT)[0]}"


def pretraining_recipe(encoder: str, setup: Setup) -> Recipe:
    """The recipe of an encoder; with a share of its steps, if not all are wanted."""
    return read(find(recipe_name(encoder)), pretraining_settings(encoder, setup))


def pretraining_settings(encoder: str, setup: Setup) -> list[str]:
    """What differs from the recipe: what the name of a variant says, and what the setup does."""
    named = encoder.split(VARIANT)[1:]
    whole = read(find(recipe_name(encoder)), named)
    steps = whole.train.steps
    warmup = whole.optimiser.warmup_steps(steps)
    settings = {
        "train.steps": round(setup.share * steps),
        "optimiser.warmup": round(setup.share * warmup),
        "train.report_every": 1_000,
    }
    settings |= TINY_PRETRAINING if setup.tiny else {}
    return [*named, *(f"{key}={value}" for key, value in settings.items())]


def share_books(recipe: Recipe, out: Path, setup: Setup) -> None:
    """Give a run the vocabulary of the books, in rows as its paper has them, and their ids."""
    shutil.copytree(setup.books / "data", out / "data", dirs_exist_ok=True)
    tokenizer: Any = EncoderTokenizer.load(setup.books / "text")
    kind = recipe.tables[EncoderTextConfig].kind
    family = family_of_kind(kind, paper(recipe.model.paper).tokenizer)
    tokenizer.with_family(family).save(out / "text")


def pretrain(encoder: str, setup: Setup) -> Line:
    """Pre-train one encoder, to the end or the deadline."""
    recipe, out = pretraining_recipe(encoder, setup), setup.work / encoder
    claim(out, recipe, resume=True).release()
    share_books(recipe, out, setup)
    began, dev = time.time(), {}
    for event in regard.train(
        recipe_name(encoder),
        setup.data / "text",
        out,
        settings=pretraining_settings(encoder, setup),
        device=setup.device,
        resume=True,
        budget=setup.seconds_left,
    ):
        dev = event.verdict.figures if isinstance(event, DevEvent) else dev
        if isinstance(event, ReportEvent | DevEvent):
            say(*(f"{encoder}: {line}" for line in event.lines(recipe.train.steps)))
    return {
        "stage": "pretrain",
        "encoder": encoder,
        "steps": event.progress.step,
        "of": recipe.train.steps,
        "dev": dev,
        **spent(out / "model", setup, began),
    }


def pretrain_all(encoders: Sequence[str], workers: int, setup: Setup, results: Results) -> bool:
    """All encoders at once; whether all reached their last step."""
    missing = [one for one in encoders if not _is_pretrained(one, setup, results)]
    with pool(len(missing) if workers else 0) as executor:
        futures = [executor.submit(pretrain, one, setup) for one in missing]
        for future in futures:
            if (error := future.exception()) is None:
                results.add(future.result())
            else:
                report(error)
    return all(_is_pretrained(one, setup, results) for one in encoders)


def _is_pretrained(encoder: str, setup: Setup, results: Results) -> bool:
    steps = pretraining_recipe(encoder, setup).train.steps
    found = results.find(stage="pretrain", encoder=encoder, steps=steps, of=steps)
    return found is not None and setup.model(encoder, 1).exists()


def tune(tuning: Tuning, setup: Setup) -> Line:
    """Fine-tune, and score on the test set the weights that the development set has chosen."""
    trained = OBJECTIVES[0] if tuning.encoder == NONE else tuning.encoder
    settings = {
        "model.paper": pretraining_recipe(trained, setup).model.paper,
        "model.start": str(setup.model(tuning.encoder, tuning.seed).resolve()),
        "model.change.dropout": 0.1,
        "optimiser.rate": tuning.rate,
        "train.seed": tuning.seed,
        "train.checkpoint_every": NEVER,  # but for the best and the last
        "train.report_every": NEVER,
        **TASKS[tuning.task],
        **(TINY_TUNING if setup.tiny else {}),
    }
    data, began = setup.data / "understanding", time.time()
    with TemporaryDirectory(dir=setup.work) as out:
        *_, end = regard.train(tuning.task, data, out, settings=settings, device=setup.device)
        model = regard.load(Path(out) / "model", setup.device)
        recipe = read(find(tuning.task), settings)
        scores = evaluate(model, recipe, data, check=False).tests["test"].scores
        return {
            "stage": "tune",
            **tuning._asdict(),
            "dev": end.progress.best,
            "scores": {score.name: round(score.value, 2) for score in scores},
            **spent(Path(out) / "model", setup, began),
        }


def tune_all(todo: "TuningPlan", workers: int, setup: Setup, results: Results) -> bool:
    """All runs, ``workers`` at a time, until the deadline; whether all were done."""
    failed: set[Tuning] = set()
    with pool(workers) as executor:
        running: dict[Any, Tuning] = {}
        while True:
            if setup.seconds_left > 0:
                ready = [one for one in todo.ready(results) if one not in running.values()]
                for one in [one for one in ready if one not in failed]:
                    if len(running) < max(1, workers):
                        running[executor.submit(tune, one, setup)] = one
            if not running:
                return not failed and not any(todo.ready(results))
            for future in wait_for(running, return_when=FIRST_COMPLETED).done:
                tuning = running.pop(future)
                if (error := future.exception()) is None:
                    results.add(line := future.result())
                    say(f"{' '.join(map(str, tuning))}: dev {line['dev']:.2f} {line['scores']}")
                else:
                    failed.add(tuning)
                    report(error)


@dataclass(frozen=True)
class TuningPlan:
    """Which runs there are: all rates with the first seed, the better one with the others."""

    encoders: Sequence[str]
    tasks: Sequence[str]
    seeds: Sequence[int]
    rates: Sequence[float]

    def ready(self, results: Results) -> Iterator[Tuning]:
        """Runs that are still to be done and wait for no other, task by task."""
        for task in self.tasks:
            for encoder in self.encoders:
                first = [Tuning(task, encoder, self.seeds[0], rate) for rate in self.rates]
                lines = [line for one in first if (line := _find(one, results)) is not None]
                if len(lines) < len(first):
                    wanted = first
                else:
                    rate = best_rate(lines)
                    wanted = [Tuning(task, encoder, seed, rate) for seed in self.seeds[1:]]
                yield from (one for one in wanted if _find(one, results) is None)


def _find(tuning: Tuning, results: Results) -> Line | None:
    return results.find(stage="tune", **tuning._asdict())


def spent(folder: Path, setup: Setup, began: float) -> Line:
    """What a run has cost; its seconds are those of a device that others used as well."""
    cost = regard.load(folder, "cpu").notes["cost"]
    device = World.join(setup.device).device
    named = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"cost": cost, "seconds": round(time.time() - began, 1), "device": named}


def pool(workers: int) -> Executor:
    """Processes that keep what they have imported; without workers, this process itself."""
    if not workers:
        return ThreadPoolExecutor(1)
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, context, partial(torch.set_num_threads, 1))


def say(*lines: str) -> None:
    """Print lines, with the time of day."""
    for line in lines:
        print(time.strftime("%H:%M:%S"), line, flush=True)


def report(error: BaseException) -> None:
    """Print why a run failed; the others go on."""
    say("".join(traceback.format_exception(error)))


def encoder_name(text: str) -> str:
    """An objective, "none", or a variant of an objective."""
    objective, *settings = text.split(VARIANT)
    if objective not in OBJECTIVES and (objective != NONE or settings):
        raise argparse.ArgumentTypeError(f"no objective {objective!r}: {', '.join(OBJECTIVES)}")
    return text


def variants(names: Sequence[str], settings: Sequence[str]) -> list[str]:
    """The names of encoders that are pre-trained with further settings."""
    return [name if name == NONE else VARIANT.join([name, *settings]) for name in names]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Those of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stage", choices=["prepare", "pretrain", "tune", "all", *TEXTS])
    parser.add_argument("--data", type=Path, default=Path(), help="with text/ and understanding/")
    parser.add_argument("--work", type=Path, default=Path("runs/objectives"), help="run folders")
    parser.add_argument("--results", type=Path, default=RESULTS, help="JSON lines")
    parser.add_argument("--device")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps of pre-training")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no run after these")
    parser.add_argument("--workers", type=int, default=8, help="tunings at a time; 0: no process")
    named = "objectives, variants of them (NAME@key=value), or none; default: all objectives"
    parser.add_argument(
        "--encoders", nargs="+", type=encoder_name, default=[*OBJECTIVES, NONE], help=named
    )
    parser.add_argument(
        "--set", action="append", default=[], help="key=value: a setting of pre-training, for all"
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--tiny", action="store_true", help="very small, to try everything out")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """The stages that are asked for; 0 if all is done."""
    asked = arguments(given)
    results = Results(asked.results)
    if asked.stage in TEXTS:
        print(TEXTS[asked.stage](results.lines))
        return 0
    deadline = time.time() + asked.seconds
    names = variants(asked.encoders, asked.set)
    setup = Setup(asked.data, asked.work, asked.device, asked.share, asked.tiny, deadline)
    asked.work.mkdir(parents=True, exist_ok=True)
    done = True
    if asked.stage in ("prepare", "all"):
        prepare_books(setup, asked.seeds)
    if asked.stage in ("pretrain", "all"):
        trained = [name for name in names if name != NONE]
        done = pretrain_all(trained, asked.workers, setup, results)
    if asked.stage in ("tune", "all"):
        there = [name for name in names if setup.model(name, asked.seeds[0]).exists()]
        plan = TuningPlan(there, asked.tasks, asked.seeds, asked.rates)
        done = tune_all(plan, asked.workers, setup, results) and done
    say(f"{'all' if done else 'NOT all'} done; {asked.results}")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
