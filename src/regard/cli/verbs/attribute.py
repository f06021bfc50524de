"""``regard attribute``: the contribution of each word, or patch, to a prediction."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import write_page, write_picture
from regard.cli.io.files import check_argument
from regard.experiments import options
from regard.experiments.options.inspecting import AttributionOptions


def attribute(
    model: options.MODEL,
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="Text, two texts with a tab between them, or an image file."),
    ],
    how: AttributionOptions,
    views: formats.ViewOptions,
    png: formats.PNG = None,
    device: options.DEVICE = None,
    *,
    output: formats.TableOptions,
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
    from regard.experiments import input_views

    check_argument(text)
    how.check(svg=views.svg, png=png)
    runs = options.LoadOptions(device=device)
    if how.without:
        predicted = input_views.predict_without(model, text, how, runs)
        output.show(predicted)
        write_page(views.html, predicted.source.report.html)
        return
    attributed = input_views.attribute(model, text, how, runs)
    write_picture(png, attributed.source.png)  # first: a library may be missing
    output.show(attributed)
    views.write(attributed.source, model=model)
