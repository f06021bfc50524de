"""``regard neighbours``: words nearest to a word, or images nearest to an image."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import print_line, show_event
from regard.cli.io.files import check_argument
from regard.experiments import options
from regard.experiments.options.measuring import NeighbourOptions


def neighbours(
    model: options.MODEL,
    word: Annotated[str, Argument(metavar="WORD", help="Word, as in the texts; or an image.")],
    file: options.FILE = "-",
    *,
    how: NeighbourOptions,
    runs: options.LoadOptions,
    output: formats.TableOptions,
) -> None:
    """Print the words nearest to a word, or images to an image.

    Each occurrence of WORD in FILE has a table: on the left the words nearest to its static vector,
    which is the same in every text; on the right the words of FILE, in their texts, whose states in
    the model are nearest. Without FILE and input, words are looked for in all TEXTs. --layer 0 is
    the embedding, n the states after block n; the default is the last layer.

    For a model of images, WORD is an image or a folder of images, and FILE has the images to
    compare with: a folder, or a file with a path on each line. Images are compared by the vectors
    of regard embed.

    Example: regard neighbours runs/bert/model bank text.en --vectors glove.6B.50d.txt.gz
    """
    from regard.experiments.nearest_items import nearest_items

    check_argument(word)
    for table in nearest_items(runs.load(model), word, file, how, "--text", show_event):
        output.show(table)
        if output.format != "json":
            print_line("")
