"""``regard evaluate``: a model on the test set of a recipe, held against its promise."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.api import Model, load
from regard.cli.say import DEVICE, JSON, MODEL, OUT, cost_line, print_json
from regard.data.sources import Source, read_pairs
from regard.ground.errors import BadInput
from regard.metrics.bleu import bleu
from regard.metrics.classification import classification_scores
from regard.metrics.translation import Score, chrf, ter
from regard.search.beam import Beam
from regard.training.files import Files
from regard.training.recipe import Expect, Recipe, find, read
from regard.training.run import task_of
from regard.training.tuning import Tuning

DATA = Annotated[
    Path, typer.Option(envvar="REGARD_DATA", help="The folder the recipe's files lie in.")
]


def evaluate(
    model: MODEL,
    recipe: Annotated[str, typer.Argument(help="A recipe: a file, or a name from `recipes`.")],
    data: DATA = Path(),
    interval: Annotated[
        bool, typer.Option("--interval", help="Add 95% bootstrap intervals.")
    ] = False,
    as_json: JSON = False,
    device: DEVICE = None,
) -> None:
    """Translate a recipe's test set and print BLEU, chrF and TER with their signatures.

    Of a classifier: accuracy, macro-averaged F1 and Matthews' correlation, or the correlation of
    numbers; of a tagger F1 of entities, of answers exact match and F1; always with intervals.
    Ends with exit code 1 if the recipe's promise is not kept.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    described = read(find(recipe))
    loaded = load(model, device)
    tables = test_scores(loaded, described, data, with_interval=interval)
    if as_json:
        for name, scores in tables.items():
            print_json(_record(name, scores, loaded))
    else:
        show_scores(tables, loaded)
    expect = described.expect
    if expect is not None and not keeps(expect, tables["test"], quiet=as_json):
        raise typer.Exit(1)


def test_scores(
    model: Model, recipe: Recipe, data: Path, *, with_interval: bool = False
) -> dict[str, list[Score]]:
    """All measures of a model on each test set of the recipe."""
    if recipe.data.test is None:
        raise BadInput("the recipe names no test set (data.test)")
    sets = {"test": recipe.data.test, **recipe.data.more_tests}
    task = task_of(recipe)

    def scored(files: Files) -> list[Score]:
        if isinstance(task, Tuning):
            return task.scores(model, files, data)
        if recipe.task == "classify":
            return _label_scores(model, recipe, files.under(data))
        return _scores(model, recipe, files.under(data), with_interval)

    return {name: scored(files) for name, files in sets.items()}


def _label_scores(model: Model, recipe: Recipe, files: Source) -> list[Score]:
    examples = list(read_pairs(files, recipe.data.longest_characters))
    labels = model.classifier.text.labels
    golds = [labels.name(label, where) for where, _, label in examples]
    found = model.predict([text for _, text, _ in examples])
    return classification_scores(golds, [one.label for one in found], with_interval=True)


def _scores(model: Model, recipe: Recipe, files: Source, with_interval: bool) -> list[Score]:
    pairs = list(read_pairs(files, recipe.data.longest_characters))
    facts, measure = recipe.decode, recipe.measure
    search = Beam(facts.beam, length=facts.length, alpha=facts.alpha)
    found = model.translate([source for _, source, _ in pairs], search)
    hypotheses = [one[0].text for one in found]
    references = [[target for _, _, target in pairs]]
    case: dict[str, Any] = {"lowercase": measure.lowercase, "with_interval": with_interval}
    return [
        bleu(hypotheses, references, tokenize=measure.tokenize, **case),
        chrf(hypotheses, references, **case),
        ter(hypotheses, references, with_interval=with_interval),
    ]


def _record(name: str, scores: list[Score], model: Model) -> dict[str, Any]:
    return {
        "set": name,
        **{score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "intervals": {score.name: score.interval for score in scores if score.interval},
        "cost": model.notes.get("cost"),
    }


def show_scores(tables: Mapping[str, list[Score]], model: Model) -> None:
    """Scores with their signatures, set by set, and what the model cost."""
    for name, scores in tables.items():
        for score in scores:
            OUT.print(f"{name}  {score}" if len(tables) > 1 else str(score), markup=False)
    if "cost" in model.notes:
        OUT.print(cost_line(model.notes["cost"]), markup=False)


def keeps(expect: Expect, scores: Iterable[Score], *, quiet: bool = False) -> bool:
    """Hold the scores against the promise, and say how it went."""
    value = next(score.value for score in scores if score.name.startswith(expect.metric))
    short = value - expect.score if expect.metric == "TER" else expect.score - value
    kept = short <= expect.tolerance
    if not quiet:
        OUT.print(
            f"promised: {expect.metric} {expect.score:g} ± {expect.tolerance:g} ({expect.source}); "
            f"reached {value:.2f}: {'kept' if kept else 'NOT kept'}",
            markup=False,
        )
    return kept
