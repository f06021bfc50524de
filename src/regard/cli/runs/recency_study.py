"""The study of ``regard recency``: gradient norms by distance, of some models or of four."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.api import Model, load
from regard.cli.io.console import note, print_json, print_table, slug
from regard.cli.scores import test_scores
from regard.cli.training_runs import run_loop
from regard.data.agreement import long_prefixes, make_agreement, write
from regard.ground.errors import BadInput
from regard.inside.studies.gradient_reach import GradientNorms, GradientReach, gradient_norms
from regard.metrics.intervals import spread
from regard.training.distributed import World
from regard.training.loop import seed_everything
from regard.training.recipe import read
from regard.training.recipe_files import find
from regard.training.run import prepare

LAST = "model.size=last"
TRANSFORMER = "model.change={width=64, inner=256, heads=4, depth=2, dropout=0.0}"
READERS = {
    "RNN, last state": (LAST, "model.change.cell=rnn"),
    "LSTM, last state": (LAST,),
    "LSTM, attention": (),
    "Transformer": (LAST, "model.source=transformer:laptop", TRANSFORMER),
}
QUICK = ("train.steps=20", "train.evaluate_every=20", "train.checkpoint_every=20")
TEXTS, BETWEEN = 64, 12  # those the charts are drawn from: 38 words each
UNTRAINED, TRAINED = "untrained", "trained"


def classifier_form(seeds: int) -> str:
    """What the numbers of the table are."""
    figures = "one seed" if seeds == 1 else f"means of {seeds} seeds ± their standard deviation"
    return (
        "accuracy of choosing is or are after a prefix with three nouns between subject and verb, "
        f"of which 0 to 3 have the other number; at most one had in training; {figures}. "
        "Classifiers of prefixes, not language models."
    )


def study_models(models: Mapping[str, Model], texts: list[str]) -> GradientReach:
    """Gradient norms of models by name, and of the same architectures with random weights."""
    ids = {name: _readable(model, texts) for name, model in models.items()}
    curves = []
    for name, model in models.items():
        prefix = f"{name}, " if len(models) > 1 else ""
        curves += [replace(one, name=f"{prefix}{one.name}") for one in _of_model(model, ids[name])]
    papers = ", ".join(dict.fromkeys(model.paper.name for model in models.values()))
    return GradientReach(f"{papers}: gradient norm over distance", {"influence": curves})


def _readable(model: Model, texts: list[str]) -> list[list[int]]:
    """The ids of the texts; a model that cannot be measured, or cannot read them, is refused."""
    encoder = model.encoder
    if encoder.facts.pool is None and not encoder.facts.writes:
        raise BadInput("this model has no pooled state: recency is that of a classifier or an LM")
    if encoder.text.template.specials(1):
        raise BadInput("this classifier reads special tokens: recency is that of words alone")
    ids = [one for one in encoder.text.words.encode_all(texts) if one]
    if not ids:
        raise BadInput("there is no text")
    longest, limit = max(map(len, ids)), encoder.truncation
    if limit is not None and longest > limit:
        raise BadInput(f"a text has {longest:,} tokens, and the model reads at most {limit:,}")
    return ids


def _of_model(model: Model, ids: list[list[int]]) -> list[GradientNorms]:
    """Those of a model, before training and after."""
    seed_everything(0)
    fresh = model.facts.build().eval().to(model.device)
    pairs = ((UNTRAINED, fresh), (TRAINED, model.module))
    return [GradientNorms(name, gradient_norms(module, ids)) for name, module in pairs]


def study_readers(
    out: Path, device: torch.device, seeds: int, quick: bool
) -> tuple[GradientReach, list[dict[str, Any]]]:
    """Charts and table, and as JSON the accuracy of each seed on each test."""
    write(make_agreement(*((400, 40, 40) if quick else ())), out / "corpus")
    charts: dict[str, list[GradientNorms]] = {UNTRAINED: [], TRAINED: []}
    rows, records = [], []
    for name, settings in READERS.items():
        scores: list[list[float]] = []
        for seed in range(1, seeds + 1):
            folder = out / f"{slug(name)}-{seed}"
            options = (*settings, f"train.seed={seed}", *(QUICK if quick else ()))
            untrained, model, scored = _trained(folder, out / "corpus", device, options)
            scores.append(scored)
            note(f"{name}, seed {seed}: {'  '.join(f'{one:.1f}' for one in scored)}")
            if seed == 1:
                ids = _ids(model.encoder.text.words)
                charts[UNTRAINED].append(GradientNorms(name, untrained))
                charts[TRAINED].append(GradientNorms(name, gradient_norms(model.module, ids)))
        count = model.paper.parameters(model.facts)
        tests = list(zip(*scores, strict=True))
        rows.append([name, *map(spread, tests), f"{count:,}"])
        records.append({"reader": name, "accuracy by attractors": tests, "parameters": count})
    columns = ["reader", "0 attractors", "1", "2", "3", "parameters"]
    drawn = "charts: seed 1, 64 prefixes of 38 words, mean Frobenius norm by distance"
    notes = (classifier_form(seeds), drawn)
    return GradientReach("How far back a reader hears", charts, columns, rows, notes), records


def _trained(
    folder: Path, corpus: Path, device: torch.device, settings: Sequence[str]
) -> tuple[np.ndarray, Model, list[float]]:
    """Gradient norms before training, the trained model, its accuracy on every test."""
    recipe = read(find("agreement"), settings)
    run = prepare(recipe, folder, World(0, 1, device), data=corpus)
    before = gradient_norms(run.job.model.eval(), _ids(run.tokenizer.words))
    run.finish(run_loop(run, quiet=True).progress)
    model = load(run.model_folder, str(device))
    tables = test_scores(model, recipe, corpus)
    return before, model, [scores[0].value for scores in tables.values()]


def _ids(words: Any) -> list[list[int]]:
    return words.encode_all([one.text for one in long_prefixes(TEXTS, BETWEEN)])


def print_distances(shown: GradientReach, as_json: bool) -> None:
    """Gradient norms by distance, as a table of powers of two or in full as JSON."""
    (curves,) = shown.charts.values()
    distances = range(min(len(one.norms) for one in curves))
    for distance in distances if as_json else ():
        print_json({"distance": distance, **{one.name: one.norms[distance] for one in curves}})
    if not as_json:
        chosen = sorted({0, *(2**power for power in range(12)), len(distances) - 1})
        rows = [
            [str(distance), *(f"{one.norms[distance]:.3g}" for one in curves)]
            for distance in chosen
            if distance in distances
        ]
        print_table(["tokens from the end", *(one.name for one in curves)], rows)
