"""Olsson et al. (2022): induction heads appear suddenly, need two layers, and learn in context."""

import math
import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.api import Model, load
from regard.core.errors import BadInput
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
)
from regard.experiments.findings.watched_run import WatchedRun
from regard.inside.ablation import head_edits
from regard.inside.heads.head_formation import Appearance, Formation
from regard.inside.heads.head_report import CAUSAL
from regard.metrics.intervals import Interval, interval, resampled
from regard.models.attention_site import require_causal
from regard.models.edits import EditList
from regard.tasks.pretrain import Pretrain
from regard.training.metrics_log import watch_log
from regard.training.recipe import read, task_of
from regard.training.recipe_files import find

SUDDEN = 0.1  # share of the steps in which the score rises from a quarter to half of its last value
REMOVED = 0.5  # share of the in-context gain that the heads must account for
PART = 4  # the gain is between the first and the last quarter of a text
TEXTS = 200
CHOICES = 5  # most choices of other heads

Place = tuple[str, int, int]
"""Site, layer and number of a head."""


class InContextGain(NamedTuple):
    """Loss of the first quarter of texts minus the loss of the last, in nats per token."""

    whole: float
    without_heads: float
    removed: float
    interval: Interval

    @classmethod
    def of(cls, whole_N: np.ndarray, without_N: np.ndarray) -> "InContextGain":
        """Gain of each text by the whole model, and without its induction heads."""

        def share(sums: np.ndarray) -> float:
            if not sums[0] > 0:
                raise CannotShow("there is no in-context gain that heads could account for")
            return 1 - sums[1] / sums[0]

        both_N2 = np.stack([whole_N, without_N], 1).astype(np.float64)
        means = float(whole_N.mean()), float(without_N.mean())
        return cls(*means, share(both_N2.sum(0)), interval(resampled(both_N2, share)))


def measure(inputs: CheckInputs) -> Evidence:
    """Induction scores of two runs by step, and the in-context gain without induction heads."""
    require_language_model(inputs.loaded)
    run, shallow = inputs.data
    deep = WatchedRun.read(run, Path(inputs.model))
    other = WatchedRun.read(shallow, shallow / "model")
    require_comparable(deep, other)
    heads = edits_of(inputs.loaded, deep.formed)
    texts = dev_texts(str(inputs.recipe))

    @cache
    def gains_without(*places: Place) -> np.ndarray:
        off = tuple(edit for place in places for edit in heads[place].edits)
        return gains(inputs.loaded.edited(EditList("heads", off)) if off else inputs.loaded, texts)

    appeared = deep.formed.appearances("induction")
    sudden = [each.head.place for each in sudden_heads(deep, appeared)]
    gain, lost = None, dict[tuple[Place, ...], float]()
    if sudden:
        gain = InContextGain.of(gains_without(), gains_without(*sudden))
        others = [place for place in heads if place not in {each.head.place for each in appeared}]
        for choice in choices_of(others, len(sudden)):
            lost[choice] = 1 - float(gains_without(*choice).mean()) / gain.whole
    scores = {head.place: head.figures["induction"] for head in deep.formed.steps[-1].heads}
    rows = [
        [*map(str, place), f"{scores[place] or 0.0:.2f}", f"{gains_without(place).mean():.2f}"]
        for place in heads
    ]
    best = other.formed.highest("induction")[-1]
    highest = 0.0 if best is None else best.figures["induction"] or 0.0
    one_layer = load(shallow / "model", inputs.device)
    require_language_model(one_layer)
    charts = [each.formed.chart("induction").svg() for each in (deep, other)]
    described = f"{len(texts)} texts of the dev set of {inputs.recipe}"
    return Evidence(
        _summary(appeared, highest, gain),
        judge(deep, appeared, highest, gain),
        DataUsed.of_all(
            DataUsed.of_run(run, [watch_log(run, "heads")]),
            DataUsed.of_run(shallow, [watch_log(shallow, "heads")]),
            DataUsed.of_folder(shallow / "model"),
            DataUsed.of_texts(described, texts),
        ),
        ["site", "layer", "head", f"induction at step {deep.step}", "in-context gain without it"],
        rows,
        [deep.formed.loss_chart.svg(), *charts],
        [
            f"{described}; the gain of the whole model is {gains_without().mean():.2f} nats per "
            f"token, that of the model with one layer {gains(one_layer, texts).mean():.2f}",
            f"{deep.step_note}; {other.step_note}",
            *([] if gain is None else [control_note(gain, lost)]),
        ],
    )


def require_language_model(model: Model) -> None:
    """Refuse a model that does not predict each token of a text from those before it."""
    try:
        require_causal(model.facts.attention_sites)
        model.score([])
    except BadInput:
        raise CannotShow("it is no causal language model with attention") from None


def require_comparable(deep: WatchedRun, shallow: WatchedRun) -> None:
    """Refuse runs of other depths, of different lengths, or with few reports."""
    if shallow.layers != 1 or deep.layers < 2:
        depths = f"{deep.layers} and {shallow.layers}"
        raise CannotShow(f"the runs need two layers or more, and one; they have {depths}")
    if deep.last != shallow.last:
        steps = f"{deep.last:,} and {shallow.last:,}"
        raise CannotShow(f"the runs need the same number of steps; they have {steps}")
    if not 0 < deep.gap <= SUDDEN * deep.last:
        often = f"up to {deep.gap:,} steps lie between two reports of a run of {deep.last:,}"
        raise CannotShow(f"{often}, more than {SUDDEN:.0%} (train.evaluate_every)")


