"""Sentence encoders: regard against sentence-transformers, sentences encoded or steps of training.

    python bench/sentences.py FOLDER --data UNDERSTANDING --peer-python PYTHON [--sentences 1024]
    python bench/sentences.py FOLDER --data UNDERSTANDING --peer-python PYTHON --train [--steps 4]

FOLDER is a sentence encoder as sentence-transformers writes it, and PYTHON an interpreter that has
sentence-transformers. Sentences are those of a recipe's training set (stsb-sentences), in random
order. Every system has a process of its own, and they take turns; fp32 on a CPU, bf16 on CUDA.
Encoding is from text to vectors on the host. The peer sorts texts by length, in batches of the size
at which it is fastest here; "compiled", its layers are compiled for any length. With --train, a
round is some steps over the same random pairs, in batches of the recipe's size: tokens made of
texts by the peer's collator (by regard, as in training, beforehand), forward, backward, clipping
and AdamW, with the recipe's loss and dropout. The peer is a plain loop over its model and its loss;
each side of a batch is padded to its longest text. "sorted", its batches are of pairs of like
length, which its samplers do not make; "compiled" are random batches again.
"""

import argparse
import json
import random
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from measure import OURS, Spec, add_options, emit, print_speeds, running
from ours import training_step
from peers.common import System, device

import regard
from regard.tasks.sentence_encoder import EmbeddingConfig, score_of
from regard.training.distributed import World
from regard.training.recipe import Recipe, read, task_of
from regard.training.recipe_files import find
from regard.training.run import prepare

ENCODING, TRAINING = ("eager", "compiled"), ("eager", "sorted", "compiled")
PEER = "sentence-transformers"
Pair = tuple[str, str, float]


def encoding(folder: str, texts: str, precision: str) -> System:
    """regard: vectors of all texts, in rows without padding."""
    model = regard.load(folder, device(), precision=precision)
    given = json.loads(Path(texts).read_text())
    return System(lambda: model.embed(given).cpu()[:, :8].tolist())


def training(recipe: str, settings: list[str], data: str, out: str, batches: str) -> System:
    """regard: the step of ``regard train``, for each batch of pairs."""
    table = read(find(recipe), settings)
    job = (run := prepare(table, Path(out), World.join(), data=Path(data))).job
    place, longest = device(), table.batches.longest
    limits = job.sampler.limits if place.type == "cuda" else None
    examples = []
    for batch in json.loads(Path(batches).read_text()):
        rows = iter(run.tokenizer.rows([*chain(*(texts for *texts, _ in batch))], longest))
        pairs = [([next(rows), next(rows)], score) for *_, score in batch]
        examples.append(sorted(pairs, key=lambda pair: -max(job.objective.length(pair))))

    def collate(batch: Any) -> Any:
        return job.objective.collate(batch, limits)

    model, first = job.model.to(place).eval(), collate(examples[0]).to(place)
    with torch.no_grad():
        before = float(job.objective(model, first)[0]) / first.weight
    step = training_step(model, job.objective, collate, optimiser_of(table), place)
    return System(lambda: [step(batch) for batch in examples], {"loss_before": round(before, 6)})


def optimiser_of(recipe: Recipe) -> dict[str, Any]:
    """The keys of [optimiser] that all systems read; the rate is constant."""
    keys = ("kind", "rate", "betas", "eps", "decay", "clip")
    return {key: getattr(recipe.optimiser, key) for key in keys}


