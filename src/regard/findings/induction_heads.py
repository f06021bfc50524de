"""Olsson et al. (2022): induction heads appear suddenly, need two layers, and learn in context."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.api import Model, load
from regard.findings.finding import CannotShow, CheckInputs, DataUsed, Evidence, Finding, Judgement
from regard.inside.edits import EditList, head_edits
from regard.inside.heads.head_formation import Appearance, Formation
from regard.inside.heads.head_report import CAUSAL
from regard.metrics.intervals import Interval, interval, resampled
from regard.training.metrics_log import read_watch, watch_log
from regard.training.recipe import read, task_of
from regard.training.recipe_files import find

SUDDEN = 0.1  # share of the steps in which the score rises from a quarter to half of its last value
REMOVED = 0.5  # share of the in-context gain that the heads must account for
PART = 4  # the gain is between the first and the last quarter of a text
TEXTS = 200


class InContextGain(NamedTuple):
    """Loss of the first quarter of texts minus that of the last, in nats per token."""

    whole: float
    without_heads: float
    removed: float
    interval: Interval

    @classmethod
    def of(cls, whole_N: np.ndarray, without_N: np.ndarray) -> "InContextGain":
        """Gain of each text by the whole model, and without its induction heads."""

        def share(sums: np.ndarray) -> float:
            return 1 - sums[1] / sums[0]

        both_N2 = np.stack([whole_N, without_N], 1).astype(np.float64)
        means = float(whole_N.mean()), float(without_N.mean())
        return cls(*means, share(both_N2.sum(0)), interval(resampled(both_N2, share)))


def measure(inputs: CheckInputs) -> Evidence:
    """Induction scores of two runs by step, and the in-context gain without induction heads."""
    run, shallow = inputs.data
    formed, other = read_formation(run), read_formation(shallow)
    for each, folder in ((formed, run), (other, shallow)):
        if "induction" not in each.figure_names:
            raise CannotShow(f"{folder}: its model is not causal and has no induction scores")
    if layers_of(other) != 1 or layers_of(formed) < 2:
        depths = f"{layers_of(formed)} and {layers_of(other)}"
        raise CannotShow(f"the runs need two layers or more, and one; they have {depths}")
    texts = dev_texts(str(inputs.recipe))
    appeared = formed.appearances("induction")
    heads = head_edits(inputs.loaded.inspected)
    own_N = gains(inputs.loaded, texts)
    gain = None
    if appeared:
        off = tuple(edit for each in appeared for edit in heads[each.head.place].edits)
        edited = inputs.loaded.edited(EditList("induction heads", off))
        gain = InContextGain.of(own_N, gains(edited, texts))
    rows = []
    for head, edits in heads.items():
        (last,) = (each for each in formed.steps[-1].heads if each.place == head)
        without_N = gains(inputs.loaded.edited(edits), texts)
        score = last.figures["induction"] or 0.0
        rows.append([*map(str, head), f"{score:.2f}", f"{without_N.mean():.2f}"])
    best = other.highest("induction")[-1]
    highest = 0.0 if best is None else best.figures["induction"] or 0.0
    one_layer_N = gains(load(shallow / "model", inputs.device), texts)
    charts = [each.chart("induction").svg() for each in (formed, other)]
    return Evidence(
        _summary(appeared, highest, gain),
        judge(formed, appeared, highest, gain),
        DataUsed.of_files([watch_log(folder, "heads") for folder in (run, shallow)]),
        ["site", "layer", "head", "induction", "in-context gain without it"],
        rows,
        [formed.loss_chart.svg(), *charts],
        [
            f"{len(texts)} texts of the dev set of {inputs.recipe}; the gain of the whole model is "
            f"{own_N.mean():.2f} nats per token, that of the model with one layer "
            f"{one_layer_N.mean():.2f}"
        ],
    )


def read_formation(run: Path) -> Formation:
    """Reports on the heads of a run by step."""
    return Formation.of_records(run.name, read_watch(run, "heads"), str(watch_log(run, "heads")))


def layers_of(formed: Formation) -> int:
    """Number of layers of the heads of a run."""
    return 1 + max(head.layer for head in formed.steps[0].heads)


def dev_texts(recipe: str) -> list[str]:
    """Texts of the development set of a recipe, whose files are under the current folder."""
    task = task_of(read(find(recipe)))
    contents = islice(task.contents(task.tables.data.dev, Path()), TEXTS)
    return [str(content.inputs[0]) for content in contents]


def gains(model: Model, texts: Sequence[str]) -> np.ndarray:
    """Mean loss of the first quarter of each text minus that of its last quarter."""
    losses = [-np.array(scores) for scores in model.score(texts)]
    parts = [(each[: len(each) // PART], each[-(len(each) // PART) :]) for each in losses]
    if not parts or min(len(late) for _, late in parts) == 0:
        raise CannotShow(f"its texts are too short: they need {PART} tokens or more")
    return np.array([early.mean() - late.mean() for early, late in parts])


def rise(formed: Formation, appeared: Appearance) -> int:
    """Steps in which the score of a head rises from a quarter to half of its last value."""
    number = [head.place for head in formed.steps[0].heads].index(appeared.head.place)
    low = [
        at.step
        for at in formed.steps
        if at.step < appeared.step
        and (at.heads[number].figures["induction"] or 0.0) < appeared.value / 4
    ]
    return appeared.step - (low[-1] if low else 0)


def judge(
    formed: Formation, appeared: Sequence[Appearance], one_layer: float, gain: InContextGain | None
) -> Judgement:
    """Reproduced if a head appears suddenly, not with one layer, and the gain needs such heads."""
    if not appeared or gain is None:
        return Judgement("not reproduced", f"no head has an induction score of {CAUSAL}")
    if one_layer >= CAUSAL:
        return Judgement("not reproduced", f"one layer has a head with a score of {one_layer:.2f}")
    steps, most = rise(formed, appeared[0]), SUDDEN * formed.steps[-1].step
    if steps > most:
        return Judgement(
            "not reproduced", f"the score rises in {steps:,} steps, not in {most:,.0f}"
        )
    if gain.interval.high < REMOVED:
        low = f"without these heads {gain.removed:.0%} of the in-context gain is lost"
        return Judgement("not reproduced", f"{low}, less than {REMOVED:.0%}")
    if gain.interval.low < REMOVED:
        bounds = f"{gain.interval.low:.0%} to {gain.interval.high:.0%}"
        reason = f"the interval of the lost in-context gain ({bounds}) includes {REMOVED:.0%}"
        return Judgement("cannot be shown", reason)
    bounds = f"{gain.interval.low:.0%} to {gain.interval.high:.0%}"
    lost = f"{gain.removed:.0%} ({bounds}) of the in-context gain is lost without them"
    return Judgement("reproduced", f"the score rises in {steps:,} steps, and {lost}")


def _summary(appeared: Sequence[Appearance], one_layer: float, gain: InContextGain | None) -> str:
    if not appeared or gain is None:
        return f"no induction head with two layers; highest score with one: {one_layer:.2f}"
    first = min(each.step for each in appeared)
    scores = ", ".join(f"{each.head.layer}.{each.head.head} {each.value:.2f}" for each in appeared)
    gained = f"in-context gain {gain.whole:.2f} nats, {gain.without_heads:.2f} without them"
    return f"{scores}, from step {first:,}; one layer: {one_layer:.2f}; {gained}"


FINDING = Finding(
    name="induction",
    paper="Olsson et al., 2022, arXiv:2209.11895",
    year=2022,
    claim="induction heads appear suddenly during training, in models of two layers or more and "
    "not in models of one layer, and account for most of what is learned in context",
    published="about 2.5 to 5 billion tokens into training of models with two layers or more; none "
    "with one layer",
    rule="with two layers or more, a head whose induction score on random tokens that follow twice "
    "is at least 0.5, and which rises from a quarter to half of its last value within a tenth of "
    "the steps; with one layer, no such head; without all such heads, at least half of the "
    "in-context gain (loss of the first quarter of texts minus that of the last) is lost, at the "
    "lower end of its 95% interval over texts",
    model="a causal model of two layers or more",
    data=(
        "folder of its run, with reports on heads",
        "folder of a run with one layer, with reports on heads",
    ),
    measure=measure,
    options=("recipe",),
)
