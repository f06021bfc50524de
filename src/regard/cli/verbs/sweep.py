"""``regard sweep``: BLEU of stored n-best lists by length rule and coverage weight."""

from math import floor
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from regard.cli import options
from regard.cli.io.console import note, print_json, print_line, write_page
from regard.cli.io.table_formats import (
    OutputTable,
    choose_format,
    number_column,
    print_tables,
    text_column,
)
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.ground.errors import BadInput

if TYPE_CHECKING:
    from regard.api import Model
    from regard.search.sweep import Outcome

MOST = 10_000
DEFAULT_COVERAGE = "0:1:0.1"


def sweep(
    nbest: Annotated[
        str, Argument(metavar="NBEST", help="Output of regard translate --best n --json.")
    ],
    references: Annotated[
        list[str], Argument(metavar="REF", help="Reference files, one line per list.")
    ],
    alpha: Annotated[
        str, Option(help="Exponents of gnmt and power: from:to:step, or a,b,c.")
    ] = "0:2:0.1",
    coverage: Annotated[
        str | None,
        Option(help=f"Weights of the coverage penalty; default: {DEFAULT_COVERAGE} if stored."),
    ] = None,
    top: Annotated[int, Option(min=0, help="Number of settings printed; 0: all.")] = 10,
    out: options.OUT_FILE = None,
    save: Annotated[
        str | None,
        Option(metavar="MODEL", help="Store the best length rule in this model's folder."),
    ] = None,
    with_interval: options.INTERVAL = False,
    tokenize: options.TOKENIZE = "13a",
    lowercase: options.LOWERCASE = False,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
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
    from regard.metrics.bleu import bleu_metric
    from regard.metrics.translation import check_parallel
    from regard.search.nbest import read_nbest
    from regard.search.sweep import Sweep, settings

    form = choose_format(table_format, as_json)
    if [nbest, *references].count(STDIN) > 1:
        raise BadInput("-: standard input can only be read once; name files instead")
    alphas = _grid("--alpha", alpha)
    model = None if save is None else _load_to_save(save)
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
    outcomes = swept.tried(settings(alphas, coverages))
    shown = [*outcomes[: top or None], swept.as_stored(), swept.oracle()]
    if with_interval:
        shown = [*map(swept.with_interval, shown)]
    write_page(out, lambda: "".join(f"{stored.texts[i]}\n" for i in outcomes[0].chosen))
    if model is not None and save is not None:
        _save_rule(model, save, outcomes)
    if form == "json":
        print_json(*map(_record, shown))
    elif form == "text":
        _print(shown)
    else:
        print_tables([_table(shown)], form)
    note(f"{len(outcomes)} settings, {len(stored.texts)} hypotheses of {len(lists)} sentences")


def _load_to_save(folder: str) -> "Model":
    """Load a model whose default length rule can be changed."""
    from regard.api import load

    model = load(folder, "cpu")
    if model.translator.generation_config is not None:
        raise BadInput(f"--save {folder}: generation_config.json sets the search of this model")
    return model


def _save_rule(model: "Model", folder: str, outcomes: "list[Outcome]") -> None:
    """Make the best rule without a coverage penalty the model's default; its beam size stays."""
    from regard.inference.generation_settings import DecodeConfig
    from regard.search.beam import Beam

    settings = (outcome.setting for outcome in outcomes)
    best = next((setting for setting in settings if setting and not setting.coverage), None)
    if best is None:
        raise BadInput("--save: no setting without a coverage penalty was tried (--coverage 0)")
    beam = Beam(model.translator.beam.size, length=best.length, alpha=best.alpha)
    model.notes["decode"] = DecodeConfig.of(beam).model_dump()
    model.save(folder)
    note(f"saved with {folder}: {beam.formula}")


def _grid(option: str, text: str) -> list[float]:
    """The numbers in ``from:to:step``, both ends included, or in ``a,b,c``."""
    try:
        numbers = [float(number) for number in text.replace(":", ",").split(",")]
        if ":" not in text:
            values = numbers
        else:
            start, end, step = numbers
            count = floor((end - start) / step + 1e-6) + 1
            values = [round(start + i * step, 10) for i in range(min(count, MOST + 1))]
    except (ValueError, ZeroDivisionError, OverflowError):
        raise BadInput(f"{option} {text}: give from:to:step or a,b,c") from None
    if not 0 < len(values) <= MOST or not all(abs(value) < 1e6 for value in values):
        raise BadInput(f"{option} {text}: needs 1 to {MOST} numbers, each below a million")
    return values


def _record(outcome: "Outcome") -> dict[str, object]:
    score = outcome.score
    return {
        "choice": outcome.name,
        **(vars(outcome.setting) if outcome.setting else {}),
        score.name: score.value,
        "signature": score.signature,
        **({"interval": score.interval} if score.interval else {}),
        "brevity_penalty": outcome.brevity,
        "mean_n": outcome.mean_n,
    }


def _table(outcomes: "list[Outcome]") -> OutputTable:
    with_intervals = any(outcome.score.interval for outcome in outcomes)
    bounds = [number_column("low", ".2f"), number_column("high", ".2f")] if with_intervals else []
    columns = [number_column("BLEU", ".2f"), *bounds, number_column("brevity", ".3f")]
    columns += [number_column("mean n", ".2f"), text_column("score")]
    rows = [
        [it.score.value, *(it.score.interval or ()), it.brevity, it.mean_n, it.name]
        for it in outcomes
    ]
    return OutputTable(columns, rows, notes=[outcomes[0].score.signature])


def _print(outcomes: "list[Outcome]") -> None:
    """Print a line for each outcome, and their common signature."""
    values = []
    for score in (outcome.score for outcome in outcomes):
        around = score.interval
        interval = f" [{around.low:.2f}, {around.high:.2f}]" if around else ""
        values.append(f"{score.value:.2f}{interval}")
    width = max(map(len, values))
    print_line(f"{'BLEU':<{width}}  brevity  mean n  score")
    for value, outcome in zip(values, outcomes, strict=True):
        figures = f"{outcome.brevity:7.3f}  {outcome.mean_n:6.2f}"
        print_line(f"{value:<{width}}  {figures}  {outcome.name}")
    print_line(outcomes[0].score.signature)