def pairs_of(recipe: Recipe, data: Path) -> list[Pair]:
    """The pairs that a recipe trains on, with their scores from 0 to 1, in random order."""
    task = task_of(recipe)
    table = task.tables[EmbeddingConfig]
    low, high = table.range
    least = low if table.least_score is None else table.least_score
    pairs = [
        (*example.texts, (score_of(example) - low) / (high - low))
        for example in task.read(recipe.data.train, data)
        if score_of(example) >= least
    ]
    random.Random(1).shuffle(pairs)
    return pairs


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="a sentence encoder")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--recipe", default="stsb-sentences")
    parser.add_argument("--set", action="append", default=[], help="as in regard train")
    parser.add_argument("--peer-python", help="the peer's interpreter; without it, no peer runs")
    parser.add_argument("--peers", nargs="*", choices=[*dict.fromkeys(ENCODING + TRAINING)])
    parser.add_argument("--sentences", type=int, default=1_024)
    parser.add_argument("--precision", default="auto", help="of regard; the peer's is fp32 or bf16")
    parser.add_argument("--train", action="store_true", help="steps of training instead")
    parser.add_argument("--steps", type=int, default=4, help="of training, in a round")
    parser.add_argument("--cpu-seconds", action="store_true", help="count those of the process")
    add_options(parser, rounds=7, seconds=400)
    asked = parser.parse_args()
    recipe = read(find(asked.recipe), [f"model.start={asked.folder}", *asked.set])
    with TemporaryDirectory() as folder:
        compare = compare_training if asked.train else compare_encoding
        compare(asked, recipe, Path(folder))


def compare_encoding(asked: argparse.Namespace, recipe: Recipe, folder: Path) -> None:
    """Let the systems take turns over the same texts, and compare their vectors."""
    texts = [*chain(*(pair[:2] for pair in pairs_of(recipe, asked.data)))][: asked.sentences]
    (folder / "texts.json").write_text(json.dumps(texts))
    settings = {"folder": asked.folder, "texts": str(folder / "texts.json")}
    specs = {OURS: Spec("sentences:encoding", {**settings, "precision": asked.precision})}
    specs |= peers(asked, "encoding", ENCODING, settings)
    with running(specs, asked) as workers:
        clock = clock_of(asked)
        print_speeds(
            workers, asked, units=len(texts), unit="sentences", precision=asked.precision, **clock
        )
        results = {name: torch.tensor(worker.result) for name, worker in workers.items()}
        for name in results.keys() - {OURS}:
            apart = float((results[name] - results[OURS]).abs().max())
            emit(asked, system=name, largest_difference=apart)


def compare_training(asked: argparse.Namespace, recipe: Recipe, folder: Path) -> None:
    """Let the systems take turns at steps over the same pairs."""
    rows, pairs = recipe.batches.rows, pairs_of(recipe, asked.data)
    batches = [pairs[step * rows : (step + 1) * rows] for step in range(asked.steps)]
    (folder / "pairs.json").write_text(json.dumps(batches))
    file = str(folder / "pairs.json")
    own = {"recipe": asked.recipe, "settings": [f"model.start={asked.folder}", *asked.set]}
    own |= {"data": str(asked.data), "out": str(folder / "run"), "batches": file}
    theirs = {"folder": asked.folder, "pairs": file, "optimiser": optimiser_of(recipe)}
    theirs |= {"loss": recipe.embedding.loss, "longest": recipe.batches.longest}
    specs = {OURS: Spec("sentences:training", own)}
    specs |= peers(asked, "training", TRAINING, theirs)
    with running(specs, asked) as workers:
        count = sum(map(len, batches))
        print_speeds(workers, asked, units=count, unit="pairs", rows=rows, **clock_of(asked))


def clock_of(asked: argparse.Namespace) -> dict[str, Any]:
    """The clock of the rounds; FLOPs are not counted."""
    return {"clock": "process" if asked.cpu_seconds else "elapsed", "flops": 0.0}


def peers(
    asked: argparse.Namespace, work: str, forms: tuple[str, ...], settings: dict[str, Any]
) -> dict[str, Spec]:
    """The forms of the peer that were asked for, in an environment of its own."""
    if asked.peer_python is None:
        return {}
    chosen = [form for form in forms if asked.peers is None or form in asked.peers]
    entry = f"peers.sentence_encoder:{work}"
    return {
        f"{PEER}, {form}": Spec(entry, {"form": form, **settings}, asked.peer_python)
        for form in chosen
    }


if __name__ == "__main__":
    main()
