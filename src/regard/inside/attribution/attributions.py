"""Attributions of one input by several methods, compared, as text, SVG, PNG and HTML."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from rich.text import Text

from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.inference.inputs import title_of
from regard.inference.model_runner import ModelRunner
from regard.inside.attention.attention_view import View
from regard.inside.attribution.faithfulness import DeletionCurves, agreement, deletion_curves
from regard.inside.attribution.methods import (
    MOST_STEPS,
    NEED_ATTENTION,
    STEPS,
    TITLES,
    Completeness,
    followed_sites,
    methods,
)
from regard.inside.attribution.target_function import TargetFunction
from regard.text.segmentation import LabelledImage
from regard.views.attention_text import colour_cell, heat_map, shade_cell
from regard.views.line_chart import Chart, ChartLine
from regard.views.markup import clip, escape_line
from regard.views.matrix_svg import draw_attention
from regard.views.panels import Panel, Sheet, lay_out, png_bytes
from regard.views.view_record import ViewRecord
from regard.views.word_marks import draw_bars, shares, word_lines

ALL = "all"
MATRIX = "integrated"  # the method whose matrix is drawn, of several
COLOURS = "red raises the target, blue lowers it"
Cell = str | float | None


@dataclass(frozen=True, eq=False)
class Attributions(View):
    """Attributions (targets, words) of one input by method, with their comparison.

    ``probabilities`` has the probability of each target on the input, ``without_words`` with
    ``replacement`` in place of every word; for a predicted number, both are the number.
    ``deletion`` has the deletion curves of the methods, or none.
    """

    title: str
    targets: tuple[str, ...]
    words: tuple[str, ...]
    weights: Mapping[str, np.ndarray]
    probabilities: tuple[float, ...]
    without_words: tuple[float, ...]
    replacement: str
    deletion: DeletionCurves = field(repr=False)
    completeness: Completeness | None = None
    image: LabelledImage | None = field(default=None, repr=False)

    @cached_property
    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman correlation of every two methods over words, mean over targets."""
        return agreement(self.weights)

    def choose(
        self, name: str | None = None, layer: int | None = None, head: int | None = None
    ) -> "Attributions":
        """Select one method by name; there is neither a layer nor a head to choose."""
        if layer is not None or head is not None:
            raise BadInput("attributions are of the whole model: do not choose a layer or head")
        if name is None:
            return self
        if name not in self.weights:
            raise BadInput(f"no method called {shown(name)} here, only: {', '.join(self.weights)}")
        return replace(self, weights={name: self.weights[name]})

    @property
    def summary(self) -> str:
        """Targets with their probabilities, before and after words are replaced."""
        columns = zip(self.targets, self.probabilities, self.without_words, strict=True)
        figures = ", ".join(f"{name}  {here:.3f} ({there:.3f})" for name, here, there in columns)
        parts = "words" if self.image is None else "patches"
        return f"{figures}; in brackets: all {parts} are replaced by {self.replacement}"

    @property
    def notes(self) -> list[str]:
        """Completeness of integrated gradients, agreement and areas under deletion curves."""
        lines = [*self._completeness]
        if self.agreement:
            pairs = (f"{a} and {b} {value:.2f}" for (a, b), value in self.agreement.items())
            lines.append(f"agreement (Spearman over words): {', '.join(pairs)}")
        areas = [f"{name} {area:.3f}" for name, area in self.deletion.areas.items()]
        if areas:
            lines.append(f"area under the deletion curve (lower is better): {', '.join(areas)}")
        return lines

    @property
    def _completeness(self) -> list[str]:
        if self.completeness is None:
            return []
        return [f"completeness of integrated gradients: {self.completeness.summary}"]

    @property
    def compared(self) -> list[str]:
        """Methods whose correlations are known: all, if there are several."""
        return [*self.weights] if len(self.weights) > 1 else []

    @property
    def word_rows(self) -> list[list[Cell]]:
        """Rows of a table: target, word, and the value of each method."""
        return [
            [target, word, *(float(values[m, w]) for values in self.weights.values())]
            for m, target in enumerate(self.targets)
            for w, word in enumerate(self.words)
        ]

    @property
    def method_rows(self) -> list[list[Cell]]:
        """Rows of a table: method, its correlation with each method, and its area."""
        known = {**self.agreement, **{(b, a): rho for (a, b), rho in self.agreement.items()}}
        return [
            [name, *(known.get((name, other)) for other in self.compared), area]
            for name, area in self.deletion.areas.items()
        ]

    @property
    def deletion_chart(self) -> Chart:
        """Deletion curves of all methods and of random orders."""
        shares = self.deletion.shares
        lines = [
            ChartLine(name, list(zip(shares, curve, strict=True)))
            for name, curve in self.deletion.curves.items()
        ]
        ticks = [(share, f"{100 * share:.0f}%") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        across, up = "words deleted, highest attribution first", "mean probability of the target"
        return Chart("Deletion", across, up, ticks, lines, fitted=True)

    def svg(self) -> str:
        if self.image is not None:
            return self._sheet(self.image).svg()
        caption = f"{self.summary}; {COLOURS}"
        if len(self.targets) == 1:
            columns = {TITLES[name]: values[0] for name, values in self.weights.items()}
            return draw_bars(self.title, caption, self.words, columns)
        name = MATRIX if MATRIX in self.weights else next(iter(self.weights))
        caption = f"{TITLES[name]}, by word of the target; {COLOURS}"
        return draw_attention(self.title, caption, self.targets, self.words, self.weights[name])

    def png(self) -> bytes:
        return super().png() if self.image is None else self._sheet(self.image).png()

    def view_record(self) -> ViewRecord:
        picture: dict[str, object] = {}
        if self.image is not None:
            picture = {"grid": self.image.grid, "image": png_bytes(self.image.pixels_HWC)}
        methods = [
            {"name": name, "title": TITLES[name], "values": values_MW, "shares": shares(values_MW)}
            for name, values_MW in self.weights.items()
        ]
        comparison = {"columns": ["method", *self.compared, "area"], "rows": self.method_rows}
        return ViewRecord.of(
            "attribution",
            title=self.title,
            caption=self.summary,
            targets=self.targets,
            words=self.words,
            methods=methods,
            comparison=comparison,
            charts=[self.deletion_chart.fields] if self.deletion.curves else [],
            notes=self._completeness,
            **picture,
        )

    def to_json(self) -> dict[str, object]:
        pairs = self.agreement.items()
        return {
            "targets": self.targets,
            "probabilities": self.probabilities,
            "without words": self.without_words,
            "replacement": self.replacement,
            "words": self.words,
            "weights": {name: values.round(6).tolist() for name, values in self.weights.items()},
            "completeness": None if self.completeness is None else self.completeness._asdict(),
            "agreement": [{"methods": pair, "spearman": round(rho, 6)} for pair, rho in pairs],
            "deletion": {
                "shares": self.deletion.shares,
                "curves": dict(self.deletion.curves),
                "areas": self.deletion.areas,
            },
        }

    def lines(self, width: int, *, coloured: bool) -> Iterator[Text]:
        yield Text(clip(escape_line(self.title), width))
        yield from map(Text, textwrap.wrap(escape_line(self.summary), width))
        for name, values_MW in self.weights.items():
            yield Text()
            yield Text(clip(f"{TITLES[name]}  (largest {_peak(values_MW):.3g})", width), "bold")
            if self.image is not None:
                yield from self._patches(self.image, values_MW, width, coloured=coloured)
                continue
            for target, values_W in zip(self.targets, values_MW, strict=True):
                if len(self.targets) > 1:
                    yield Text(clip(f"→ {escape_line(target)}", width))
                yield from word_lines(self.words, values_W, width, coloured=coloured)
        yield Text()
        for note in self.notes:
            yield from map(Text, textwrap.wrap(note, width))

    def _patches(
        self, image: LabelledImage, values_MW: np.ndarray, width: int, *, coloured: bool
    ) -> Iterator[Text]:
        """Heat map of the patches; values below zero count as zero."""
        rows, columns = ([str(at) for at in range(size)] for size in image.grid)
        paint = colour_cell if coloured else shade_cell
        positive_RC = values_MW[0].reshape(image.grid).clip(min=0)
        yield from heat_map(rows, columns, positive_RC, width, paint)

    def _sheet(self, image: LabelledImage) -> Sheet:
        panels = [Panel("image", image.pixels_HWC)]
        for name, values_MW in self.weights.items():
            grid_RC = values_MW[0].reshape(image.grid)
            panels.append(Panel(TITLES[name], image.pixels_HWC, grid_RC))
        return lay_out(self.title, self.summary, panels)


def _peak(values: np.ndarray) -> float:
    return float(np.abs(values).max(initial=0.0))


def attribute(
    model: ModelRunner,
    text: object,
    target: str | None = None,
    method: str = ALL,
    *,
    token: int | None = None,
    steps: int = STEPS,
    most_steps: int = MOST_STEPS,
    subwords: bool = False,
    deletion: bool = True,
) -> Attributions:
    """Attribute a prediction to the words of a text, or to the patches of an image.

    See ``TargetFunction.of`` for ``target`` and ``token``. ``method`` is one of ``methods()``, or
    "all" that this model allows; ``steps`` is the first number of steps of integrated gradients,
    which are doubled up to ``most_steps``.
    Without ``deletion`` there are no deletion curves, which take most of the time.
    """
    first = check_whole("steps", steps, 1, MOST_STEPS)
    known = methods(first, check_whole("most_steps", most_steps, 1, MOST_STEPS))
    if method not in (ALL, *known):
        raise BadInput(f"method must be one of all, {', '.join(known)}, not {shown(method)}")
    function = TargetFunction.of(model, text, target, token=token, subwords=subwords)
    attends = bool(followed_sites(model.facts))
    allowed = [name for name in known if attends or name not in NEED_ATTENTION]
    results = {name: known[name](function) for name in (allowed if method == ALL else [method])}
    weights = {name: result.weights_MW for name, result in results.items()}
    ends_2W = np.repeat([[False], [True]], len(function.given.words), axis=1)
    here_M, there_M = function.targets.probabilities(function.scores_without(ends_2W)[1].numpy())
    complete = [result.completeness for result in results.values() if result.completeness]
    return Attributions(
        title_of(text),
        function.targets.names,
        function.given.words,
        weights,
        tuple(here_M.tolist()),
        tuple(there_M.tolist()),
        function.given.replacement,
        deletion_curves(function, weights) if deletion else DeletionCurves((), {}),
        complete[0] if complete else None,
        function.given.image,
    )
