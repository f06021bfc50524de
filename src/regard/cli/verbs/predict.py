"""``regard predict``: labels of texts and images, tags, roles, answers, choices, clusters."""

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Context, Option

from regard.cli import options
from regard.cli.io.console import in_terminal, write_page
from regard.cli.io.file_list import list_files
from regard.cli.io.line_io import run_component
from regard.cli.io.output import resumable_command
from regard.cli.io.table_io import check_output, declared_format
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.inference.resolver import ResolvedText


def predict(
    context: Context,
    model: options.MODEL,
    file: options.FILE = "-",
    more: options.MORE_FILES = None,
    column: options.COLUMN = None,
    delimiter: options.DELIMITER = None,
    encoding: options.ENCODING = None,
    pretokenised: options.PRETOKENISED = False,
    entities: Annotated[
        bool, Option("--entities", help="Print entities instead of tagged words.")
    ] = False,
    html: options.HTML = None,
    edits: options.EDITS = None,
    max_length: options.MAX_LENGTH = None,
    batch_size: options.BATCH_SIZE = None,
    precision: options.PRECISION = "auto",
    device: options.DEVICE = None,
    workers: options.WORKERS = None,
    ray: options.RAY = None,
    skip_bad: options.SKIP_BAD = False,
    out: options.OUT_FILE = None,
    resume: options.RESUME = False,
    as_json: options.JSON = False,
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
    or in the column called text, sentence, or the like; two --column are a pair. --delimiter and
    --encoding declare what is not found right.

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
    from regard.cli.edited_models import load_model, sharing
    from regard.cli.io.image_io import source_for
    from regard.inside.views.clusters import cluster_line, cluster_page
    from regard.tasks.components import ComponentSpec

    if html is not None and resume:
        raise BadInput("--html: cannot be used with --resume, which does not run all lines again")
    names, form = [file, *(more or ())], declared_format(delimiter, encoding)
    check_output(list_files(*names)[0], out, as_json=as_json)
    command = resumable_command(context, "workers", "ray", "skip_bad")
    loaded, envelope = load_model(model, device, edits, precision, batch_size)
    settings = {"pretokenised": pretokenised, "entities": entities}
    component = loaded.predictor.with_options(**settings)
    decoders, runners = sharing(loaded, workers, ray, edits)
    source = source_for(
        loaded, component, names, column, max_length, form, workers=decoders, skip_bad=skip_bad
    )
    if html is not None and not component.marks_texts:
        raise BadInput("--html: only models of coreference have a page of their predictions")
    if out is None and sys.stdout.isatty():
        component = component.with_show(lambda text: in_terminal(cluster_line(text)))
    texts = list["ResolvedText"]()
    place = loaded.device.type
    spec = ComponentSpec((model,), "predict", settings, place, precision, batch_size=batch_size)
    with spec.workers(runners, ray) as shared:
        run_component(
            source, component, out, command, shared, texts.append, as_json=as_json, **envelope
        )
    write_page(html, lambda: cluster_page(f"Clusters by {model}", texts))
