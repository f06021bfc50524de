"""``regard attribute``: the contribution of each word, or patch, to a prediction."""

from typing import Annotated, Literal

from typer import Argument, Context, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import print_result, write_page, write_picture
from regard.cli.io.files import check_argument
from regard.core.flags import refuse
from regard.experiments import options

Method = Literal["all", "gradient", "integrated", "rollout", "attention-gradient", "leave-one-out"]


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
    *,
    views: formats.ViewOptions,
    png: formats.PNG = None,
    device: options.DEVICE = None,
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
    from regard.api import load
    from regard.experiments.view_results import show_attributions, show_what_if
    from regard.inside.attribution.what_if import parse_parts

    form = output.format
    check_argument(text)
    if without:
        drawn = flags(context, "method", "steps", "subwords", "svg", "png")
        refuse(drawn, "cannot be used with --without")
    loaded = load(model, device)
    parsed = loaded.runner.parse(text, "TEXT")
    if without:
        parts = parse_parts(without)._asdict()
        result = loaded.what_if(parsed, target=target, token=token, **parts)
        print_result(show_what_if(result), form)
        write_page(views.html, result.report.html)
        return
    view = loaded.attribute(
        parsed, target, token=token, method=method, steps=steps, subwords=subwords
    )
    write_picture(png, view.png)  # first: a library may be missing
    print_result(show_attributions(view), form)
    views.write(view, model=model)
