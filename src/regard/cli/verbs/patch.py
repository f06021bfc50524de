"""``regard patch``: where a model keeps what decides a prediction, by activation patching."""

from typing import Annotated, Literal

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import print_result
from regard.cli.io.files import check_argument
from regard.core.flags import parse_pair
from regard.experiments import options

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
    *,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    output: formats.TableOptions,
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
    from regard.experiments.view_results import show_effects
    from regard.inference.inputs import title_of
    from regard.inside.masked_text import read_with_masks
    from regard.inside.stream.patching import TwoRuns
    from regard.inside.stream.patching import patch as patch_values
    from regard.inside.stream.paths import patch_paths

    check_argument(clean, second)
    check_argument(corrupted)
    form = output.format
    receiver = None if into is None else parse_pair("into", into, "LAYER,HEAD, such as 5,1")
    inside = load(model, device).runner
    if second is None:
        second = inside.default_target(clean)
    first, other = (read_with_masks(inside, text, second) for text in (clean, corrupted))
    title = f"{title_of(clean)} → {title_of(corrupted)}"
    runs = TwoRuns.of(inside, title, first, other, target, against, token)
    if receiver is None:
        effects = patch_values(runs, at, layer=layer)
    else:
        effects = patch_paths(runs, receiver)
    print_result(show_effects(effects), form)
    views.write(effects, model=model)
