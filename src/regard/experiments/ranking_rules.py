"""N-best lists, ranked again by every length rule and coverage weight."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor

from regard.api import Model, load
from regard.core.errors import ArgumentName, BadArgument, BadInput
from regard.data.readers.text_files import STDIN, name_of, read_lines
from regard.experiments.options.measuring import DEFAULT_COVERAGE, SweepOptions
from regard.experiments.result import ExperimentResult, OutputTable, number_column, text_column
from regard.generation.beam import Beam
from regard.generation.nbest import NBestLists, read_nbest
from regard.generation.sweep import Outcome, Sweep, settings
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.translation import bleu_metric, check_parallel

MOST = 10_000
DEFAULT = SweepOptions()


@dataclass(frozen=True)
class RankingRules(ExperimentResult):
    """BLEU of all settings, the best first; ``shown`` are those that are printed.

    The best rule can be stored in the folder ``place`` of a ``model``.
    """

    outcomes: Sequence[Outcome]
    shown: Sequence[Outcome]
    stored: NBestLists
    model: Model | None = None
    place: str = ""

    @property
    def summary(self) -> str:
        """Numbers of settings, hypotheses and sentences."""
        sizes = f"{len(self.stored.texts)} hypotheses of {len(self.stored.first)} sentences"
        return f"{len(self.outcomes)} settings, {sizes}"

    def selected(self) -> str:
        """The translations that the best setting selects, one on each line."""
        return "".join(f"{self.stored.texts[i]}\n" for i in self.outcomes[0].chosen)

    def save(self) -> str:
        """Make the best rule without a coverage penalty the model's default; its beam size stays.

        Returns a remark; without a model, an empty one.
        """
        if self.model is None:
            return ""
        rules = (outcome.setting for outcome in self.outcomes)
        best = next((setting for setting in rules if setting and not setting.coverage), None)
        if best is None:
            fault = "no setting without a coverage penalty was tried ("
            raise BadArgument((fault, ArgumentName("coverage"), " 0)"), key="save")
        beam = Beam(self.model.translator.beam.size, length=best.length, alpha=best.alpha)
        self.model.notes["decode"] = DecodeConfig.of(beam).model_dump()
        self.model.save(self.place)
        return f"saved with {self.place}: {beam.formula}"

    def tables(self) -> list[OutputTable]:
        with_bounds = any(outcome.score.interval for outcome in self.shown)
        bounds = [number_column("low", ".2f"), number_column("high", ".2f")] if with_bounds else []
        columns = [number_column("BLEU", ".2f"), *bounds, number_column("brevity", ".3f")]
        columns += [number_column("mean n", ".2f"), text_column("score")]
        rows = [
            [it.score.value, *(it.score.interval or ()), it.brevity, it.mean_n, it.name]
            for it in self.shown
        ]
        return [OutputTable(columns, rows, notes=[self.shown[0].score.signature])]

    def records(self) -> Iterator[dict[str, object]]:
        for outcome in self.shown:
            score = outcome.score
            yield {
                "choice": outcome.name,
                **(vars(outcome.setting) if outcome.setting else {}),
                score.name: score.value,
                "signature": score.signature,
                **({"interval": score.interval} if score.interval else {}),
                "brevity_penalty": outcome.brevity,
                "mean_n": outcome.mean_n,
            }

    def text(self, width: int | None = None) -> Iterator[str]:
        """A line for each outcome, and their common signature."""
        values = []
        for score in (outcome.score for outcome in self.shown):
            around = score.interval
            interval = f" [{around.low:.2f}, {around.high:.2f}]" if around else ""
            values.append(f"{score.value:.2f}{interval}")
        longest = max(map(len, values))
        yield f"{'BLEU':<{longest}}  brevity  mean n  score"
        for value, outcome in zip(values, self.shown, strict=True):
            figures = f"{outcome.brevity:7.3f}  {outcome.mean_n:6.2f}"
            yield f"{value:<{longest}}  {figures}  {outcome.name}"
        yield self.shown[0].score.signature


def sweep_rules(
    nbest: str, references: Sequence[str], options: SweepOptions = DEFAULT
) -> RankingRules:
    """Rank lists again by all length rules and coverage weights of the options."""
    save, coverage = options.save, options.coverage
    if [nbest, *references].count(STDIN) > 1:
        raise BadInput("-: standard input can only be read once; name files instead")
    alphas = _grid("alpha", options.alpha)
    model = None if save is None else _model_to_save(save)
    stored = read_nbest(nbest)
    streams = [list(read_lines(path)) for path in references]
    lists = [stored.texts[i] for i in stored.first]
    check_parallel(lists, streams, names=[name_of(path) for path in (nbest, *references)])
    if coverage is None:
        coverage = "0" if stored.coverage is None else DEFAULT_COVERAGE
    coverages = _grid("coverage", coverage)
    if min(coverages) < 0 or (stored.coverage is None and any(coverages)):
        wrong = "must not be below 0" if min(coverages) < 0 else "is not stored in these lists"
        raise BadInput((ArgumentName("coverage"), f" {coverage}: {wrong}"))
    swept = Sweep.of(stored, streams, bleu_metric(options.tokenize, options.lowercase))
    outcomes = swept.tried(settings(alphas, coverages))
    shown = [*outcomes[: options.top or None], swept.as_stored(), swept.oracle()]
    if options.with_interval:
        shown = [*map(swept.with_interval, shown)]
    return RankingRules(outcomes, shown, stored, model, save or "")


def _model_to_save(folder: str) -> Model:
    """The model in a folder, if its default length rule can be changed."""
    model = load(folder, "cpu")
    if model.translator.generation_config is not None:
        fault = f" {folder}: generation_config.json sets the search of this model"
        raise BadInput((ArgumentName("save"), fault))
    return model


def _grid(name: str, text: str) -> list[float]:
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
        raise BadInput((ArgumentName(name), f" {text}: give from:to:step or a,b,c")) from None
    if not 0 < len(values) <= MOST or not all(abs(value) < 1e6 for value in values):
        fault = f" {text}: needs 1 to {MOST} numbers, each below a million"
        raise BadInput((ArgumentName(name), fault))
    return values
