"""``regard sweep``: BLEU of stored n-best lists by length rule and coverage weight."""

from typing import Annotated

from typer import Argument

from regard.cli import formats
from regard.cli.io.console import note, write_page
from regard.experiments import options
from regard.experiments.options.measuring import SweepOptions


def sweep(
    nbest: Annotated[
        str, Argument(metavar="NBEST", help="Output of regard translate --best n --json.")
    ],
    references: Annotated[
        list[str], Argument(metavar="REF", help="Reference files, one line per list.")
    ],
    how: SweepOptions,
    out: options.OUT_FILE = None,
    *,
    output: formats.TableOptions,
) -> None:
    """Re-rank n-best lists by every length rule and coverage weight.

    One search serves all settings: regard translate --best 10 --coverage 0 --json writes NBEST. The
    table lists the best settings by BLEU, then the stored order, and the oracle: about the highest
    BLEU that any ranking of these lists could reach. brevity is BLEU's brevity penalty, mean n the
    mean number of tokens of a translation, EOS included. --out writes the translations that the
    best setting selects.

    Choose a setting on a dev set: on the sentences on which it was chosen, its BLEU is too high.
    With --save, the best length rule without a coverage penalty becomes the model's default.

    Example: regard sweep nbest.jsonl test.de --alpha 0:1.5:0.25 --out best.de
    """
    from regard.experiments.ranking_rules import sweep_rules

    swept = sweep_rules(nbest, references, how)
    write_page(out, swept.selected)
    saved = swept.save()
    if saved:
        note(saved)
    output.show(swept)
    note(swept.summary)
