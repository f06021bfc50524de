"""``regard evaluate``: a model on the test set of a recipe, held against its promise."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from regard.api import Model, load
from regard.cli.say import DEVICE, JSON, MODEL, OUT, cost_line, print_json
from regard.data.sources import read_pairs
from regard.ground.errors import BadInput
from regard.metrics.bleu import bleu
from regard.metrics.translation import Score, chrf, ter
from regard.search.beam import Beam
from regard.training.recipe import Expect, Recipe, find, read

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

    Ends with exit code 1 if the recipe's promise is not kept.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    described = read(find(recipe))
    loaded = load(model, device)
    scores = test_scores(loaded, described, data, with_interval=interval)
    if as_json:
        print_json(
            {
                **{score.name: score.value for score in scores},
                "signatures": {score.name: score.signature for score in scores},
                "intervals": {score.name: score.interval for score in scores if score.interval},
                "cost": loaded.notes.get("cost"),
            }
        )
    else:
        show_scores(scores, loaded)
    if described.expect is not None and not keeps(described.expect, scores, quiet=as_json):
        raise typer.Exit(1)


def test_scores(
    model: Model, recipe: Recipe, data: Path, *, with_interval: bool = False
) -> list[Score]:
    """All measures of a translator on the recipe's test set."""
    if recipe.data.test is None:
        raise BadInput("the recipe names no test set (data.test)")
    pairs = list(read_pairs(recipe.data.test.under(data), recipe.data.longest_characters))
    facts = recipe.decode
    search = Beam(facts.beam, length=facts.length, alpha=facts.alpha)
    found = model.translate([source for _, source, _ in pairs], search)
    hypotheses = [one[0].text for one in found]
    references = [[target for _, _, target in pairs]]
    return [
        bleu(hypotheses, references, with_interval=with_interval),
        chrf(hypotheses, references, with_interval=with_interval),
        ter(hypotheses, references, with_interval=with_interval),
    ]


def show_scores(scores: Iterable[Score], model: Model) -> None:
    """Scores with their signatures, and what the model cost."""
    for score in scores:
        OUT.print(str(score), markup=False)
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
