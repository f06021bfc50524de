"""``regard stream``: contributions of heads and layers to a logit, and the logit lens."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.files import check_argument
from regard.experiments import options
from regard.experiments.options.inspecting import ContributionOptions


def stream(
    model: options.MODEL,
    text: Annotated[str, Argument(metavar="TEXT", help="Text to read; or an image file.")],
    how: ContributionOptions,
    views: formats.ViewOptions,
    device: options.DEVICE = None,
    *,
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
    from regard.experiments.input_views import explain_logit

    check_argument(text, how.second)
    explained = explain_logit(model, text, how, options.LoadOptions(device=device))
    output.show(explained)
    views.write(explained.source, model=model)
