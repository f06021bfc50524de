"""What happens in a training run, as the loop tells it."""

from dataclasses import dataclass

from regard.training.checkpoint import RunProgress
from regard.training.precision import Precision


@dataclass(frozen=True)
class DevResult:
    """What the development set says. ``value`` is better when higher; ``figures`` are shown."""

    value: float
    figures: dict[str, float]


@dataclass(frozen=True)
class StartEvent:
    """The first event: where the run begins, and what differs from how it ran before."""

    progress: RunProgress
    precision: Precision
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReportEvent:
    """Means over the steps since the last report."""

    progress: RunProgress
    loss: float
    nll: float
    rate: float
    gradient: float
    tokens_per_second: float
    seconds_left: float
    fill: float


@dataclass(frozen=True)
class DevEvent:
    """The development set was asked."""

    progress: RunProgress
    verdict: DevResult
    best: bool


@dataclass(frozen=True)
class SaveEvent:
    """A checkpoint was written."""

    progress: RunProgress


@dataclass(frozen=True)
class EndEvent:
    """The last event."""

    progress: RunProgress
    reason: str


Event = StartEvent | ReportEvent | DevEvent | SaveEvent | EndEvent
