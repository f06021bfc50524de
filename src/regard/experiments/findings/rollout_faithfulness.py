"""Abnar & Zuidema (2020): rollout ranks words more as their removal does than raw attention."""

from collections.abc import Mapping, Sequence

import numpy as np

from regard.core.errors import BadInput
from regard.data.readers.text_files import read_lines
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    judge_interval,
    require_examples,
)
from regard.inside.attribution.methods import (
    gradient_times_input,
    leave_one_out,
    raw_attention,
    rollout,
)
from regard.inside.attribution.target_function import TargetFunction
from regard.metrics.intervals import Interval, interval, resampled
from regard.metrics.regression import spearman
from regard.models.label_heads import LabelHead
from regard.views.line_chart import Chart, ChartLine
from regard.views.palette import PAGE

TEXTS = 100  # read unless a limit is given
WORDS = 4  # fewest words of a text, for a rank correlation
ABLATION, GRADIENT = "leave-one-out", "gradient × input"
RAW, ROLLOUT = "raw attention", "rollout"

Correlations = Mapping[tuple[str, str], Sequence[float]]
"""Spearman correlation of each text, by the method and what it is compared with."""


def measure(inputs: CheckInputs) -> Evidence:
    """Correlations of rollout and raw attention with leave-one-out and gradients, over texts."""
    model = inputs.loaded.runner
    sites = [site for site in model.facts.attention_sites if site.within]
    if LabelHead.name not in model.facts.head_names or len(model.facts.sides) > 1:
        raise CannotShow("it is no classifier of texts")
    if model.reads_images or not sites or sites[0].layers < 2:
        raise CannotShow("it has fewer than two layers of self-attention over words")
    (file,) = inputs.data
    texts = [line for line in read_lines(file) if len(line.split()) >= WORDS]
    texts = texts[: inputs.limit or TEXTS]
    if not texts:
        raise BadInput(f"{file}: no text of {WORDS} words or more; write one on each line")
    require_examples(len(texts), f"texts of {WORDS} words or more")
    correlations: dict[tuple[str, str], list[float]] = {}
    for number, text in enumerate(texts, start=1):
        function = TargetFunction.of(model, text)
        methods = {RAW: raw_attention(function), ROLLOUT: rollout(function)}
        effects = {ABLATION: leave_one_out(function), GRADIENT: gradient_times_input(function)}
        for name, method in methods.items():
            for effect, result in effects.items():
                rho = spearman(method.weights_MW[0], np.abs(result.weights_MW[0]))
                correlations.setdefault((name, effect), []).append(rho)
        if number % 20 == 0:
            inputs.note(f"{number} of {len(texts)} texts")
    means = {pair: float(np.mean(values)) for pair, values in correlations.items()}
    gains = {effect: gain_interval(correlations, effect) for effect in (ABLATION, GRADIENT)}
    rows = [
        [effect, *(f"{means[name, effect]:.3f}" for name in (RAW, ROLLOUT)), *_texts(gains[effect])]
        for effect in (ABLATION, GRADIENT)
    ]
    return Evidence(
        f"rank correlation with {ABLATION}: {RAW} {means[RAW, ABLATION]:.2f}, "
        f"{ROLLOUT} {means[ROLLOUT, ABLATION]:.2f}",
        judge_interval(f"the gain of {ROLLOUT} on {RAW}", gains[ABLATION], 0.0, "+.3f"),
        DataUsed.of_files([file]),
        ["compared with", RAW, ROLLOUT, "low", "high"],
        rows,
        [_chart(correlations).svg(PAGE)],
        [
            f"mean Spearman correlation over the words of {len(texts):,} texts with the absolute "
            "values of each effect; low and high: 95% interval of the gain, over texts",
            f"{RAW}: weights of the last layer, mean of heads, from the tokens that decide",
        ],
    )


def gain_interval(correlations: Correlations, effect: str) -> Interval:
    """Interval of the mean gain of rollout on raw attention, over resampled texts."""
    gains = np.subtract(correlations[ROLLOUT, effect], correlations[RAW, effect])
    statistics = np.stack([gains, np.ones(len(gains))], axis=1)
    return interval(resampled(statistics, lambda sums: sums[0] / sums[1]))


def _texts(bounds: Interval) -> list[str]:
    return [f"{bound:+.3f}" for bound in bounds]


def _chart(correlations: Correlations) -> Chart:
    """Correlations with leave-one-out of all texts, each method in ascending order."""
    lines = [
        ChartLine(name, [*enumerate(sorted(correlations[name, ABLATION]))])
        for name in (RAW, ROLLOUT)
    ]
    count = len(lines[0].points)
    ticks = [(0.0, "lowest"), (float(count - 1), "highest")]
    up = f"Spearman correlation with {ABLATION}"
    return Chart("Attention and the effect of words", "texts", up, ticks, lines, fitted=True)


FINDING = Finding(
    name="rollout",
    paper="Abnar & Zuidema, 2020, arXiv:2005.00928, section 4",
    year=2020,
    claim="attention rollout correlates better than raw attention with the effect of removing a "
    "word, and with gradients of the input",
    published="a higher rank correlation of rollout than of raw attention with both, in tables 1 "
    "and 2 of the paper",
    rule="the mean Spearman correlation with leave-one-out is higher for rollout than for raw "
    "attention of the last layer, by the whole 95% interval of the difference over texts",
    model="a classifier of texts with two or more layers of self-attention",
    data=("file with one text per line",),
    measure=measure,
    options=("limit",),
)
