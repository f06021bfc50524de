"""``regard evaluate``: a model on the test set of a recipe."""

from pathlib import Path
from typing import Annotated

from typer import Exit, Option

from regard.cli import formats
from regard.cli.io.console import note, show_event, write_drawings
from regard.core.flags import refuse
from regard.experiments import options


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
    svg: formats.SVG = None,
    edits: options.EDITS = None,
    skip_bad: options.SKIP_BAD = False,
    *,
    runs: options.MeasureOptions,
    output: formats.TableOptions,
) -> None:
    """Score a model on the test set of a recipe.

    Translation: BLEU, chrF and TER with their signatures. Classification: accuracy, macro-averaged
    F1 and Matthews correlation; for numbers, their correlation. Tagging: F1 of entities. Semantic
    roles: F1 of arguments. Question answering: exact match and F1. Coreference: the mean of MUC, B³
    and CEAF-φ4, each of them, and LEA; for GAP and its like F1 by gender and bias. Sentence
    vectors: correlation of cosines with scores, or how often a text finds its partner. Text to
    text: the metrics of translation and of question answering and, for labels, of classification.
    Language models: perplexity; recurrent models carry their state over the whole text. Scores have
    95% intervals; for translation and text to text, --interval adds them.

    --labels adds the scores of each label, and the labels that were predicted instead. --confusion
    adds the confusion matrix, gold labels down and predictions across, or for many labels the most
    frequent mistakes; --svg draws the whole matrix, for several test sets in a file each
    (FILE-NAME.svg). With --edits, signatures have the hash of the edits. --dev scores the dev set
    instead, also one that was held out from train. Exits with code 1 if the expected score of the
    recipe is not reached.

    Example: regard evaluate runs/tour/model tour --data runs/tour/corpus
    """
    from regard.data.readers.fields import DropCounts
    from regard.experiments.scores import evaluate as evaluate_tests
    from regard.training.recipe import read, task_of
    from regard.training.recipe_files import find
    from regard.training.run_events import with_dev_as_test

    described = read(find(recipe))
    if on_dev:
        described = with_dev_as_test(described)
    if not task_of(described).single_label:
        flags = {"labels": labels, "confusion": confusion, "svg": svg}
        refuse(flags, f"{described.about.title} has no labels")
    loaded, envelope = runs.load_edited(model, edits, show_event)
    dropped = DropCounts() if skip_bad else None
    evaluation = evaluate_tests(
        loaded,
        described,
        data,
        dropped=dropped,
        with_interval=interval,
        settings=envelope,
        labels=labels,
        confusion=confusion,
    )
    if dropped:
        note(f"dropped: {dropped}")
    output.show(evaluation)
    if svg is not None:
        write_drawings(svg, evaluation.drawings(described.about.title))
    if not evaluation.reached:
        raise Exit(1)
