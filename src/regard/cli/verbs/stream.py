"""``regard stream``: contributions of heads and layers to a logit, and the logit lens."""

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import print_result
from regard.cli.io.files import check_argument
from regard.core.flags import refuse
from regard.experiments import options

if TYPE_CHECKING:
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
    *,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    output: formats.TableOptions,
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
    from regard.experiments.view_results import show_contributions, show_lens
    from regard.inference.inputs import title_of
    from regard.inside.masked_text import read_with_masks
    from regard.inside.stream.lens import logit_lens

    check_argument(text, second)
    form = output.format
    if lens:
        flags = {"target": target, "against": against, "token": token is not None}
        refuse(flags, "cannot be used with --lens")
    loaded = load(model, device)
    view: GridView
    if lens:
        rows = read_with_masks(loaded.inspected, text, second)
        view = layers = logit_lens(loaded.inspected, title_of(text), rows)
        print_result(show_lens(layers), form)
    else:
        shares = loaded.contributions(text, second, target=target, against=against, token=token)
        view = shares
        print_result(show_contributions(shares), form)
    views.write(view, model=model)
