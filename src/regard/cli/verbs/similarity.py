"""``regard similarity``: word vectors on tests of similarity and of analogies."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.io.console import note, print_json, print_table
from regard.cli.options import JSON
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.data.files.static_vectors import StaticVectors


def similarity(
    vectors: Annotated[
        str,
        typer.Argument(
            metavar="VECTORS", help="A file of word vectors, or a model: its embedding layer."
        ),
    ],
    tests: Annotated[
        list[str],
        typer.Argument(metavar="TEST", help="Pairs of words with their similarity, or analogies."),
    ],
    words: Annotated[
        int | None,
        typer.Option(min=1, help="Use the first words of a file only.", show_default="all"),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Score word vectors on word similarity and analogies.

    A test of similarity (WordSim-353, SimLex-999) has two words and a number in each line; the
    score is Spearman's rank correlation with the cosines, in percent. Analogies stand in sections
    that begin with ": name"; a line "a b c d" counts as right if d is nearest to b - a + c of all
    other words of the file of vectors (3CosAdd). Pairs and questions with unknown words are left
    out, and counted. Words are looked up as written, then in lower case.

    Of a model, a word is the mean of its token vectors, and answers are chosen from the words of
    the tests.

    Example: regard similarity glove.6B.50d.txt.gz simlex-999.txt questions-words.txt
    """
    from regard.inside.word_similarity import read_word_test

    read = [read_word_test(path) for path in tests]
    known = _vectors(vectors, {word for test in read for word in test.words}, words)
    note(f"{vectors}: {len(known):,} words, {known.width} numbers each")
    scores = [score for test in read for score in test.scores(known)]
    if as_json:
        for score in scores:
            print_json({**asdict(score), "words": len(known)})
        return
    print_table(
        ("test", "metric", "score", "known", "of"),
        [
            (
                one.test,
                one.metric,
                "" if one.score is None else f"{one.score:.2f}",
                f"{one.known:,}",
                f"{one.total:,}",
            )
            for one in scores
        ],
        left=(0, 1),
    )


def _vectors(source: str, words: set[str], most: int | None) -> "StaticVectors":
    """The vectors of a file, or of a model's embedding layer for the words of the tests."""
    from regard.api import load
    from regard.data.files.static_vectors import StaticVectors
    from regard.inside.neighbours import word_vectors

    if Path(source).is_file():
        return StaticVectors.read(source, most)
    if most is not None:
        raise BadInput("--words: a model has the words of the tests; only a file has an order")
    model = load(source, "cpu")
    return word_vectors(model.module, model.tokenizer, sorted(words))
