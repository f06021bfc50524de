"""Words nearest to a word, in a vocabulary and in texts; images nearest to images."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from regard.api import Model
from regard.core.errors import BadInput
from regard.data.readers.static_vectors import StaticVectors
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.experiments.bulk.image_source import lines_or_images
from regard.experiments.bulk.line_source import (
    MAX_TOKENS,
    plain_text,
    read_windows,
    unless_empty,
    with_limit,
)
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options.measuring import NeighbourOptions
from regard.experiments.result import ExperimentResult, OutputTable, number_column, text_column
from regard.inside.neighbours import (
    ContextualWords,
    LineOfText,
    Neighbour,
    Part,
    WordInContext,
    nearest,
    static_neighbours,
    word_vectors,
)
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.words import words
from regard.views.markup import escape_line

LAST = -1  # layer
DEFAULT = NeighbourOptions()
OF_WORDS = ("texts", "max_length", "vectors", "occurrences", "layer")  # options
OF_IMAGES = ("pool", "workers", "skip_bad")
SHORTEN = "shorten the line to what the model reads"  # words beyond have no states
NOTHING = (None, None, None)  # cells where one kind has fewer neighbours
StaticNeighbours = Sequence[tuple[str, float]]  # words with cosines
COLUMNS = (
    text_column("static"),
    number_column("cosine", ".3f"),
    text_column("in context"),
    number_column("cosine", ".3f"),
    text_column(""),
)


@dataclass(frozen=True)
class NearestWords(ExperimentResult):
    """An occurrence of a word in a file, its static neighbours, and those in context."""

    word: WordInContext
    static: StaticNeighbours
    contextual: Sequence[Neighbour[WordInContext]]
    file: str
    origin: str  # of texts without a file

    def tables(self) -> list[OutputTable]:
        where = f"{self.file}:{self.word.line}" if self.word.line else self.origin
        left = [(escape_line(word), cosine) for word, cosine in self.static]
        right = [
            (
                escape_line(near.item.word),
                near.cosine,
                escape_line(f"{near.item.line or self.origin}: {near.item}"),
            )
            for near in self.contextual
        ]
        rows = [
            (*(first or NOTHING[:2]), *(second or NOTHING))
            for first, second in zip_longest(left, right)
        ]
        return [OutputTable(COLUMNS, rows, escape_line(f"{where}: {self.word}"))]

    def records(self) -> Iterator[dict[str, object]]:
        static = [{"word": word, "cosine": round(cosine, 6)} for word, cosine in self.static]
        near = [{**_place(each.item), "cosine": round(each.cosine, 6)} for each in self.contextual]
        yield {**_place(self.word), "static": static, "contextual": near}


def _place(word: WordInContext) -> dict[str, object]:
    return {"word": word.word, "line": word.line or None, "place": word.place, "words": word.words}


@dataclass(frozen=True)
class NearestImages(ExperimentResult):
    """An image, and the images nearest to it."""

    image: Path
    neighbours: Sequence[Neighbour[Path]]

    def tables(self) -> list[OutputTable]:
        rows = [(near.cosine, escape_line(str(near.item))) for near in self.neighbours]
        columns = [number_column("cosine", ".3f"), text_column("image")]
        return [OutputTable(columns, rows, escape_line(str(self.image)))]

    def records(self) -> Iterator[dict[str, object]]:
        images = [
            {"image": str(near.item), "cosine": round(near.cosine, 6)} for near in self.neighbours
        ]
        yield {"image": str(self.image), "neighbours": images}


def nearest_items(
    model: Model,
    word: str,
    file: str = STDIN,
    options: NeighbourOptions = DEFAULT,
    origin: str = "texts",
    on_event: Listener = ignore,
) -> Sequence[NearestWords | NearestImages]:
    """The neighbours of a word in the lines of a file, or of images among those of a file.

    ``origin`` names texts that stand in no file.
    """
    if model.facts.encoder.embed.reads_images:
        options.refuse(*OF_WORDS, reason="is for models that read words")
        return _nearest_images(model, word, file, options, on_event)
    options.refuse(*OF_IMAGES, reason="is for models that read images")
    return _nearest_words(model, word, file, options, origin, on_event)


def _nearest_words(
    model: Model, word: str, file: str, options: NeighbourOptions, origin: str, on_event: Listener
) -> list[NearestWords]:
    tokenizer, runner, name = require_tokenizer(model.tokenizer), model.runner, name_of(file)
    most = options.max_length or (None if runner.truncation else MAX_TOKENS)
    parse = with_limit(plain_text, runner.token_count, most)
    parse = with_limit(parse, runner.token_count, runner.truncation, SHORTEN)
    numbered = ((number, line) for number, line in enumerate(read_lines(file), 1) if line.strip())
    lines = [LineOfText(number, parse(line, f"{name}:{number}")) for number, line in numbered]
    examples = [LineOfText(0, parse(text, origin)) for text in options.texts or ()] or lines
    if not lines and file != STDIN:
        raise BadInput(f"{name}: has no text")
    lines = lines or examples
    facts, chosen = model.facts, LAST if options.layer is None else options.layer
    path = facts.encoder.state_path(facts.encoder_path, chosen)
    reader = ContextualWords(runner, tokenizer, path)
    matches = list(reader.find(word, examples, options.occurrences))
    if not matches:
        raise BadInput(f"{origin if options.texts else name}: the word {word!r} does not occur")
    queries = [query for query, _ in matches]
    vectors_BD = np.stack([vector for _, vector in matches])
    near = nearest(queries, vectors_BD, reader.read(lines), options.top)
    static = static_neighbours(_static(model, options.vectors, word, lines), word, options.top)
    if not static:
        on_event(Note(f"{word}: has no static vector"))
    return [
        NearestWords(query, static, of_query, name, origin)
        for query, of_query in zip(queries, near, strict=True)
    ]


def _static(
    model: Model, vectors: Path | None, word: str, lines: Sequence[LineOfText]
) -> StaticVectors:
    """Vectors of a file, or of the embedding layer for the words of all lines."""
    if vectors is not None:
        return StaticVectors.read(vectors)
    of_lines = (name for line in lines for name in words(line.text))
    known = (name for name in of_lines if any(map(str.isalnum, name)))
    return word_vectors(model.module, model.tokenizer, [word, *known])


def _nearest_images(
    model: Model, queries: str, file: str, options: NeighbourOptions, on_event: Listener
) -> list[NearestImages]:
    """Only vectors of a batch are in memory at once, beside the vectors of the queries."""

    def read(name: str) -> Iterator[Part[Path]]:
        parse = unless_empty(lambda line, where: Path(line))
        source = lines_or_images(
            model, name, parse, workers=options.workers, skip_bad=options.skip_bad
        )
        for window in read_windows(source):
            for error in filter(None, (line.error for line in window)):
                on_event(Note(error))
            lines = [line for line in window if line.value is not None]
            vectors_ND = model.embed(
                [line.value for line in lines], options.pool, True, as_numpy=True
            )
            yield [Path(line.text) for line in lines], vectors_ND

    query_parts = [*read(queries)]
    paths = [path for of_part, _ in query_parts for path in of_part]
    if not paths:
        raise BadInput(f"{queries}: has no images")
    vectors_BD = np.concatenate([vectors_ND for _, vectors_ND in query_parts])
    near = nearest(paths, vectors_BD, read(file), options.top)
    return [NearestImages(path, matches) for path, matches in zip(paths, near, strict=True)]
