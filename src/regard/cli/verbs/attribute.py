"""``regard attribute``: the contribution of each word, or patch, to a prediction."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Context, Option

from regard.cli import options
from regard.cli.io.console import (
    OUT,
    check_suffixes,
    print_json,
    write_page,
    write_picture,
    write_view,
)
from regard.cli.io.line_io import check_argument
from regard.cli.io.table_formats import (
    OutputTable,
    TableFormat,
    choose_format,
    number_column,
    print_tables,
    text_column,
)

if TYPE_CHECKING:
    from regard.api import Model
    from regard.inside.attribution.attributions import Attributions

Method = Literal["all", "gradient", "integrated", "rollout", "attention-gradient", "leave-one-out"]
COMPARED = "Spearman correlation of methods over words, and area under the deletion curve"


def attribute(
    context: Context,
    model: options.MODEL,
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="Text, two texts with a tab between them, or an image file."),
    ],
    target: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Label, token, or translation to explain.",
            show_default="the model's own",
        ),
    ] = None,
    token: options.TOKEN = None,
    method: Annotated[Method, Option(help="Method of attribution.")] = "all",
    steps: Annotated[
        int, Option(min=1, help="First number of steps of integrated gradients; doubled if needed.")
    ] = 16,
    without: Annotated[
        list[str] | None,
        Option(
            metavar="PART",
            help='Show the prediction without "head LAYER.HEAD", "layer NUMBER" or "word WORD" '
            "instead; repeatable.",
        ),
    ] = None,
    subwords: options.SUBWORDS = False,
    html: options.HTML = None,
    svg: options.SVG = None,
    png: options.PNG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Show on which words or patches a prediction depends.

    Five methods explain the label of a classifier, the label of a --token by a tagger, the start or
    end of an answer at a --token (--target start), the next or the masked token of a language
    model, or each word of a translation: gradient × input, integrated gradients (with their
    completeness: they must sum to f(x) − f(baseline)), attention rollout, attention × gradient, and
    leave-one-out. Their rank correlation and their deletion curves, beside a random order, show how
    far they can be believed.

    --without switches off heads, layers (what they add becomes zero) or words, and prints the
    prediction before and after. A word is its number, from 0, or the word itself. In a translator,
    heads are of the encoder, unless "cross head 0.1" or "decoder head 0.1" says otherwise, and
    layers of the source, unless "target layer 0" does.

    Example: regard attribute runs/tour/model "The old man reads a book." --html attribute.html
    """
    from regard.api import load

    form = choose_format(table_format, as_json)
    check_argument(text)
    check_suffixes(html=html, svg=svg, png=png)
    if without:
        drawn = options.flags(context, "method", "steps", "subwords", "svg", "png")
        options.refuse(drawn, "cannot be used with --without")
    loaded = load(model, device)
    given = loaded.runner.parse(text, "TEXT")
    if without:
        _print_what_if(loaded, given, (target, token), without, html, form)
        return
    view = loaded.attribute(
        given, target, token=token, method=method, steps=steps, subwords=subwords
    )
    write_picture(png, view.png)  # first: not every view can be drawn as PNG
    if form == "json":
        print_json(view.to_json())
    elif form == "text":
        OUT.print(view)
    else:
        print_tables(_tables(view), form)
    write_view(html, view.view_record, model=model)
    write_page(svg, view.svg)


def _tables(view: "Attributions") -> list[OutputTable]:
    """Values of words by method; correlations of methods and areas under deletion curves."""
    values = [number_column(name, ".4f") for name in view.weights]
    known = [number_column(name, ".2f") for name in view.compared]
    words = OutputTable(
        [text_column("target"), text_column("word"), *values], view.word_rows, view.summary
    )
    columns = [text_column("method"), *known, number_column("area", ".3f")]
    return [words, OutputTable(columns, view.method_rows, COMPARED, view.notes[:1])]


def _print_what_if(
    model: "Model",
    given: object,
    chosen: tuple[str | None, int | None],
    without: list[str],
    html: Path | None,
    form: TableFormat,
) -> None:
    """Print the prediction before and after parts are switched off."""
    from regard.inside.attribution.what_if import COLUMNS, parse_parts

    target, token = chosen
    parts = parse_parts(without)._asdict()
    result = model.what_if(given, target=target, token=token, **parts)
    if form == "json":
        print_json(result.to_json())
    else:
        name, *figures = COLUMNS
        columns = [text_column(name), *(number_column(each, ".4f") for each in figures)]
        print_tables([OutputTable(columns, result.rows, notes=[result.note])], form)
    write_page(html, result.report.html)
