"""Pruning curves: the score of a model as heads are removed, beside random orders.

Each point is the score of a model that has fewer heads, which equals the score of the whole model
with masked heads (Michel et al., 2019, arXiv:1905.10650, figure 3).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from regard.inside.pruning.orders import Order, first_of, random_order
from regard.inside.pruning.remove_heads import remove_heads
from regard.metrics.intervals import ExampleStatistics, Interval, mean_interval
from regard.metrics.translation import MetricScore
from regard.models.attention_site import AttentionSite
from regard.models.folders.loaded_model import LoadedModel
from regard.views.line_chart import Chart, ChartLine, Report

SHARES = tuple(tenths / 10 for tenths in range(1, 10))
ALL = "all"  # the heads of several sites together

Score = Callable[[LoadedModel], MetricScore]


@dataclass(frozen=True)
class CurvePoint:
    """Scores without a share of the heads of a site, by the order and by random orders.

    ``statistics`` has the statistics of single examples, by the order.
    """

    site: str
    share: float
    removed: int
    heads: int
    score: float
    random: tuple[float, ...] = ()
    statistics: ExampleStatistics | None = field(default=None, repr=False, compare=False)

    @property
    def mean(self) -> float | None:
        """Mean of the scores of the random orders."""
        return sum(self.random) / len(self.random) if self.random else None

    @property
    def interval(self) -> Interval | None:
        """95% interval of that mean over orders; None: fewer than two orders."""
        return mean_interval(self.random) if len(self.random) > 1 else None


@dataclass(frozen=True)
class PruningCurve:
    """Scores of a model, whole and with heads removed.

    ``metric`` names the score, ``method`` the order. ``whole`` is the score
    without removal.
    """

    metric: str
    method: str
    whole: float
    points: tuple[CurvePoint, ...]

    @property
    def sites(self) -> list[str]:
        """The sites that were pruned, each on its own, or all together."""
        return [*dict.fromkeys(point.site for point in self.points)]

    def after_training(self, score: float) -> "PruningCurve":
        """The curve with the score of the model that was trained with gates, before any removal."""
        sites = {point.site: point.heads for point in self.points}
        trained = (CurvePoint(site, 0.0, 0, heads, score) for site, heads in sites.items())
        return replace(self, points=(*trained, *self.points))

    def table(self) -> tuple[list[str], list[list[str | int | float | None]]]:
        """Columns and rows: the score at each share; mean, interval, range of random orders."""
        columns = ["heads of", "share", "removed", self.metric, "change"]
        columns += ["random", "low", "high", "least", "most"]
        rows: list[list[str | int | float | None]] = [
            [point.site, point.share, point.removed, *self._scores(point)] for point in self.points
        ]
        return columns, rows

    def _scores(self, point: CurvePoint) -> list[float | None]:
        """Score, its change, and mean, interval, least and most of random orders."""
        low, high = point.interval or (None, None)
        extremes = (min(point.random, default=None), max(point.random, default=None))
        return [point.score, point.score - self.whole, point.mean, low, high, *extremes]

    def chart(self, site: str) -> Chart:
        """Chart of one site: the order, and the mean of random orders with its interval."""
        points = [point for point in self.points if point.site == site]
        shares = [0.0, *(point.share for point in points)]
        own = [(point.share, point.score) for point in points]
        means = [(point.share, point.mean) for point in points if point.mean is not None]
        intervals = [point.interval for point in points if point.interval is not None]
        start = (0.0, self.whole)
        lines = [ChartLine(self.method, [start, *own])]
        if means:
            around = [(self.whole, self.whole), *intervals] if intervals else ()
            lines.append(ChartLine("random, mean", [start, *means], around))
        ticks = [(share, f"{share:.0%}") for share in dict.fromkeys(shares)]
        across, title = "share of heads removed", f"Pruning of heads: {site}"
        return Chart(title, across, self.metric, ticks, lines, fitted=True)

    def _texts(self, point: CurvePoint) -> list[str]:
        """Row of the table as texts."""
        scores = self._scores(point)
        texts = ["" if score is None else f"{score:.2f}" for score in scores]
        return [point.site, f"{point.share:.0%}", str(point.removed), *texts]

    def report(self, title: str, notes: Sequence[str] = ()) -> Report:
        """Page with the table and a chart for each site."""
        columns, _ = self.table()
        texts = [self._texts(point) for point in self.points]
        charts = {site: self.chart(site) for site in self.sites}
        return Report(title, columns, texts, charts, notes)


def pruning_curve(
    model: LoadedModel,
    groups: Mapping[str, Sequence[AttentionSite]],
    order_of: Callable[[Sequence[AttentionSite]], Order],
    score: Score,
    *,
    whole: float,
    metric: str,
    method: str,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (),
    note: Callable[[str], None] = lambda line: None,
) -> PruningCurve:
    """Scores of a model without these shares of the heads of each group of sites.

    Heads are removed in the order of ``order_of`` and, for each of the ``seeds``, at random.
    ``whole`` is the score before any change, with which they are compared.
    ``note`` gets a line for each point.
    """

    def points() -> Iterator[CurvePoint]:
        for name, sites in groups.items():
            order = order_of(sites)
            others = [random_order(sites, seed) for seed in seeds]
            for share in shares:
                heads = first_of(order, share)
                pruned = (remove_heads(model, first_of(other, share)) for other in others)
                drawn = tuple(score(each).value for each in pruned)
                own = score(remove_heads(model, heads))
                counts = len(heads), len(order)
                note(f"{name}, {counts[0]} of {counts[1]} heads removed: {metric} {own.value:.2f}")
                yield CurvePoint(name, share, *counts, own.value, drawn, own.statistics)

    return PruningCurve(metric, method, whole, tuple(points()))
