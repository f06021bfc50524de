"""``regard evaluate``: a model on the test set of a recipe."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from regard.cli import options
from regard.cli.io.console import note
from regard.cli.io.table_formats import choose_format


def evaluate(
    model: options.MODEL,
    recipe: options.RECIPE,
    on_dev: options.ON_DEV = False,
    data: options.DATA = Path(),
    interval: options.INTERVAL = False,
    labels: Annotated[
        bool, Option("--labels", help="Add precision, recall and F1 of each label.")
    ] = False,
    confusion: Annotated[
        bool, Option("--confusion", help="Add the confusion matrix of labels.")
    ] = False,
    svg: options.SVG = None,
    edits: options.EDITS = None,
    skip_bad: options.SKIP_BAD = False,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Score a model on the test set of a recipe.

    Translation: BLEU, chrF and TER with their signatures. Classification: accuracy, macro-averaged
    F1 and Matthews correlation; for numbers, their correlation. Tagging: F1 of entities. Question
    answering: exact match and F1. Coreference: the mean of MUC, B³ and CEAF-φ4, each of them, and
    LEA; for GAP and its like F1 by gender and bias. Sentence vectors: correlation of cosines with
    scores, or how often a text finds its partner. Text to text: the metrics of translation and of
    question answering and, for labels, of classification. Language models: perplexity; recurrent
    models carry their state over the whole text. Scores have 95% intervals; for translation and
    text to text, --interval adds them.

    --labels adds the scores of each label, and the labels that were predicted instead. --confusion
    adds the confusion matrix, gold labels down and predictions across, or for many labels the most
    frequent mistakes; --svg draws the whole matrix, for several test sets in a file each
    (FILE-NAME.svg). With --edits, signatures have the hash of the edits. --dev scores the dev set
    instead, also one that was held out from train. Exits with code 1 if the expected score of the
    recipe is not reached.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    from regard.cli import scores
    from regard.cli.edited_models import load_model
    from regard.data.readers.fields import DropCounts
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find
    from regard.training.train import with_dev_as_test

    form = choose_format(table_format, as_json)
    described = read(find(recipe))
    if on_dev:
        described = with_dev_as_test(described)
    if not task_of(described).single_label:
        flags = {"--labels": labels, "--confusion": confusion, "--svg": svg}
        options.refuse(flags, f"{described.about.title} has no labels")
    loaded, envelope = load_model(model, device, edits, precision, batch_size)
    dropped = DropCounts() if skip_bad else None
    tests = scores.evaluate_tests(loaded, described, data, dropped, with_interval=interval)
    tests = scores.with_settings(tests, envelope)
    if dropped:
        note(f"dropped: {dropped}")
    scores.print_evaluation(tests, loaded, labels, confusion, form)
    if svg is not None:
        scores.draw_confusions(svg, described.about.title, tests)
    expect = described.expect if "test" in tests else None
    if expect and not scores.check_expected(expect, tests["test"].scores, quiet=form != "text"):
        raise Exit(1)
