"""``regard bleu``: scores of translations, and the n-gram tables behind BLEU."""

from typing import Annotated

from typer import Argument, Option

from regard.cli import formats
from regard.experiments.options.measuring import BleuOptions
from regard.experiments.result import ExperimentResult


def bleu(
    hypotheses: Annotated[
        str, Argument(metavar="HYP", help="Translations, one per line; - is standard input.")
    ],
    references: Annotated[
        list[str], Argument(metavar="REF", help="Reference files with as many lines as HYP.")
    ],
    shared: Annotated[
        list[str] | None,
        Option(
            "--refs", metavar="REF", help="Reference to compare several systems with; repeatable."
        ),
    ] = None,
    *,
    how: BleuOptions,
    output: formats.TableOptions,
) -> None:
    """Score translations against references: BLEU, chrF and TER.

    Files are plain text, .gz or .xz, one segment per line. The signature after a score names the
    number of references, case, tokenizer, smoothing and the version of sacreBLEU.

    With --refs REF, two or more systems are compared, each with its interval. The first is the
    baseline; each other system has the difference from it, with a two-sided p-value (paired
    bootstrap, 1000 samples; none below 50 segments).

    Example: regard bleu baseline.de out.de --refs test.de

    Example: regard bleu out.de test.de --explain
    """
    from regard.experiments.translation_scores import compare_systems, score_texts

    if shared:
        result: ExperimentResult = compare_systems([hypotheses, *references], shared, how)
    else:
        result = score_texts(hypotheses, references, how)
    output.show(result)
