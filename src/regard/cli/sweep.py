"""``regard sweep``: which length rule and coverage weight would have translated best."""

from math import floor
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.api import Model, load
from regard.cli.console import JSON, note, print_json, print_line
from regard.data.sources import STDIN, name_of, read_lines
from regard.ground.errors import BadInput
from regard.ground.files import write_text
from regard.metrics.bleu import bleu_metric
from regard.metrics.translation import check_parallel
from regard.search.beam import Beam
from regard.search.nbest import read_nbest
from regard.search.sweep import Outcome, Sweep, settings
from regard.tasks.published import decode_table

MOST = 10_000
DEFAULT_COVERAGE = "0:1:0.1"


def sweep(
    nbest: Annotated[
        str,
        typer.Argument(metavar="NBEST", help="What regard translate --best n --json printed."),
    ],
    references: Annotated[
        list[str], typer.Argument(metavar="REF", help="References, a line for each list.")
    ],
    alpha: Annotated[
        str, typer.Option(help="Exponents for gnmt and power: from:to:step, or a,b,c.")
    ] = "0:2:0.1",
    coverage: Annotated[
        str | None,
        typer.Option(
            help=f"Weights of the coverage penalty; by default {DEFAULT_COVERAGE} if it was stored."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Settings printed; 0 is all.")] = 10,
    write: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what the best setting chooses.")
    ] = None,
    save: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Keep the best length rule with this model."),
    ] = None,
    with_interval: Annotated[
        bool, typer.Option("--interval", help="Add 95% intervals (1000 bootstrap samples, seeded).")
    ] = False,
    tokenize: Annotated[
        str, typer.Option(help="Tokeniser of sacreBLEU: 13a, none, intl, char, zh, ...")
    ] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case.")] = False,
    as_json: JSON = False,
) -> None:
    """Rank stored translations again by every length rule and coverage weight; print their BLEU.

    One search serves all: regard translate --best 10 --coverage 0 --json stores what is needed.
    The table has the best first, then what was first in the lists, and the oracle: the most that
    any ranking of these lists could reach, nearly. brevity is BLEU's penalty, mean n the tokens of
    a translation, its end included.

    A setting chosen on the sentences it is measured on looks better than it is: choose on others.
    With --save, the best length rule without a coverage penalty becomes the model's own, by which
    it searches unless told otherwise; so a rule chosen on the development set is kept.

    Example: regard sweep nbest.jsonl test.de --alpha 0:1.5:0.25 --write best.de
    """
    if [nbest, *references].count(STDIN) > 1:
        raise BadInput("standard input can only be read once")
    alphas = _grid("--alpha", alpha)
    model = None if save is None else _to_keep(save)
    stored = read_nbest(nbest)
    streams = [list(read_lines(path)) for path in references]
    lists = [stored.texts[i] for i in stored.first]
    check_parallel(lists, streams, names=[name_of(path) for path in (nbest, *references)])
    if coverage is None:
        coverage = "0" if stored.coverage is None else DEFAULT_COVERAGE
    coverages = _grid("--coverage", coverage)
    if min(coverages) < 0 or (stored.coverage is None and any(coverages)):
        wrong = "must not be below 0" if min(coverages) < 0 else "is not stored in these lists"
        raise BadInput(f"--coverage {coverage}: {wrong}")

    swept = Sweep.of(stored, streams, bleu_metric(tokenize, lowercase))
    tried = swept.tried(settings(alphas, coverages))
    shown = [*tried[: top or None], swept.as_stored(), swept.oracle()]
    if with_interval:
        shown = [swept.with_interval(one) for one in shown]
    if write is not None:
        lines = [stored.texts[i] for i in tried[0].chosen]
        write_text(Path(write), "".join(line + "\n" for line in lines))
    if model is not None and save is not None:
        _keep(model, save, tried)
    if as_json:
        for one in shown:
            print_json(_record(one))
    else:
        _print(shown)
    note(f"{len(tried)} settings, {len(stored.texts)} hypotheses of {len(lists)} sentences")


def _to_keep(folder: str) -> Model:
    """A model that can keep a length rule."""
    model = load(folder, "cpu")
    if model.translator.generation is not None:
        raise BadInput(f"--save {folder}: a published folder is searched by its own settings")
    return model


def _keep(model: Model, folder: str, tried: list[Outcome]) -> None:
    """Make the best rule that has no coverage penalty the model's own; its beam stays."""
    rules = (one.setting for one in tried if one.setting and not one.setting.coverage)
    best = next(rules, None)
    if best is None:
        raise BadInput("--save: no setting without a coverage penalty was tried (--coverage 0)")
    beam = Beam(model.translator.beam.size, length=best.length, alpha=best.alpha)
    model.notes["decode"] = decode_table(beam)
    model.save(folder)
    note(f"kept with {folder}: {beam.formula}")


def _grid(option: str, text: str) -> list[float]:
    """``from:to:step``, both ends included, or numbers with commas between them."""
    try:
        numbers = [float(one) for one in text.replace(":", ",").split(",")]
        if ":" not in text:
            values = numbers
        else:
            start, end, step = numbers
            count = floor((end - start) / step + 1e-6) + 1
            values = [round(start + i * step, 10) for i in range(min(count, MOST + 1))]
    except (ValueError, ZeroDivisionError, OverflowError):
        raise BadInput(f"{option} {text}: neither from:to:step nor numbers a,b,c") from None
    if not 0 < len(values) <= MOST or not all(abs(one) < 1e6 for one in values):
        raise BadInput(f"{option} {text}: from 1 to {MOST} numbers of ordinary size are needed")
    return values


def _record(one: Outcome) -> dict[str, Any]:
    score = one.score
    record: dict[str, Any] = {"choice": one.name}
    record |= vars(one.setting) if one.setting else {}
    record |= {score.name: score.value, "signature": score.signature}
    record |= {"interval": score.interval} if score.interval else {}
    return record | {"brevity_penalty": one.brevity, "mean_n": one.mean_n}


def _print(outcomes: list[Outcome]) -> None:
    """A line for each outcome, the signature they share below."""
    around = [one.score.interval for one in outcomes]
    values = [f"{one.score.value:.2f}" for one in outcomes]
    values = [
        f"{value} [{at.low:.2f}, {at.high:.2f}]" if at else value
        for value, at in zip(values, around, strict=True)
    ]
    width = max(map(len, values))
    print_line(f"{'BLEU':<{width}}  brevity  mean n  score")
    for value, one in zip(values, outcomes, strict=True):
        print_line(f"{value:<{width}}  {one.brevity:7.3f}  {one.mean_n:6.2f}  {one.name}")
    print_line(outcomes[0].score.signature)
