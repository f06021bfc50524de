"""``regard patch``: where a model keeps what decides a prediction, by activation patching."""

import re
from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import OUT, check_suffixes, print_json, write_page, write_view
from regard.cli.io.line_io import check_argument
from regard.cli.io.table_formats import (
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.ground.errors import BadInput, shown

Places = Literal["states", "attention_outputs", "cross_outputs", "mlp_outputs", "head_outputs"]


def patch(
    model: options.MODEL,
    clean: Annotated[str, Argument(metavar="CLEAN", help="Text, or image file.")],
    corrupted: Annotated[
        str, Argument(metavar="CORRUPTED", help="Another input, with as many tokens.")
    ],
    second: options.SECOND = None,
    target: options.TARGET = None,
    against: options.AGAINST = None,
    token: options.TOKEN = None,
    at: Annotated[Places, Option(help="Values to patch.")] = "states",
    layer: options.LAYER = None,
    into: Annotated[
        str | None,
        Option(
            metavar="LAYER,HEAD", help="Patch the paths from earlier heads into this head instead."
        ),
    ] = None,
    html: options.HTML = None,
    svg: options.SVG = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Patch values of one input into the run of another.

    The model reads CORRUPTED with the value of CLEAN at one place, for each place: a position in a
    layer, or a head. The map shows how much of the logit of the target this restores: 1 as on
    CLEAN, 0 as on CORRUPTED. By default the target is what the model predicts on CLEAN; --against
    takes the difference to the logit of another token or label. A translator reads its translation
    of CLEAN, or --second, with both inputs.

    --at head_outputs has a map of heads by layer and, with --layer, of the heads of that layer by
    position. With --into, the map shows paths between heads: only what the head LAYER,HEAD reads
    from each earlier head is patched.

    Example: regard patch gpt2 "Rome is in" "Oslo is in" --target " Italy" --against " Norway"
    """
    from regard.api import load
    from regard.inside.inspected_model import title_of
    from regard.inside.masked_text import read_with_masks
    from regard.inside.stream.patching import TwoRuns
    from regard.inside.stream.patching import patch as patch_values
    from regard.inside.stream.paths import patch_paths

    check_argument(clean, second)
    check_argument(corrupted)
    check_suffixes(html=html, svg=svg)
    form = choose_format(table_format, as_json)
    receiver = None if into is None else _layer_and_head(into)
    loaded = load(model, device)
    inside, chosen = loaded.inspected, (target, against, token)
    if second is None:
        second = inside.runner.default_target(clean)
    first, other = (read_with_masks(inside, given, second) for given in (clean, corrupted))
    title = f"{title_of(clean)} → {title_of(corrupted)}"
    runs = TwoRuns.of(inside, title, first, other, *chosen)
    if receiver is None:
        effects = patch_values(runs, at, layer=layer)
    else:
        effects = patch_paths(runs, receiver)
    if form == "json":
        print_json(effects.to_json())
    elif form == "text":
        OUT.print(effects)
    else:
        names, cells = effects.table
        columns = [*map(text_column, names[:-1]), number_column(names[-1], "+.4f")]
        print_tables([OutputTable(columns, cells, notes=[effects.caption])], form)
    write_view(html, effects.view_record, model=model)
    write_page(svg, effects.svg)


def _layer_and_head(into: str) -> tuple[int, int]:
    """Numbers of the layer and the head in "LAYER,HEAD"."""
    match = re.fullmatch(r"\s*(\d{1,6})\s*,\s*(\d{1,6})\s*", into, re.ASCII)
    if match is None:
        raise BadInput(f"--into: {shown(into)} is not LAYER,HEAD, such as 5,1")
    return int(match[1]), int(match[2])