def edits_of(model: Model, formed: Formation) -> dict[Place, EditList]:
    """Edits that turn off each head of a model, which are the heads of the reports."""
    try:
        heads = head_edits(model.runner)
    except BadInput as error:
        raise CannotShow(str(error)) from None
    reported = {head.place for head in formed.steps[0].heads}
    if heads.keys() != reported:
        counts = f"it has {len(heads)} heads, and the reports have {len(reported)}"
        raise CannotShow(f"its heads are not those of the run {formed.title}: {counts}")
    return heads


def dev_texts(recipe: str) -> list[str]:
    """Texts of the development set of a recipe, whose files are under the current folder."""
    described = read(find(recipe))
    task, dev = task_of(described), described.data.dev
    if not isinstance(task, Pretrain):
        raise BadInput(f"{recipe}: its task is {described.task}, not a language model's (pretrain)")
    if dev is None:
        raise BadInput(f"{recipe}: has no dev set (data.dev)")
    return [str(content.inputs[0]) for content in islice(task.contents(dev, Path()), TEXTS)]


def gains(model: Model, texts: Sequence[str]) -> np.ndarray:
    """Mean loss of the first quarter of each text minus the loss of its last quarter."""
    losses = [-np.array(scores) for scores in model.score(texts)]
    parts = [(each[: len(each) // PART], each[-(len(each) // PART) :]) for each in losses]
    if not parts or min(len(early) for early, _ in parts) == 0:
        raise CannotShow(f"its texts are too short: they need {PART} tokens or more")
    if not all(np.isfinite(each).all() for each in losses):
        raise CannotShow("the in-context gain is no number: losses of some tokens are not finite")
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


def sudden_heads(run: WatchedRun, appeared: Sequence[Appearance]) -> list[Appearance]:
    """Heads whose scores rise within a tenth of the steps of the run."""
    return [each for each in appeared if rise(run.formed, each) <= SUDDEN * run.last]


def choices_of(places: Sequence[Place], size: int) -> list[tuple[Place, ...]]:
    """All sets of ``size`` heads, or some at random; of fewer heads, all of them together."""
    size = min(size, len(places))
    if size == 0:
        return []
    if math.comb(len(places), size) <= CHOICES:
        return [*combinations(places, size)]
    draw, chosen = random.Random(0), set[tuple[Place, ...]]()
    while len(chosen) < CHOICES:
        chosen.add(tuple(sorted(draw.sample(places, size))))
    return sorted(chosen)


def control_note(gain: InContextGain, lost: dict[tuple[Place, ...], float]) -> str:
    """Share of the gain that is lost without induction heads, and without other heads instead."""
    own = f"without the induction heads {gain.removed:.0%} of the in-context gain is lost"
    if not lost:
        return f"{own}; there are no other heads to compare them with"
    shares = ", ".join(f"{share:.0%} ({_names(places)})" for places, share in lost.items())
    return (
        f"{own}, without other heads instead: {shares}. Heads of lower layers, on which induction "
        "heads depend, may lose as much: the loss alone does not tell the two apart"
    )


def judge(
    run: WatchedRun, appeared: Sequence[Appearance], one_layer: float, gain: InContextGain | None
) -> Judgement:
    """Reproduced if a head appears suddenly, not with one layer, and the gain needs such heads."""
    if not appeared:
        return Judgement("not reproduced", f"no head has an induction score of {CAUSAL}")
    if not one_layer < CAUSAL:
        return Judgement("not reproduced", f"one layer has a head with a score of {one_layer:.2f}")
    sudden, most = sudden_heads(run, appeared), SUDDEN * run.last
    if not sudden or gain is None:
        steps = min(rise(run.formed, each) for each in appeared)
        return Judgement(
            "not reproduced", f"the score rises in {steps:,} steps, not in {most:,.0f}"
        )
    bounds = f"{gain.interval.low:.0%} to {gain.interval.high:.0%}"
    if gain.interval.low >= REMOVED:
        risen = f"{_names(each.head.place for each in sudden)} rise within {most:,.0f} steps"
        lost = f"{gain.removed:.0%} ({bounds}) of the in-context gain is lost without them"
        return Judgement("reproduced", f"scores of {risen}, and {lost}")
    if gain.interval.high < REMOVED:
        low = f"without these heads {gain.removed:.0%} of the in-context gain is lost"
        return Judgement("not reproduced", f"{low}, less than {REMOVED:.0%}")
    reason = f"the interval of the lost in-context gain ({bounds}) includes {REMOVED:.0%}"
    return Judgement("cannot be shown", reason)


def _names(places: Iterable[Place]) -> str:
    return ", ".join(f"{layer}.{head}" for _, layer, head in places)


def _summary(appeared: Sequence[Appearance], one_layer: float, gain: InContextGain | None) -> str:
    if not appeared:
        return f"no induction head with two layers; highest score with one: {one_layer:.2f}"
    first = min(each.step for each in appeared)
    scores = ", ".join(f"{each.head.layer}.{each.head.head} {each.value:.2f}" for each in appeared)
    shown = f"{scores}, from step {first:,}; one layer: {one_layer:.2f}"
    if gain is None:
        return shown
    return f"{shown}; in-context gain {gain.whole:.2f} nats, {gain.without_heads:.2f} without them"


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
    "lower end of its 95% interval over texts; what is lost without other heads is shown beside",
    model="a causal model of two layers or more",
    data=(
        "folder of its run, with reports on heads",
        "folder of a run with one layer, with reports on heads",
    ),
    measure=measure,
    options=("recipe",),
)
