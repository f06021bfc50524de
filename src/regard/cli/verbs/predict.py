"""``regard predict``: labels of texts and images, tags, roles, answers, choices, clusters."""

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from regard.cli import formats
from regard.cli.io.console import in_terminal, write_page
from regard.cli.io.files import open_job, print_results
from regard.core.errors import BadInput
from regard.experiments import options

if TYPE_CHECKING:
    from regard.inference.resolver import ResolvedText


def predict(
    context: Context,
    model: options.MODEL,
    inputs: options.InputOptions,
    runs: options.ModelOptions,
    outputs: options.OutputOptions,
    pretokenised: options.PRETOKENISED = False,
    entities: Annotated[
        bool, Option("--entities", help="Print entities instead of tagged words.")
    ] = False,
    html: formats.HTML = None,
) -> None:
    """Print labels, tags, roles, answers, choices or clusters.

    A classifier prints the label, a tab and its probability (several labels, or a number, by its
    task); a line may have two texts, separated by a tab. A tagger prints word/tag for each word.
    A labeller of semantic roles prints the arguments of each predicate in brackets, with a tab
    between predicates, and a sentence without any as it is; it finds them, unless the line has the
    numbers of their words, from 0, after a tab, or is JSON with the keys "text" (or "tokens") and
    "predicates".
    Question answering reads question, tab, context, or JSON with the keys "question" and "context".
    Multiple choice reads JSON, {"first": "…", "choices": ["…", "…"]}, and prints the index of the
    best choice, counted from 0. An encoder-decoder that writes labels (prompt.labels) prints the
    label, or nothing if it wrote other words, a tab and the probability. Coreference reads a
    document on each line, or JSON with the key "sentences", and prints it with brackets around
    mentions and the number of their cluster, in colours in a terminal; --html draws a page. An
    empty line stays empty.

    Longer inputs than the model reads are truncated; their number is printed to standard error.
    Taggers, question answering and coreference read long texts in several parts instead.

    The rows of a table (.csv, .tsv, .jsonl, .parquet) are printed again in the same format, with
    columns for the results (label and probability, tags, answer, …). The text is in --column NAME,
    or in the column that the model was trained on, or in the one called text, sentence, or the
    like; two --column are a pair. --delimiter and --encoding declare what is not found right.

    A tagger reads words in columns (CoNLL, CoNLL-U), and prints the lines again with a tag after
    each word (in CoNLL-U, in its column); question answering reads SQuAD's JSON, and prints the id
    of each question before its answer.

    A model of images reads an image (JPEG, PNG, WebP), a folder of images, or a file with a path on
    each line. Images of a folder are read in the order of their names, which are printed before the
    results; JSON has them under "image". Processes (--workers) decode images ahead of the model,
    and only a few batches are in memory at once.

    Several files of one format are read one after the other: named one by one, by a pattern
    ("reviews/*.csv", in quotes), or by their folder. Results have the order of the files, and JSON
    has the file of each line; tables of several files are one table.

    With --out FILE --resume, results are written to FILE.partial as they come; if the command was
    stopped, the same command continues after them, and the file is the same as without the stop. A
    bad line or image is an error; with --skip-bad its error is printed to standard error (and under
    "error" in JSON and tables), and the run continues.

    --workers N runs a model of texts in N processes, --ray ADDRESS on the machines of a Ray
    cluster; statistics of the results are then printed at the end, of images too.

    With --json everything is printed: all probabilities, the character offsets of words, entities
    and answers, and whether the input was truncated.

    Example: echo "a gripping film" | regard predict runs/sst2-pooled/model
    """
    from regard.experiments.bulk.image_source import source_for
    from regard.views.clusters import cluster_line, cluster_page

    if html is not None and outputs.resume:
        raise BadInput("--html: cannot be used with --resume, which does not run all lines again")
    inputs.files(outputs)
    job = open_job(context, model, inputs, runs, outputs)
    settings = {"pretokenised": pretokenised, "entities": entities}
    component = job.model.predictor.with_options(**settings)
    decoders, _ = job.processes
    source = source_for(job.model, component, inputs.names, job.settings, workers=decoders)
    if html is not None and not component.marks_texts:
        raise BadInput("--html: only models of coreference have a page of their predictions")
    if outputs.out is None and sys.stdout.isatty():
        component = component.with_show(lambda text: in_terminal(cluster_line(text)))
    texts = list["ResolvedText"]()
    with job.run(component, "predict", settings, source, texts.append) as run:
        print_results(run, outputs.out)
    write_page(html, lambda: cluster_page(f"Clusters by {model}", texts))
