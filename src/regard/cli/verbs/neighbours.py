"""``regard neighbours``: words nearest to a word, or images nearest to an image."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Option

from regard.cli import options
from regard.cli.io.console import note, print_json, print_line
from regard.cli.io.line_io import check_argument, plain_text, read_windows, unless_empty, with_limit
from regard.cli.io.table_formats import (
    OutputTable,
    TableFormat,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.ground.errors import BadInput
from regard.inside.views.markup import escape_line

if TYPE_CHECKING:
    from regard.api import Model
    from regard.data.readers.static_vectors import StaticVectors
    from regard.inside.neighbours import LineOfText, Neighbour, Part, WordInContext

LAST = -1  # layer
SHORTEN = "shorten the line to what the model reads"  # words beyond have no states
TEXT = "--text"
OF_WORDS = ("texts", "max_length", "vectors", "occurrences", "layer")  # options
OF_IMAGES = ("pool", "workers", "skip_bad")
NOTHING = (None, None, None)  # cells where one kind has fewer neighbours
StaticNeighbours = Sequence[tuple[str, float]]  # words with cosines
COLUMNS = (
    text_column("static"),
    number_column("cosine", ".3f"),
    text_column("in context"),
    number_column("cosine", ".3f"),
    text_column(""),
)


def neighbours(
    context: Context,
    model: options.MODEL,
    word: Annotated[str, Argument(metavar="WORD", help="Word, as in the texts; or an image.")],
    file: options.FILE = "-",
    texts: Annotated[
        list[str] | None,
        Option(TEXT, metavar="TEXT", help="Text with the word, instead of FILE; repeatable."),
    ] = None,
    vectors: Annotated[
        Path | None,
        Option(metavar="FILE", help="Word vectors (GloVe); default: the embedding layer."),
    ] = None,
    top: Annotated[int, Option(min=1, help="Number of neighbours.")] = 5,
    occurrences: Annotated[int, Option(min=1, help="Number of occurrences of the word.")] = 5,
    layer: options.LAYER = None,
    pool: options.POOL = None,
    max_length: options.MAX_LENGTH = None,
    workers: options.WORKERS = None,
    skip_bad: options.SKIP_BAD = False,
    batch_size: options.BATCH_SIZE = None,
    precision: options.STORED_PRECISION = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
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
    import numpy as np

    from regard.api import load
    from regard.inside import neighbours as inside
    from regard.inside.neighbours import ContextualWords, LineOfText, static_neighbours
    from regard.text.tokenizers.row_tokenizer import require_tokenizer

    form = choose_format(table_format, as_json)
    check_argument(word)
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    if loaded.facts.encoder.embed.reads_images:
        options.refuse(options.flags(context, *OF_WORDS), "is for models that read words")
        read = partial(_image_vectors, loaded, pool, workers, skip_bad)
        print_image_neighbours(read, word, file, top, form)
        return
    options.refuse(options.flags(context, *OF_IMAGES), "is for models that read images")
    tokenizer, runner, name = require_tokenizer(loaded.tokenizer), loaded.runner, name_of(file)
    most = max_length or (None if runner.truncation else options.MAX_TOKENS)
    parse = with_limit(plain_text, runner.token_count, most)
    parse = with_limit(parse, runner.token_count, runner.truncation, SHORTEN)
    numbered = ((number, line) for number, line in enumerate(read_lines(file), 1) if line.strip())
    lines = [LineOfText(number, parse(line, f"{name}:{number}")) for number, line in numbered]
    examples = [LineOfText(0, parse(text, TEXT)) for text in texts or ()] or lines
    if not lines and file != STDIN:
        raise BadInput(f"{name}: has no text")
    lines = lines or examples
    facts, chosen = loaded.facts, LAST if layer is None else layer
    path = facts.encoder.state_path(facts.encoder_path, chosen)
    reader = ContextualWords(runner, tokenizer, path)
    matches = list(reader.find(word, examples, occurrences))
    if not matches:
        raise BadInput(f"{TEXT if texts else name}: the word {word!r} does not occur")
    queries = [query for query, _ in matches]
    vectors_BD = np.stack([vector for _, vector in matches])
    nearest = inside.nearest(queries, vectors_BD, reader.read(lines), top)
    static = static_neighbours(_static(loaded, vectors, word, lines), word, top)
    if not static:
        note(f"{word}: has no static vector")
    for query, of_query in zip(queries, nearest, strict=True):
        if form == "json":
            print_json(_record(query, static, of_query))
        else:
            _print_query(query, static, of_query, name, form)


def _static(
    model: "Model", vectors: Path | None, word: str, lines: "Sequence[LineOfText]"
) -> "StaticVectors":
    """Vectors of a file, or of the embedding layer for the words of all lines."""
    from regard.data.readers.static_vectors import StaticVectors
    from regard.inside.neighbours import word_vectors
    from regard.text.words import words

    if vectors is not None:
        return StaticVectors.read(vectors)
    of_lines = (name for line in lines for name in words(line.text))
    known = (name for name in of_lines if any(map(str.isalnum, name)))
    return word_vectors(model.module, model.tokenizer, [word, *known])


def _record(
    query: "WordInContext", static: StaticNeighbours, nearest: "Sequence[Neighbour]"
) -> dict[str, object]:
    return {
        **_place(query),
        "static": [{"word": word, "cosine": round(cosine, 6)} for word, cosine in static],
        "contextual": [{**_place(near.item), "cosine": round(near.cosine, 6)} for near in nearest],
    }


def _place(word: "WordInContext") -> dict[str, object]:
    return {"word": word.word, "line": word.line or None, "place": word.place, "words": word.words}


def _print_query(
    query: "WordInContext",
    static: StaticNeighbours,
    nearest: "Sequence[Neighbour]",
    name: str,
    form: TableFormat,
) -> None:
    """Print a line for the query, and a table of both kinds of neighbours."""
    where = f"{name}:{query.line}" if query.line else TEXT
    left = [(escape_line(word), cosine) for word, cosine in static]
    right = [
        (
            escape_line(near.item.word),
            near.cosine,
            escape_line(f"{near.item.line or TEXT}: {near.item}"),
        )
        for near in nearest
    ]
    rows = [
        (*(first or NOTHING[:2]), *(second or NOTHING))
        for first, second in zip_longest(left, right)
    ]
    print_tables([OutputTable(COLUMNS, rows, escape_line(f"{where}: {query}"))], form)
    print_line("")


def print_image_neighbours(
    read: "Callable[[str], Iterator[Part[Path]]]",
    queries: str,
    file: str,
    top: int,
    form: TableFormat,
) -> None:
    """Print the neighbours in ``file`` of each image of ``queries``.

    Only vectors of a batch are in memory at once, beside the vectors of the queries.
    """
    import numpy as np

    from regard.inside.neighbours import nearest

    query_parts = [*read(queries)]
    paths = [path for paths, _ in query_parts for path in paths]
    if not paths:
        raise BadInput(f"{queries}: has no images")
    vectors_BD = np.concatenate([vectors_ND for _, vectors_ND in query_parts])
    for path, matches in zip(paths, nearest(paths, vectors_BD, read(file), top), strict=True):
        if form == "json":
            images = [
                {"image": str(near.item), "cosine": round(near.cosine, 6)} for near in matches
            ]
            print_json({"image": str(path), "neighbours": images})
        else:
            rows = [(near.cosine, escape_line(str(near.item))) for near in matches]
            columns = [number_column("cosine", ".3f"), text_column("image")]
            print_tables([OutputTable(columns, rows, escape_line(str(path)))], form)
            print_line("")


def _image_vectors(
    model: "Model", pool: str | None, workers: int | None, skip_bad: bool, file: str
) -> "Iterator[Part[Path]]":
    """Images of a file or folder with their vectors; the error of a skipped image is printed."""
    from regard.cli.io.image_io import lines_or_images

    parse = unless_empty(lambda line, where: Path(line))
    source = lines_or_images(model, file, parse, workers=workers, skip_bad=skip_bad)
    for window in read_windows(source):
        for error in filter(None, (line.error for line in window)):
            note(error)
        lines = [line for line in window if line.value is not None]
        vectors_ND = model.embed([line.value for line in lines], pool, True, as_numpy=True)
        yield [Path(line.text) for line in lines], vectors_ND
