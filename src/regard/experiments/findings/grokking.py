"""Nanda et al. (2023): addition modulo p is learned long after its examples, by a few rotations."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from regard.core.errors import BadInput
from regard.experiments.findings.finding import (
    CannotShow,
    CheckInputs,
    DataUsed,
    Evidence,
    Finding,
    Judgement,
)
from regard.inside.number_spectrum import TOP, NumberSpectrum, number_vectors
from regard.training.metrics_log import LOG, read_log, read_watch, watch_log
from regard.views.line_chart import Chart, ChartLine, round_ticks

MEMORISED = 0.1  # nats: the training loss from which on the examples count as known by heart
HALF, SOLVED = 50.0, 95.0  # percent of the other pairs
LATER = 2.0  # times the steps of memorising
SHARE = 0.5  # of the power of the embedding at five frequencies


class GrokkingSteps(NamedTuple):
    """Steps at which a run knew its examples by heart, and added other pairs; None: never.

    ``before`` is the accuracy on other pairs, in percent, when the examples were known.
    """

    memorised: int | None
    solved: int | None
    before: float
    last: float

    @classmethod
    def of_log(cls, events: Sequence[Mapping[str, str | float]]) -> "GrokkingSteps":
        """Steps of the log of a run."""
        train = [(int(e["step"]), float(e["nll"])) for e in events if e["event"] == "train"]
        dev = [(int(e["step"]), float(e["accuracy"])) for e in events if "accuracy" in e]
        if not train or not dev:
            raise CannotShow("its log has no training losses, or no accuracies")
        memorised = next((step for step, nll in train if nll < MEMORISED), None)
        solved = next((step for step, accuracy in dev if accuracy >= SOLVED), None)
        earlier = [accuracy for step, accuracy in dev if memorised is None or step <= memorised]
        return cls(memorised, solved, earlier[-1] if earlier else 0.0, dev[-1][1])


def measure(inputs: CheckInputs) -> Evidence:
    """Curves of a run, and the frequencies of its embedding of numbers."""
    (run,) = inputs.data
    events, reports = read_log(run), read_watch(run, "numbers")
    if not reports:
        raise BadInput(f"{watch_log(run, 'numbers')}: has no report yet")
    steps = GrokkingSteps.of_log(events)
    try:
        spectrum = NumberSpectrum.of(number_vectors(inputs.loaded))
    except BadInput as error:
        raise CannotShow(str(error)) from None
    shares = [(float(report["step"]), float(report["top share"])) for report in reports]
    accuracies = [(float(e["step"]), float(e["accuracy"])) for e in events if "accuracy" in e]
    first, last = shares[0][1], shares[-1][1]
    return Evidence(
        _summary(steps, spectrum),
        judge(steps, spectrum.top_share),
        DataUsed.of_run(run, [run / LOG, watch_log(run, "numbers")]),
        ["frequency", "share of the power"],
        [[str(at), f"{spectrum.shares[at - 1]:.3f}"] for at in spectrum.top],
        [
            _chart("accuracy on pairs that were not trained, in percent", accuracies),
            _chart(f"share of the power of the embedding at {TOP} frequencies", shares),
        ],
        [f"share at {TOP} frequencies: {first:.2f} before the first step, {last:.2f} at the last"],
    )


def judge(steps: GrokkingSteps, share: float) -> Judgement:
    """Reproduced if other pairs are solved late, and few frequencies have most of the power."""
    if steps.memorised is None:
        return Judgement("not reproduced", "the training examples are never known by heart")
    if steps.solved is None:
        reason = f"accuracy on other pairs is {steps.last:.1f}% at the last step"
        return Judgement("not reproduced", f"{reason}, below {SOLVED:.0f}%")
    if steps.before >= HALF or steps.solved < LATER * steps.memorised:
        known = f"examples are known at step {steps.memorised:,}, {steps.before:.1f}% of others"
        return Judgement("not reproduced", f"{known}, and these solved at step {steps.solved:,}")
    if share < SHARE:
        return Judgement("not reproduced", f"{TOP} frequencies have {share:.0%} of the power only")
    late = f"solved at step {steps.solved:,}, {steps.solved / steps.memorised:.1f} times as late"
    return Judgement("reproduced", f"{late}; {TOP} frequencies have {share:.0%} of the power")


def _summary(steps: GrokkingSteps, spectrum: NumberSpectrum) -> str:
    known = "never" if steps.memorised is None else f"at step {steps.memorised:,}"
    solved = "never" if steps.solved is None else f"at step {steps.solved:,}"
    power = f"{spectrum.top_share:.0%} of the power at {TOP} of {len(spectrum.shares)} frequencies"
    return f"examples known {known} (others {steps.before:.1f}%), others solved {solved}; {power}"


def _chart(title: str, points: Sequence[tuple[float, float]]) -> str:
    last = points[-1][0]
    ticks = [(x, f"{x:,.0f}") for x in round_ticks(0.0, last) if x <= last]
    return Chart(title, "step", "", ticks, [ChartLine("", points)], fitted=True).svg()


FINDING = Finding(
    name="grokking",
    paper="Nanda et al., 2023, arXiv:2301.05217",
    year=2023,
    claim="a one-layer Transformer that adds modulo 113 knows its examples by heart long before it "
    "adds other pairs, and then does so with a few frequencies of a Fourier transform",
    published="5 key frequencies; examples are known by heart after about 1,400 of 40,000 steps, "
    "other pairs are added rightly after about 9,400",
    rule="a training loss below 0.1 nats at a step at which accuracy on other pairs is below 50%; "
    "an accuracy of 95% on them, first reached after twice as many steps or more; and half of the "
    "power of the embedding of numbers at five frequencies",
    model="a model of sums modulo a prime, such as that of the recipe grokking",
    data=("folder of its run, with reports on numbers",),
    measure=measure,
)
