"""``regard recency``: how far back a text still counts, for four readers or for a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from regard.api import Model, load
from regard.cli.console import JSON, OUT, note, print_json, slug, was_given
from regard.cli.evaluate import test_scores
from regard.cli.table import print_table
from regard.cli.train import follow
from regard.data.agreement import long_prefixes, make_agreement, write
from regard.data.sources import read_lines
from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.ground.lock import lock_vacant
from regard.inside.gradient_reach import GradientNorms, GradientReach, gradient_norms
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
TEXTS, BETWEEN = 64, 12  # those the pictures are drawn from: 38 words each
UNTRAINED, TRAINED = "untrained", "trained"


def recency(
    context: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A classifier of your own.")
    ] = None,
    file: Annotated[str, typer.Argument(help="Its texts, one a line; - is standard input.")] = "-",
    out: Annotated[Path, typer.Option(help="Where the four readers go.")] = Path("runs/recency"),
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each reader.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few steps only, to see that everything works.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page of MODEL's influence.")] = None,
    as_json: JSON = False,
) -> None:
    """Measure how much each word moves a reader's final state, by its distance from the end.

    Without MODEL, four small readers (RNN and LSTM by their last state, LSTM by attention, a
    Transformer) learn subject-verb agreement from templates: the table says how often each is
    right past so many attractors, the pictures how far back it hears, untrained and trained.

    Example: regard recency --out runs/recency --seeds 3
    """
    if model is not None:
        if idle := [name for name in ("out", "seeds", "quick") if was_given(context, name)]:
            names = ", ".join(f"--{name}" for name in idle)
            raise BadInput(f"{names}: means nothing to a MODEL, which is not trained here")
        shown = _of_model(load(model, "cpu"), list(read_lines(file)))
        _print_distances(shown, as_json)
        if html is not None:
            write_text(html, shown.html())
            note(f"wrote {html}")
        return
    if html is not None:
        raise BadInput("--html: without MODEL the page goes to --out")
    with lock_vacant(out):
        shown, records = _of_readers(out, seeds, quick)
        for name in shown.charts:
            write_text(out / f"{name}.svg", shown.svg(name))
        write_text(out / "recency.html", shown.html())
    if as_json:
        for record in records:
            print_json(record)
    else:
        print_table(shown.columns, shown.rows)
        OUT.print(classifier_form(seeds), markup=False)
    note(f"{out / 'recency.html'}: the table, and gradient norm over distance")


def classifier_form(seeds: int) -> str:
    """What the table says."""
    figures = "one seed" if seeds == 1 else f"means of {seeds} seeds ± their standard deviation"
    return (
        "accuracy of choosing is or are after a prefix with three nouns between subject and verb, "
        f"of which 0 to 3 have the other number; at most one had in training; {figures}. "
        "Classifiers of prefixes, not language models."
    )


def spread(values: Sequence[float]) -> str:
    """Their mean, and if there are several their deviation as a sample shows it."""
    if len(values) == 1:
        return f"{values[0]:.1f}"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def _of_model(model: Model, texts: list[str]) -> GradientReach:
    """A model's influence as it is, and as it was before training (but for the draw)."""
    ids = [one for one in model.encoder.text.words.encode_all(texts) if one]
    if not ids:
        raise BadInput("there is no text to read")
    seed_everything(0)
    fresh = model.facts.build().eval()
    found = [
        GradientNorms(name, gradient_norms(module, ids))
        for name, module in ((UNTRAINED, fresh), (TRAINED, model.module))
    ]
    return GradientReach(f"{model.paper.name}: gradient norm over distance", {"influence": found})


def _of_readers(out: Path, seeds: int, quick: bool) -> tuple[GradientReach, list[dict[str, Any]]]:
    """Everything to show, and the numbers of the table: for each test the accuracy of each seed."""
    write(make_agreement(*((400, 40, 40) if quick else ())), out / "corpus")
    charts: dict[str, list[GradientNorms]] = {UNTRAINED: [], TRAINED: []}
    rows, records = [], []
    for name, settings in READERS.items():
        scores: list[list[float]] = []
        for seed in range(1, seeds + 1):
            folder = out / f"{slug(name)}-{seed}"
            options = (*settings, f"train.seed={seed}", *(QUICK if quick else ()))
            untrained, model, scored = _trained(folder, out / "corpus", options)
            scores.append(scored)
            note(f"{name}, seed {seed}: {'  '.join(f'{one:.1f}' for one in scored)}")
            if seed == 1:
                charts[UNTRAINED].append(GradientNorms(name, untrained))
                charts[TRAINED].append(GradientNorms(name, _influence(model)))
        count = model.paper.parameters(model.facts)
        tests = list(zip(*scores, strict=True))
        rows.append([name, *map(spread, tests), f"{count:,}"])
        records.append({"reader": name, "accuracy by attractors": tests, "parameters": count})
    columns = ["reader", "0 attractors", "1", "2", "3", "parameters"]
    drawn = "charts: seed 1, 64 prefixes of 38 words, mean Frobenius norm by distance"
    notes = (classifier_form(seeds), drawn)
    return GradientReach("How far back a reader hears", charts, columns, rows, notes), records


def _trained(
    folder: Path, corpus: Path, settings: Sequence[str]
) -> tuple[np.ndarray, Model, list[float]]:
    """A reader's influence before training, the model after it, its accuracy on every test."""
    recipe = read(find("agreement"), settings)
    run = prepare(recipe, folder, World(0, 1, torch.device("cpu")), data=corpus)
    before = gradient_norms(run.job.model.eval(), _ids(run.tokenizer.words))
    run.finish(follow(run, quiet=True).progress)
    model = load(run.model_folder, "cpu")
    tables = test_scores(model, recipe, corpus)
    return before, model, [scores[0].value for scores in tables.values()]


def _influence(model: Model) -> np.ndarray:
    return gradient_norms(model.module, _ids(model.encoder.text.words))


def _ids(words: Any) -> list[list[int]]:
    return words.encode_all([one.text for one in long_prefixes(TEXTS, BETWEEN)])


def _print_distances(shown: GradientReach, as_json: bool) -> None:
    (found,) = shown.charts.values()
    distances = range(len(found[0].norms))
    for distance in distances if as_json else ():
        print_json({"distance": distance, **{one.name: one.norms[distance] for one in found}})
    if not as_json:
        chosen = sorted({0, *(2**power for power in range(12)), len(distances) - 1})
        rows = [
            [str(distance), *(f"{one.norms[distance]:.3g}" for one in found)]
            for distance in chosen
            if distance in distances
        ]
        print_table(["tokens from the end", *(one.name for one in found)], rows)
