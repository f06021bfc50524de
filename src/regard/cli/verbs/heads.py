"""``regard heads``: what each attention head does, by its weights, a treebank and gradients."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from regard.cli import options
from regard.cli.io.console import check_suffixes, write_page, write_view
from regard.cli.io.table_formats import (
    Column,
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.data.readers.text_files import read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.api import Model
    from regard.inside.heads.head_report import HeadReport


def heads(
    model: options.MODEL,
    text: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Texts, one per line (a tab between two); or an image, a folder, a file of paths.",
        ),
    ] = None,
    treebank: Annotated[
        Path | None,
        Option(metavar="FILE", help="CoNLL-U file, or a folder with files for dev and test."),
    ] = None,
    test: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="CoNLL-U file to score on; default: the second half of the treebank.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        Option(metavar="FILE", help="Gold label of each text, for the importance of heads."),
    ] = None,
    least: Annotated[
        int, Option(min=1, help="Fewest words of a relation, in dev and in test.")
    ] = 100,
    html: options.HTML = None,
    svg: options.SVG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Report what each attention head does.

    For every head: entropy of its weights, the relative offset that most words attend to, weight on
    special tokens and on the first token, and how often it attends most to a rare word. Causal
    models read all tokens twice, too, for previous-token, duplicate-token and induction scores;
    models of images have the mean distance of attention in patches. Importance is the mean absolute
    gradient of the loss with respect to a gate of the head: the loss of a language model on the
    texts, or of a classifier with --labels.

    With --treebank, the largest weight of a word predicts its syntactic head. For each relation,
    the best head is chosen on dev and scored on test, beside the best fixed offset, with 95%
    intervals. Without --text, all figures are of the sentences of the treebank.

    Heads with a role come first. --html and --svg draw a grid of heads, coloured by role.

    Example: regard heads runs/bert/model --text runs/tour/corpus/test.en --html heads.html
    """
    from regard.api import load

    form = choose_format(table_format, as_json)
    check_suffixes(html=html, svg=svg)
    if text is None and treebank is None:
        raise BadInput("give --text FILE, --treebank FILE, or both")
    if treebank is None:
        options.refuse({"--test": test}, "needs --treebank")
    if text is None:
        options.refuse({"--labels": labels}, "needs --text")
    loaded = load(model, device)
    inputs = [] if text is None else _inputs(loaded, text)
    gold = None if labels is None else [*read_lines(labels)]
    report = loaded.heads(inputs, treebank=treebank, test=test, labels=gold, least=least)
    print_tables(_tables(report), form)
    write_view(html, report.view_record, model=model)
    write_page(svg, report.svg)


def _inputs(model: "Model", file: str) -> list[object]:
    """Texts or pairs in the lines of a file; or the images of a file or a folder."""
    from regard.data.readers.images import image_files
    from regard.images.decode import SUFFIXES

    path = Path(file)
    if model.inspected.reads_images:
        if path.suffix.lower() in SUFFIXES:
            return [file]
        return [*map(str, image_files(path) if path.is_dir() else read_lines(file))]
    lines = [line for line in read_lines(file) if line and not line.isspace()]
    return [tuple(line.split("\t")) if line.count("\t") == 1 else line for line in lines]


def _tables(report: "HeadReport") -> list[OutputTable]:
    """Table of relations, if there is a treebank, and table of heads."""
    tables = []
    if report.relations:
        names, rows = report.relation_table()
        tables.append(OutputTable([*map(_column, names)], rows))
    names, rows = report.head_table()
    return [*tables, OutputTable([*map(_column, names)], rows, notes=report.notes)]


def _column(name: str) -> Column:
    from regard.inside.heads.head_report import FORMATS

    return number_column(name, FORMATS[name]) if name in FORMATS else text_column(name)
