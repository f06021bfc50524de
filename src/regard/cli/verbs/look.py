"""``regard look``: attention weights in the terminal, as SVG, PNG and HTML."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import print_result, show_event, write_picture
from regard.cli.io.files import check_argument
from regard.experiments import options
from regard.experiments.options.inspecting import LookOptions


def look(
    model: options.MODEL,
    text: Annotated[
        str,
        Argument(metavar="TEXT", help="Text to translate, classify or encode; or an image file."),
    ],
    how: LookOptions,
    views: formats.ViewOptions,
    png: formats.PNG = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    as_json: options.JSON = False,
) -> None:
    """Show the attention weights of a model for one text or image.

    Rows are queries, columns are keys; weights are the mean over layers and heads, unless --layer
    or --head chooses one. An encoder has one map, self-attention. A classifier with attention
    pooling has one weight for each word. A model that aligns two texts has a map of the words of
    the first (rows) to those of the second (--target), and of the second to the first (--map
    alignment-back, which question answering shows first: the context is the second text).
    Classifiers also show the predicted label, and question answering the answer. --html writes all
    layers and heads, and opens with the chosen ones.

    A causal model has one map too, blank (grey) where a key is later than the query. With
    --induction, heads are scored instead: on a text with repetitions, or with --repeat, an
    induction head attends from a token to the token after its earlier occurrence.

    A model of images reads an image (JPEG, PNG, WebP) and shows the attention of its class token,
    or of a --patch, to all patches. --png and --svg draw it over the image, with its rollout (mean
    of heads plus identity, multiplied over layers); with --layer, they draw every head.

    Example: regard look runs/tour/model "The old man reads a book." --html look.html
    """
    from regard.experiments.input_views import look_at

    check_argument(text, how.target)
    runs = options.LoadOptions(precision=precision, device=device)
    seen = look_at(model, text, how, runs, on_event=show_event)
    write_picture(png, seen.source.png)  # first: a library may be missing
    print_result(seen, "json" if as_json else "text")
    views.write(seen.source, model=model)
