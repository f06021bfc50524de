"""``regard evaluate``: a model on the test set of a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.io.console import note
from regard.cli.options import (
    BATCH_SIZE,
    DATA,
    DEVICE,
    INTERVAL,
    JSON,
    MODEL,
    PRECISION,
    RECIPE,
    SKIP_BAD,
    SVG,
)
from regard.ground.errors import BadInput


def evaluate(
    model: MODEL,
    recipe: RECIPE,
    data: DATA = Path(),
    interval: INTERVAL = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Add precision, recall and F1 of each label.")
    ] = False,
    confusion: Annotated[
        bool, typer.Option("--confusion", help="Add the confusion matrix of labels.")
    ] = False,
    svg: SVG = None,
    skip_bad: SKIP_BAD = False,
    batch_size: BATCH_SIZE = None,
    precision: PRECISION = "auto",
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Score a model on the test set of a recipe.

    Translation: BLEU, chrF and TER with their signatures. Classification: accuracy, macro-averaged
    F1 and Matthews' correlation, or the correlation of numbers. Tagging: F1 of entities. Question
    answering: exact match and F1. Text to text: those of translation and of question answering.
    Language models: perplexity, of recurrent ones with the state carried over the whole text.
    All but translation and text to text have intervals in any case. --labels adds the scores of
    each label, and the labels that were predicted instead. --confusion adds how often each label
    (down) was predicted as each (across), or of many labels the most frequent mistakes; --svg draws
    the whole matrix, of several test sets to a file each (FILE-NAME.svg). Exits with code 1 if the
    score that the recipe expects is not reached.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    from regard.api import load
    from regard.cli import scores
    from regard.data.files.fields import DropCounts
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find

    described = read(find(recipe))
    options = {"--labels": labels, "--confusion": confusion, "--svg": svg}
    if (option := next(filter(options.get, options), None)) and not task_of(described).single_label:
        raise BadInput(f"{option}: {described.about.title} has no labels")
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    dropped = DropCounts() if skip_bad else None
    tests = scores.evaluate_tests(loaded, described, data, dropped, with_interval=interval)
    if dropped:
        note(f"dropped: {dropped}")
    if as_json:
        for name, test in tests.items():
            scores.print_record(name, test, loaded, labels, confusion)
    else:
        scores.show_scores({name: test.scores for name, test in tests.items()}, loaded)
        for name, test in tests.items() if labels else ():
            scores.show_labels(test.of_labels, name if len(tests) > 1 else "label")
        for name, test in tests.items() if confusion else ():
            scores.show_confusion(scores.confusion_of(test), name if len(tests) > 1 else "gold")
    if svg is not None:
        scores.draw_confusions(svg, described.about.title, tests)
    expect = described.expect if "test" in tests else None
    if expect and not scores.check_expected(expect, tests["test"].scores, quiet=as_json):
        raise typer.Exit(1)
