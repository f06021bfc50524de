"""Pruning curves: the score of a model as heads are removed, beside random orders.

Each point is the score of a model that has fewer heads, which is that of the whole model with
masked heads (Michel et al., 2019, arXiv:1905.10650, figure 3).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from regard.inside.pruning.orders import Order, first_of, random_order
from regard.inside.pruning.remove_heads import remove_heads
from regard.inside.views.line_chart import Chart, ChartLine, Report
from regard.models.attention_site import AttentionSite
from regard.models.folders.loaded_model import LoadedModel

SHARES = tuple(tenths / 10 for tenths in range(1, 10))
ALL = "all"  # the heads of several sites together

Score = Callable[[LoadedModel], float]


@dataclass(frozen=True)
class CurvePoint:
    """Scores without a share of the heads of a site, by the order and by random orders."""

    site: str
    share: float
    removed: int
    heads: int
    score: float
    random: tuple[float, ...] = ()

    @property
    def mean(self) -> float | None:
        """Mean of the scores of the random orders."""
        return sum(self.random) / len(self.random) if self.random else None


@dataclass(frozen=True)
class PruningCurve:
    """Scores of a model, whole and with heads removed.

    ``metric`` is the name of the score, ``method`` that of the order.
    """

    metric: str
    method: str
    whole: float
    points: tuple[CurvePoint, ...]

    @property
    def sites(self) -> list[str]:
        """The sites that were pruned, each on its own, or all together."""
        return [*dict.fromkeys(point.site for point in self.points)]

    def table(self) -> tuple[list[str], list[list[str | int | float | None]]]:
        """Columns and rows: the score at each share, and mean and range of random orders."""
        columns = ["heads of", "share", "removed", self.metric, "change", "random", "least", "most"]
        rows: list[list[str | int | float | None]] = [
            [point.site, point.share, point.removed, *self._scores(point)] for point in self.points
        ]
        return columns, rows

    def _scores(self, point: CurvePoint) -> list[float | None]:
        """Score, its change, and mean, least and most of random orders."""
        random = [point.mean, min(point.random, default=None), max(point.random, default=None)]
        return [point.score, point.score - self.whole, *random]

    def chart(self, site: str) -> Chart:
        """Chart of one site: the order, and mean, least and most of random orders."""
        points = [point for point in self.points if point.site == site]
        own, _, *random = zip(*map(self._scores, points), strict=True)
        names = (self.method, *(f"random, {name}" for name in ("mean", "least", "most")))
        shares = [0.0, *(point.share for point in points)]
        lines = [
            ChartLine(name, [*zip(shares, (self.whole, *scores), strict=True)])
            for name, scores in zip(names, (own, *random), strict=True)
            if None not in scores
        ]
        ticks = [(share, f"{share:.0%}") for share in shares]
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
    metric: str,
    method: str,
    shares: Sequence[float] = SHARES,
    seeds: Sequence[int] = (),
    note: Callable[[str], None] = lambda line: None,
) -> PruningCurve:
    """Scores of a model without these shares of the heads of each group of sites.

    Heads are removed in the order of ``order_of`` and, for each of the ``seeds``, at random.
    ``note`` gets a line for each point.
    """

    def points() -> Iterator[CurvePoint]:
        for name, sites in groups.items():
            order = order_of(sites)
            others = [random_order(sites, seed) for seed in seeds]
            for share in shares:
                heads = first_of(order, share)
                drawn = [score(remove_heads(model, first_of(other, share))) for other in others]
                own = score(remove_heads(model, heads))
                note(f"{name}, {len(heads)} of {len(order)} heads removed: {metric} {own:.2f}")
                yield CurvePoint(name, share, len(heads), len(order), own, tuple(drawn))

    return PruningCurve(metric, method, score(model), tuple(points()))
