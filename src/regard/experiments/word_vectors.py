"""Word vectors scored on similarity and analogies, and steering vectors of two sets of texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from regard.api import Model
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.data.readers.static_vectors import StaticVectors
from regard.data.readers.text_files import name_of, read_lines
from regard.experiments.bulk.line_source import Parse, parser_of
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.options import LoadOptions
from regard.experiments.result import ExperimentResult, OutputTable, number_column, text_column
from regard.inside.neighbours import word_vectors
from regard.inside.steering import steering_vector
from regard.inside.word_similarity import WordScore, read_word_test
from regard.weights.files import write_tensors


@dataclass(frozen=True)
class WordScores(ExperimentResult):
    """Scores of word vectors on tests, and the number of the words that have vectors."""

    scores: Sequence[WordScore]
    words: int

    def tables(self) -> list[OutputTable]:
        columns = [text_column("test"), text_column("metric"), number_column("score", ".2f")]
        columns += [number_column("known", ","), number_column("of", ",")]
        return [OutputTable(columns, [[*vars(score).values()] for score in self.scores])]

    def records(self) -> Iterator[Mapping[str, object]]:
        return ({**asdict(score), "words": self.words} for score in self.scores)


def similarity(
    vectors: str, tests: Sequence[str], words: int | None = None, *, on_event: Listener = ignore
) -> WordScores:
    """Score the vectors of a file, or of the embedding layer of a model, on files of tests.

    ``words`` is the number of words that are read of a file.
    """
    read = [read_word_test(path) for path in tests]
    known = _vectors(vectors, {word for test in read for word in test.words}, words)
    on_event(Note(f"{vectors}: {len(known):,} words, {known.width} numbers each"))
    return WordScores([score for test in read for score in test.scores(known)], len(known))


def _vectors(source: str, words: set[str], most: int | None) -> StaticVectors:
    """Vectors of a file, or of a model's embedding layer for the words of the tests."""
    if Path(source).is_file():
        return StaticVectors.read(source, most)
    if most is not None:
        fault = "needs a file of vectors; of a model, the words of the tests are used"
        raise BadArgument(fault, key="words")
    model = LoadOptions(device="cpu").load_for_texts(source)
    return word_vectors(model.module, model.tokenizer, sorted(words))


@dataclass(frozen=True)
class SteeringEdit(ExperimentResult):
    """The edit that adds a steering vector to a model, as a table of a file of edits."""

    edit: Mapping[str, str | float]
    values: Tensor

    def tables(self) -> list[OutputTable]:
        return [OutputTable([*map(text_column, self.edit)], [[*self.edit.values()]])]

    def text(self, width: int | None = None) -> Iterator[str]:
        yield "[[edit]]"
        for key, value in self.edit.items():
            yield f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"


def steer(
    model: str | Path | Model,
    plus: str,
    minus: str,
    out: Path,
    *,
    layer: int | None = None,
    name: str = "steer",
    scale: float = 1.0,
    max_length: int | None = None,
    runs: LoadOptions,
    on_event: Listener = ignore,
) -> SteeringEdit:
    """Write the vector from the mean state of the lines of one file to that of another file."""
    if ":" in name or not name.isprintable() or '"' in name or "\\" in name:
        fault = f" {name!r}: a name has no colon, quote, backslash or line break"
        raise BadInput((ArgumentName("name"), fault))
    loaded = runs.load(model)
    parse = parser_of(loaded.runner.embedder(), max_length)
    towards, away = _texts(plus, "plus", parse), _texts(minus, "minus", parse)
    vector = steering_vector(loaded, towards, away, layer)
    write_tensors(out, {name: vector.values})
    on_event(Note(f"wrote {out}: {name}, norm {float(vector.values.norm()):.4g}"))
    named = {"kind": "add", "at": vector.at, "vector": f"{out.name}:{name}"}
    return SteeringEdit({**named, "scale": scale}, vector.values)


def _texts(file: str, argument: str, parse: Parse) -> list[object]:
    """The texts of a file, one per line; empty lines are left out."""
    name = name_of(file)
    inputs = [parse(line, f"{name}:{number}") for number, line in enumerate(read_lines(file), 1)]
    texts = [text for text in inputs if text is not None]
    if not texts:
        raise BadInput((ArgumentName(argument), f" {name}: no texts; write one on each line"))
    return texts
