"""Data prepared for training: tokenizer and tokenised examples, with lengths and duplicates.

The folder has the tokenizer in ``text``, the examples in ``data``, and in ``prepared.json`` the
recipe's tables that decide them, the training files and statistics.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from regard.core.errors import BadInput
from regard.core.files import JSON, read_json, remove, write_json
from regard.core.lock import LOCK, is_vacant, lock_folder
from regard.core.workers import StartWorkers
from regard.data.batches.shards import (
    COMPARED,
    TokenShard,
    count_bits,
    read_lengths,
    repeated_rows,
    shard_path,
    with_suffix,
)
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Task
from regard.training.recipe import Recipe, task_of

RECORD = "prepared.json"
SETS = {"train": "training", "dev": "development"}
MIX, UNIQUE, FILES = "mix", "deduplicate", "training files"
TASKS = ("translate", "text-to-text", "pretrain")  # whose examples are tokenised on disk
DECIDING = {  # keys of a recipe's tables on which the files depend; none: all keys
    "text": (),
    "data": ("train", "dev", "longest_characters", MIX),
    "model": ("paper", "start", "vocabulary"),
}


@dataclass(frozen=True)
class ShardStatistics:
    """Counts of a set of examples: tokens and lengths by side, and how many occur before.

    ``left_out`` counts duplicates that were left out.
    """

    examples: int
    duplicates: int
    lengths: dict[str, dict[str, float]]
    left_out: int = 0

    @property
    def lines(self) -> Iterator[str]:
        """The statistics as lines of text."""
        share = self.duplicates / max(1, self.examples)
        left_out = f", {self.left_out:,} duplicates left out" if self.left_out else ""
        yield f"{self.examples:,} examples, {self.duplicates:,} duplicates ({share:.1%}){left_out}"
        for side, lengths in self.lengths.items():
            parts = [f"{name} {value:,.4g}" for name, value in lengths.items() if name != "tokens"]
            yield f"{side}: {lengths['tokens']:,.0f} tokens; length: {', '.join(parts)}"


def set_title(name: str) -> str:
    """Name of a set for people: training, development, or a corpus of the training set."""
    return SETS.get(name) or f"{SETS['train']} ({name.removeprefix(MIX + '.')})"


def prepare_data(
    recipe: Recipe,
    out: Path,
    *,
    data: Path = Path(),
    skip_bad: bool = False,
    start_workers: StartWorkers | None = None,
    deduplicate: bool = False,
) -> dict[str, ShardStatistics]:
    """Write tokenizer and tokenised examples of a recipe to a folder; statistics by set.

    What an earlier call has completed from the same files is not written again. With
    ``deduplicate``, training examples that occur before are left out.
    """
    if deduplicate and recipe.data.dev.held_out:
        fault = "data.dev.held_out numbers the examples of files; name a development file"
        raise BadInput(f"duplicates cannot be left out: {fault}")
    task = task_of(recipe)
    _check_task(task)
    plan = task.resolve(data)
    task.check_data(data, skip_bad)
    origin = _deciding(recipe) | ({UNIQUE: True} if deduplicate else {})
    if out.is_dir() and not is_vacant(out) and not (out / RECORD).is_file():
        raise BadInput(f"{out}: has files that were not prepared; choose a new or empty folder")
    with lock_folder(out) as lock:
        before = read_json(out / RECORD) if (out / RECORD).is_file() else None
        if before is not None:
            _check_recipe(out, before, origin)
        begun = {"recipe": origin, FILES: _training_files(recipe, data)}
        if before is None or before.get(FILES) != begun[FILES]:
            remove(out / "text")  # learned from other files
        write_json(out / RECORD, begun)
        place = RunPaths(
            data,
            out,
            resume=True,
            skip_bad=skip_bad,
            start_workers=start_workers,
            deduplicate=deduplicate,
        )
        try:
            dropped = task.prepare(plan, place).dataset.dropped
        except BadInput:
            if {path.name for path in out.iterdir()} <= {RECORD, LOCK}:  # nothing was prepared
                remove(out / RECORD)
                lock.discard()
            raise
        sets = (*recipe.data.corpora(data), "dev")
        by_set = {name: shard_statistics(shard_path(place.store, name)) for name in sets}
        statistics = {name: counts for name, counts in by_set.items() if counts is not None}
        counted = {name: vars(counts) for name, counts in statistics.items()}
        record = {"complete": True, "dropped": dropped, "sets": counted}
        write_json(out / RECORD, begun | record)
    return statistics


def check_prepared(recipe: Recipe, folder: Path) -> bool:
    """Refuse a folder without all the data of a recipe; returns whether it has no duplicates."""
    _check_task(task_of(recipe))
    if not (folder / RECORD).is_file():
        raise BadInput(f"{folder}: no {RECORD} is there; the data was not prepared")
    record = read_json(folder / RECORD)
    if not record.get("complete"):
        raise BadInput(f"{folder}: is incomplete; prepare the data again, to the end")
    stored = record.get("recipe")
    deduplicated = isinstance(stored, dict) and bool(stored.get(UNIQUE))
    _check_recipe(folder, record, _deciding(recipe) | ({UNIQUE: True} if deduplicated else {}))
    return deduplicated


def _check_task(task: Task) -> None:
    if task.name not in TASKS:
        known = ", ".join(TASKS)
        fault = f"task {task.name!r} keeps its examples in memory"
        raise BadInput(f"{fault}; only those of {known} are prepared")


def _check_recipe(folder: Path, record: Mapping[str, JSON], origin: Mapping[str, JSON]) -> None:
    """Refuse a folder whose record names another recipe than ``origin``."""
    stored = record.get("recipe")
    stored = stored if isinstance(stored, dict) else {}
    changed = [name for name in {**origin, **stored} if stored.get(name) != origin.get(name)]
    if changed == [UNIQUE]:
        used, remedy = ("with", "give") if stored.get(UNIQUE) else ("without", "leave out")
        option = f"was prepared {used} --{UNIQUE}; {remedy} the option"
        raise BadInput(f"{folder}: {option}, or choose another folder")
    if changed:
        differs = f"was prepared by another recipe (differs in: {', '.join(changed)})"
        raise BadInput(f"{folder}: {differs}; choose another folder")


def _training_files(recipe: Recipe, data: Path) -> JSON:
    """Names, sizes and times of the files that a tokenizer is learned from."""
    train = recipe.data.train
    sources = [
        train.under(folder) if train.has_pairs else train.collection(folder)
        for folder in recipe.data.corpora(data).values()
    ]
    return json.loads(json.dumps([source.origin for source in sources]))


def _deciding(recipe: Recipe) -> dict[str, JSON]:
    """The values of a recipe that decide what is prepared, by table: of a mixture its names."""
    dumped = recipe.model_dump(mode="json", serialize_as_any=True)
    mix = dumped["data"].pop(MIX)
    dumped["data"] |= {MIX: [*mix]} if mix else {}
    tables = {
        name: {
            key: value for key, value in (dumped.get(name) or {}).items() if key in keys or not keys
        }
        for name, keys in DECIDING.items()
    }
    return {"task": dumped["task"], **tables}


def shard_statistics(path: Path) -> ShardStatistics | None:
    """Statistics of the shards at PATH.SIDE; None if there are none.

    Files are read in blocks, and hashes of examples are sorted in parts: memory is a bit for each
    example.
    """
    paths = [with_suffix(path, f".{side}") for side in COMPARED]
    paths = [side for side in paths if with_suffix(side, ".idx").exists()]
    if not paths:
        return None
    counts = {side.suffix[1:]: np.zeros(1, np.int64) for side in paths}
    for side in paths:
        for lengths in read_lengths(side):
            name = side.suffix[1:]
            counts[name] = _added(counts[name], np.bincount(lengths))
    record = with_suffix(path, ".json")
    left_out = cast(int, read_json(record).get("duplicates", 0)) if record.exists() else 0
    return ShardStatistics(
        len(TokenShard(paths[0])),
        count_bits(repeated_rows(paths)),
        {name: _lengths(counts_L) for name, counts_L in counts.items()},
        left_out,
    )


def _added(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The sum of two arrays of counts, of which one may be shorter."""
    short, long = sorted((first, second), key=len)
    return long + np.pad(short, (0, len(long) - len(short)))


def _lengths(counts_L: np.ndarray) -> dict[str, float]:
    """Sum, mean, quantiles and maximum of lengths, from the number of rows of each length."""
    rows, lengths = counts_L.sum(), np.arange(len(counts_L))
    ends = np.cumsum(counts_L)
    quantiles = {"median": 0.5, "95%": 0.95, "99%": 0.99}
    tokens = float(counts_L @ lengths)
    return {
        "tokens": tokens,
        "mean": tokens / max(1, rows),
        **{name: float(np.searchsorted(ends, q * rows)) for name, q in quantiles.items()},
        "longest": float(len(counts_L) - 1),
    }
