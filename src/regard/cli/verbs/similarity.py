"""``regard similarity``: word vectors, tested on word similarity and analogies."""

from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.cli.io.console import show_event


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
    from regard.experiments import word_vectors

    output.show(word_vectors.similarity(vectors, tests, words, on_event=show_event))
