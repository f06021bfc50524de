"""``regard neighbours``: words nearest to a word, in context and static; images to an image."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from regard.cli.io.console import note, print_json, print_line, print_table
from regard.cli.io.image_io import source_for
from regard.cli.io.line_io import (
    Parse,
    check_argument,
    plain_text,
    read_windows,
    unless_empty,
    with_max_length,
    without_cuts,
)
from regard.cli.options import (
    BATCH_SIZE,
    DEVICE,
    FILE,
    JSON,
    LAYER,
    MAX_LENGTH,
    MODEL,
    POOL,
    SKIP_BAD,
    STORED_PRECISION,
    WORKERS,
    options_given,
)
from regard.data.files.text_files import STDIN, name_of, read_lines
from regard.ground.errors import BadInput
from regard.inside.views.markup import escape_line

if TYPE_CHECKING:
    from regard.api import Model
    from regard.data.files.static_vectors import StaticVectors
    from regard.inside.neighbours import LineOfText, Neighbour, Part, WordInContext

LAST = -1  # layer
TEXT = "--text"
OF_WORDS = {"texts": TEXT, "max_length": "--max-length"} | {
    name: f"--{name}" for name in ("vectors", "occurrences", "layer")
}
OF_IMAGES = {"pool": "--pool", "workers": "--workers", "skip_bad": "--skip-bad"}
NOTHING = ("", "", "")  # where one kind has fewer neighbours
COLUMNS = ("static", "cosine", "in context", "cosine", "")


def neighbours(
    context: typer.Context,
    model: MODEL,
    word: Annotated[
        str, typer.Argument(metavar="WORD", help="A word, as in the texts; or an image.")
    ],
    file: FILE = "-",
    texts: Annotated[
        list[str] | None,
        typer.Option(
            TEXT, metavar="TEXT", help="A text with the word, instead of those in FILE; repeatable."
        ),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Word vectors: GloVe, word2vec.",
            show_default="the model's embedding layer, over the words of FILE",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Neighbours shown.")] = 5,
    occurrences: Annotated[
        int, typer.Option(min=1, help="Occurrences of the word that are shown.")
    ] = 5,
    layer: LAYER = None,
    pool: POOL = None,
    max_length: MAX_LENGTH = None,
    workers: WORKERS = None,
    skip_bad: SKIP_BAD = False,
    batch_size: BATCH_SIZE = None,
    precision: STORED_PRECISION = None,
    device: DEVICE = None,
    as_json: JSON = False,
) -> None:
    """Print the words nearest to a word, or images to an image.

    Each occurrence of WORD has a table of its own. On the left are the words nearest to its static
    vector, the same in every text; on the right those words of FILE, in their texts, whose states
    in the model are nearest; without FILE and input, those of all TEXTs. --layer 0 is the
    embedding, n the states after block n; the last one is the default.

    Of a model of images, WORD is an image or a folder of them, and FILE the images among which the
    nearest are looked for: a folder, or a file with a path on each line. They are compared by the
    vectors of regard embed.

    Example: regard neighbours runs/bert/model bank text.en --vectors glove.6B.50d.txt.gz
    """
    from regard.api import load
    from regard.inside import neighbours as inside
    from regard.inside.neighbours import ContextualWords, LineOfText, static_neighbours
    from regard.text.tokenizers.ids_only import require_tokenizer

    check_argument(word)
    loaded = load(model, device, precision=precision, batch_size=batch_size)
    if loaded.facts.encoder.embed.reads_images:
        _refuse(context, OF_WORDS, "words")
        options = {"workers": workers, "skip_bad": skip_bad}
        print_image_neighbours(loaded, word, file, top=top, pool=pool, as_json=as_json, **options)
        return
    _refuse(context, OF_IMAGES, "images")
    tokenizer = require_tokenizer(loaded.tokenizer)
    parse, name = _parser(loaded, max_length), name_of(file)
    numbered = ((number, line) for number, line in enumerate(read_lines(file), 1) if line.strip())
    lines = [LineOfText(number, parse(line, f"{name}:{number}")) for number, line in numbered]
    given = [LineOfText(0, parse(text, TEXT)) for text in texts or ()] or lines
    if not lines and file != STDIN:
        raise BadInput(f"{name}: has no text")
    lines = lines or given
    facts, chosen = loaded.facts, LAST if layer is None else layer
    path = facts.encoder.state_path(facts.encoder_path, chosen)
    reader = ContextualWords(loaded.runner, tokenizer, path)
    matches = list(reader.find(word, given, occurrences))
    if not matches:
        raise BadInput(f"{TEXT if texts else name}: the word {word!r} does not occur")
    queries = [query for query, _ in matches]
    vectors_BD = np.stack([vector for _, vector in matches])
    nearest = inside.nearest(queries, vectors_BD, reader.read(lines), top)
    static = static_neighbours(_static(loaded, vectors, word, lines), word, top)
    if not static:
        note(f"{word}: has no static vector")
    for query, of_query in zip(queries, nearest, strict=True):
        if as_json:
            print_json(_record(query, static, of_query))
        else:
            _print_query(query, static, of_query, name)


def _refuse(context: typer.Context, names: Mapping[str, str], of: str) -> None:
    """Refuse options that the model has no use for."""
    for name in options_given(context, names):
        raise BadInput(f"{names[name]}: is for models that read {of}")


def _parser(model: "Model", max_length: int | None) -> Parse:
    """Lines that are too long are refused: of a text that is cut, words would have no states."""
    runner = model.runner
    parse = with_max_length(plain_text, runner.token_count, max_length, runner.truncation)
    return without_cuts(parse, runner.token_count, runner.truncation)


def _static(
    model: "Model", vectors: Path | None, word: str, lines: "Sequence[LineOfText]"
) -> "StaticVectors":
    """The vectors of a file, or of the embedding layer for the words of all lines."""
    from regard.data.files.static_vectors import StaticVectors
    from regard.inside.neighbours import word_vectors
    from regard.text.words import words

    if vectors is not None:
        return StaticVectors.read(vectors)
    known = (one for line in lines for one in words(line.text) if any(map(str.isalnum, one)))
    return word_vectors(model.module, model.tokenizer, [word, *known])


def _record(
    query: "WordInContext", static: Sequence[tuple[str, float]], nearest: "Sequence[Neighbour]"
) -> dict[str, object]:
    return {
        **_place(query),
        "static": [{"word": word, "cosine": round(cosine, 6)} for word, cosine in static],
        "contextual": [{**_place(one.item), "cosine": round(one.cosine, 6)} for one in nearest],
    }


def _place(one: "WordInContext") -> dict[str, object]:
    return {"word": one.word, "line": one.line or None, "place": one.place, "words": one.words}


def _print_query(
    query: "WordInContext",
    static: Sequence[tuple[str, float]],
    nearest: "Sequence[Neighbour]",
    name: str,
) -> None:
    """A line for the query, and a table of both kinds of neighbours."""
    where = f"{name}:{query.line}" if query.line else TEXT
    print_line(escape_line(f"{where}: {query}"))
    left = [(word, f"{cosine:.3f}") for word, cosine in static]
    right = [
        (one.item.word, f"{one.cosine:.3f}", f"{one.item.line or TEXT}: {one.item}")
        for one in nearest
    ]
    rows = [
        (*(first or NOTHING[:2]), *(second or NOTHING))
        for first, second in zip_longest(left, right)
    ]
    print_table(COLUMNS, [[*map(escape_line, row)] for row in rows], left=(0, 2, 4))
    print_line("")


def print_image_neighbours(
    model: "Model",
    queries: str,
    file: str,
    *,
    top: int,
    pool: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """A table, or a record, for each image of ``queries``, with its neighbours in FILE.

    Only vectors of a batch are in memory at once, beside those of the queries.
    """
    import numpy as np

    from regard.inside.neighbours import nearest

    query_parts = [*_parts(model, queries, pool, options)]
    paths = [path for some, _ in query_parts for path in some]
    if not paths:
        raise BadInput(f"{queries}: no images")
    vectors_BD = np.concatenate([vectors_ND for _, vectors_ND in query_parts])
    matches = nearest(paths, vectors_BD, _parts(model, file, pool, options), top)
    for path, near in zip(paths, matches, strict=True):
        if as_json:
            images = [{"image": str(one.item), "cosine": round(one.cosine, 6)} for one in near]
            print_json({"image": str(path), "neighbours": images})
        else:
            print_line(escape_line(str(path)))
            rows = [(f"{one.cosine:.3f}", escape_line(str(one.item))) for one in near]
            print_table(("cosine", "image"), rows, left=(1,))
            print_line("")


def _parts(model: "Model", file: str, pool: str | None, options: Any) -> "Iterator[Part]":
    """The images of a file or folder with their vectors; a bad one that is skipped is named."""
    parse = unless_empty(lambda line, where: Path(line))
    for window in read_windows(source_for(model, file, parse, **options)):
        for line in window:
            if line.error is not None:
                note(line.error)
        read = [line for line in window if line.value is not None]
        vectors_ND = model.embed([line.value for line in read], pool, True, as_numpy=True)
        yield [Path(line.text) for line in read], vectors_ND
