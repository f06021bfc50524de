"""Accuracies of probes by layer, with their controls: tables, verdicts and charts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.metrics.intervals import Interval
from regard.views.line_chart import Chart, ChartLine, draw_charts
from regard.views.pages import RecordPage
from regard.views.view_record import ViewRecord

RANDOM, CONTROL, MAJORITY, MIX = "random weights", "control task", "majority", "mix"
COLUMNS = (
    *("model", "layer", "accuracy", "low", "high"),
    *("random", "random low", "random high", "control", "selectivity", "weight"),
)
VERDICT_COLUMNS = ("first", "second", "difference", "verdict")
NO_VERDICT = "no verdict"

Cell = str | int | float | None


@dataclass(frozen=True)
class ProbeScore:
    """Accuracy on the test set with its 95% interval, as shares of 1.

    ``strength`` is the factor of L2 that is best on the development set, with ``dev_accuracy``.
    """

    accuracy: float
    interval: Interval
    dev_accuracy: float | None = None
    strength: float | None = None

    def above(self, other: "ProbeScore") -> bool:
        """Whether this is the higher accuracy, with intervals that do not overlap."""
        return self.interval.low > other.interval.high


@dataclass(frozen=True)
class LayerScore:
    """Probe of a layer, of the same layer with random weights, and of the control task."""

    layer: int
    model: ProbeScore
    random: ProbeScore
    control: ProbeScore

    @property
    def selectivity(self) -> float:
        """Accuracy minus the accuracy on the control task (Hewitt and Liang, 2019)."""
        return self.model.accuracy - self.control.accuracy


@dataclass(frozen=True)
class MixScore:
    """Probe of a scalar mix of layers, with the weight of each layer."""

    score: ProbeScore
    layers: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def expected_layer(self) -> float:
        """Σ l · s_l, the centre of gravity of the mix (Tenney et al., 2019, section 3.2)."""
        return sum(layer * share for layer, share in zip(self.layers, self.weights, strict=True))


@dataclass(frozen=True)
class ModelScores:
    """Probes of a model: its layers, their mix, and the majority of labels by form.

    ``counts`` are the numbers of examples for train, dev and test; ``left_out`` is the number of
    those in sentences that are too long for the model. There is no mix of layers of several sizes.
    """

    name: str
    layers: tuple[LayerScore, ...]
    mix: MixScore | None
    random_mix: MixScore | None
    majority: ProbeScore
    counts: tuple[int, ...]
    left_out: int = 0

    @property
    def best(self) -> LayerScore:
        """The layer that is best on the development set."""
        return max(self.layers, key=lambda each: each.model.dev_accuracy or 0.0)

    @property
    def best_random(self) -> LayerScore:
        """The layer with random weights that is best on the development set."""
        return max(self.layers, key=lambda each: each.random.dev_accuracy or 0.0)


@dataclass(frozen=True)
class ScoreComparison:
    """Comparison of two scores; ``first_above`` is None where their intervals overlap."""

    first: str
    second: str
    difference: float
    first_above: bool | None

    @classmethod
    def of(cls, first: str, one: ProbeScore, second: str, other: ProbeScore) -> "ScoreComparison":
        """Compare two scores with names."""
        above = True if one.above(other) else False if other.above(one) else None
        return cls(first, second, one.accuracy - other.accuracy, above)

    def __str__(self) -> str:
        return {True: "above", False: "below", None: NO_VERDICT}[self.first_above]


@dataclass(frozen=True)
class ProbeReport(RecordPage):
    """Probes of several models on one task; a page, a drawing, and tables."""

    task: str
    models: tuple[ModelScores, ...]

    @property
    def title(self) -> str:
        """Title of page and charts."""
        return f"Probes by layer: {self.task}"

    def table(self) -> list[list[Cell]]:
        """Rows of ``COLUMNS``: each layer of each model, the mix, and the majority by form."""
        return [row for model in self.models for row in _rows(model)]

    def verdicts(self) -> list[ScoreComparison]:
        """Compare the best layer of each model with others, with controls and with other models.

        Layers are chosen on the development set, and compared on the test set.
        """
        verdicts = [verdict for model in self.models for verdict in _verdicts(model)]
        for number, one in enumerate(self.models):
            for other in self.models[number + 1 :]:
                names = _layer_name(one, one.best), _layer_name(other, other.best)
                verdicts.append(
                    ScoreComparison.of(names[0], one.best.model, names[1], other.best.model)
                )
        return verdicts

    def verdict_table(self) -> list[list[Cell]]:
        """Rows of ``VERDICT_COLUMNS``."""
        return [
            [verdict.first, verdict.second, verdict.difference, str(verdict)]
            for verdict in self.verdicts()
        ]

    @property
    def notes(self) -> list[str]:
        """Numbers of examples, and expected layers of mixes."""
        return [
            "low and high are 95% intervals of accuracy over resampled sentences; "
            "there is no verdict where they overlap",
            *(line for model in self.models for line in _notes(model)),
        ]

    def charts(self) -> list[Chart]:
        """A chart for each model, all with the same y-axis."""
        every = [line for model in self.models for line in _lines(model)]
        span = [y for line in every for pair in line.intervals for y in pair]
        span += [y for line in every for _, y in line.points]
        return [
            Chart(
                f"{model.name}: {self.task}",
                "layer (0: embedding)",
                "accuracy",
                [(each.layer, str(each.layer)) for each in model.layers],
                _lines(model),
                fitted=True,
                spanned=(min(span), max(span)),
            )
            for model in self.models
        ]

    def svg(self) -> str:
        """Charts of all models, side by side."""
        return draw_charts(self.title, self.charts(), columns=len(self.models))

    def view_record(self) -> ViewRecord:
        lines = [
            f"{verdict.first} – {verdict.second}: {verdict.difference:+.3f}, {verdict}"
            for verdict in self.verdicts()
        ]
        return ViewRecord.of(
            "probes",
            title=self.title,
            charts=[chart.fields for chart in self.charts()],
            table={"title": "accuracies", "columns": COLUMNS, "rows": self.table()},
            notes=[*lines, *self.notes],
        )


def _rows(model: ModelScores) -> Iterator[list[Cell]]:
    weights: dict[int, float] = {}
    if model.mix is not None:
        weights = dict(zip(model.mix.layers, model.mix.weights, strict=True))
    for each in model.layers:
        control = each.control.accuracy, each.selectivity, weights.get(each.layer)
        yield [model.name, each.layer, *_figures(each.model), *_figures(each.random), *control]
    if model.mix is not None and model.random_mix is not None:
        both = *_figures(model.mix.score), *_figures(model.random_mix.score)
        yield [model.name, MIX, *both, None, None, None]
    yield [model.name, MAJORITY, *_figures(model.majority), *[None] * 6]


def _figures(score: ProbeScore) -> tuple[float, float, float]:
    return score.accuracy, score.interval.low, score.interval.high


def _layer_name(model: ModelScores, layer: LayerScore) -> str:
    return f"{model.name} layer {layer.layer}"


def _verdicts(model: ModelScores) -> Iterator[ScoreComparison]:
    best, name = model.best, _layer_name(model, model.best)
    random = model.best_random
    yield ScoreComparison.of(name, best.model, f"{RANDOM}, layer {random.layer}", random.random)
    yield ScoreComparison.of(name, best.model, MAJORITY, model.majority)
    for other in dict.fromkeys((model.layers[0], model.layers[-1])):
        if other != best:
            yield ScoreComparison.of(name, best.model, f"layer {other.layer}", other.model)
    if model.mix is not None:
        yield ScoreComparison.of(f"{model.name} {MIX}", model.mix.score, name, best.model)


def _notes(model: ModelScores) -> Iterator[str]:
    train, dev, test = model.counts
    left_out = f"; {model.left_out:,} left out, too long" if model.left_out else ""
    yield f"{model.name}: {train:,} examples to train, {dev:,} dev, {test:,} test{left_out}"
    if model.mix is not None and model.random_mix is not None:
        expected = model.mix.expected_layer, model.random_mix.expected_layer
        yield (
            f"{model.name}: the expected layer of the mix is {expected[0]:.2f} "
            f"({RANDOM}: {expected[1]:.2f})"
        )


def _lines(model: ModelScores) -> Sequence[ChartLine]:
    by_name = {
        model.name: [each.model for each in model.layers],
        RANDOM: [each.random for each in model.layers],
        CONTROL: [each.control for each in model.layers],
        f"{MAJORITY} by form": [model.majority for _ in model.layers],
    }
    places = [each.layer for each in model.layers]
    return [
        ChartLine(
            name,
            [(x, score.accuracy) for x, score in zip(places, scores, strict=True)],
            [score.interval for score in scores],
        )
        for name, scores in by_name.items()
    ]
