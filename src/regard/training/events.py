"""What happens in a training run, as the loop tells it."""

from dataclasses import dataclass

from regard.training.checkpoint import Progress
from regard.training.precision import Precision


@dataclass(frozen=True)
class Verdict:
    """What the development set says. ``value`` is better when higher; ``figures`` are shown."""

    value: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Started:
    """The first event: where the run begins, and what differs from how it ran before."""

    progress: Progress
    precision: Precision
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reported:
    """Means over the steps since the last report."""

    progress: Progress
    loss: float
    nll: float
    rate: float
    gradient: float
    tokens_per_second: float
    seconds_left: float
    fill: float


@dataclass(frozen=True)
class Judged:
    """The development set was asked."""

    progress: Progress
    verdict: Verdict
    best: bool


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written."""

    progress: Progress


@dataclass(frozen=True)
class Ended:
    """The last event."""

    progress: Progress
    reason: str


Event = Started | Reported | Judged | Saved | Ended
