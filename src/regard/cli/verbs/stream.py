"""``regard stream``: contributions of heads and layers to a logit, and the logit lens."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import OUT, check_suffixes, print_json, write_page, write_view
from regard.cli.io.line_io import check_argument
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    choose_format,
    number_column,
    plain_table,
    print_tables,
    text_column,
)

if TYPE_CHECKING:
    from regard.inside.stream.contributions import Contributions
    from regard.inside.stream.grid_view import GridView


def stream(
    model: options.MODEL,
    text: Annotated[str, Argument(metavar="TEXT", help="Text to read; or an image file.")],
    second: options.SECOND = None,
    target: options.TARGET = None,
    against: options.AGAINST = None,
    token: options.TOKEN = None,
    lens: Annotated[
        bool, Option("--lens", help="Show what each layer would predict (logit lens) instead.")
    ] = False,
    html: options.HTML = None,
    svg: options.SVG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Show what heads and layers contribute to a prediction.

    The contributions of the embedding, of each head and of each feed-forward layer through the
    residual stream sum, with the biases, to the logit of the target: norms are frozen, that is,
    their scale counts as a constant. By default the target is what the model predicts: a label,
    the next token, the token at the first mask, or the first token of a translation; --against
    explains the difference of two logits.

    With --lens, the states after each layer are read by the output head in place of the last ones:
    the table has the most probable token at each position, its probability, and the rank of the
    token that the last layer predicts.

    Example: regard stream gpt2 "The capital of France is" --target " Paris" --against " Rome"
    """
    from regard.api import load
    from regard.inside.inspected_model import title_of
    from regard.inside.masked_text import read_with_masks
    from regard.inside.stream.lens import logit_lens

    check_argument(text, second)
    check_suffixes(html=html, svg=svg)
    form = choose_format(table_format, as_json)
    if lens:
        flags = {"--target": target, "--against": against, "--token": token is not None}
        options.refuse(flags, "cannot be used with --lens")
    loaded = load(model, device)
    view: GridView
    if lens:
        rows = read_with_masks(loaded.inspected, text, second)
        layers = logit_lens(loaded.inspected, title_of(text), rows)
        view, table = layers, plain_table(layers.columns, layers.cells)
    else:
        shares = loaded.contributions(text, second, target=target, against=against, token=token)
        view, table = shares, _component_table(shares)
    if form == "json":
        print_json(view.to_json())
    elif form == "text" and not lens:
        OUT.print(view)
    else:
        print_tables([table], form)
    write_view(html, view.view_record, model=model)
    write_page(svg, view.svg)


def _component_table(contributions: "Contributions") -> OutputTable:
    columns = [text_column("component"), number_column("contribution", "+.4f")]
    rows: list[list[Cell]] = [[each.name, each.value] for each in contributions.components]
    return OutputTable(columns, rows, notes=[contributions.caption])
