"""``regard similarity``: word vectors, tested on word similarity and analogies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import note, print_json, print_tables
from regard.cli.io.files import refuse_images
from regard.core.errors import BadInput
from regard.experiments.result import OutputTable, number_column, text_column

if TYPE_CHECKING:
    from regard.data.readers.static_vectors import StaticVectors


def similarity(
    vectors: Annotated[
        str,
        Argument(metavar="VECTORS", help="File of word vectors, or a model (its embedding layer)."),
    ],
    tests: Annotated[
        list[str],
        Argument(metavar="TEST", help="File of word pairs with similarities, or of analogies."),
    ],
    words: Annotated[
        int | None, Option(min=1, help="Number of words read from VECTORS; default: all.")
    ] = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Score word vectors on word similarity and analogies.

    A test of similarity (WordSim-353, SimLex-999) has two words and a number in each line; the
    score is Spearman's rank correlation with the cosines, in percent. A test of analogies has
    sections that begin with ": name"; a line "a b c d" is right if d is nearest to b - a + c among
    all other words of the vectors (3CosAdd). Pairs and questions with unknown words are skipped,
    and counted. Words are looked up as written, then in lower case.

    The vector of a word in a model is the mean of its token vectors; answers are chosen among the
    words of the tests.

    Example: regard similarity glove.6B.50d.txt.gz simlex-999.txt questions-words.txt
    """
    from regard.inside.word_similarity import read_word_test

    form = output.format
    read = [read_word_test(path) for path in tests]
    known = _vectors(vectors, {word for test in read for word in test.words}, words)
    note(f"{vectors}: {len(known):,} words, {known.width} numbers each")
    scores = [score for test in read for score in test.scores(known)]
    if form == "json":
        print_json(*({**asdict(score), "words": len(known)} for score in scores))
        return
    rows = [(score.test, score.metric, score.score, score.known, score.total) for score in scores]
    columns = [text_column("test"), text_column("metric"), number_column("score", ".2f")]
    columns += [number_column("known", ","), number_column("of", ",")]
    print_tables([OutputTable(columns, rows)], form)


def _vectors(source: str, words: set[str], most: int | None) -> "StaticVectors":
    """Vectors of a file, or of a model's embedding layer for the words of the tests."""
    from regard.api import load
    from regard.data.readers.static_vectors import StaticVectors
    from regard.inside.neighbours import word_vectors

    if Path(source).is_file():
        return StaticVectors.read(source, most)
    if most is not None:
        raise BadInput(
            "--words: needs a file of vectors; of a model, the words of the tests are used"
        )
    model = load(source, "cpu")
    refuse_images(model, source)
    return word_vectors(model.module, model.tokenizer, sorted(words))
