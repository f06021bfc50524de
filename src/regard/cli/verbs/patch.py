"""``regard patch``: where a model keeps what decides a prediction, by activation patching."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.files import check_argument
from regard.experiments import options
from regard.experiments.options.inspecting import PatchOptions


def patch(
    model: options.MODEL,
    clean: Annotated[str, Argument(metavar="CLEAN", help="Text, or image file.")],
    corrupted: Annotated[
        str, Argument(metavar="CORRUPTED", help="Another input, with as many tokens.")
    ],
    how: PatchOptions,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    *,
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
    from regard.experiments.input_views import patch_runs

    check_argument(clean, how.second)
    check_argument(corrupted)
    patched = patch_runs(model, clean, corrupted, how, options.LoadOptions(device=device))
    output.show(patched)
    views.write(patched.source, model=model)
