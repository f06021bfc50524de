"""The job of a run, and the events that the loop yields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import nn

from regard.core.errors import one_line
from regard.core.files import JSON
from regard.data.batches.sampler import BatchSampler
from regard.metrics.translation import MetricScore
from regard.models.macs import RowLengths
from regard.objectives.objective import Objective
from regard.training.checkpoint import Checkpoints, RunProgress
from regard.training.distributed import World
from regard.training.precision import Precision
from regard.training.recipe import Recipe

REASONS = {
    "steps": "all steps done",
    "time": "the time budget is used up",
    "patience": "the development set stopped improving",
    "request": "stopped on request; everything is saved",
}


@dataclass(frozen=True)
class DevResult:
    """Result on the development set: a higher ``value`` is better.

    ``figures`` are printed, and the ``remark`` about predictions, if there is one.
    """

    value: float
    figures: dict[str, float]
    remark: str = ""

    def __str__(self) -> str:
        return "dev " + "  ".join(f"{name} {value:.4g}" for name, value in self.figures.items())


@dataclass(frozen=True)
class Event:
    """Base class of events of a run, with its progress."""

    is_last: ClassVar[bool] = False
    error: ClassVar[bool] = False
    progress: RunProgress

    @property
    def figures(self) -> dict[str, str | float]:
        """Logged values: the type of event, the step, and numbers by name."""
        return {}

    @property
    def reports(self) -> dict[str, dict[str, JSON]]:
        """Lines of the logs of watches, by name."""
        return {}

    def lines(self, steps: int = 0) -> list[str]:
        """Printed lines; ``steps`` is the length of the run, 0 if it is not known."""
        return []

    def __str__(self) -> str:
        return one_line("; ".join(self.lines()))


@dataclass(frozen=True)
class StartEvent(Event):
    """The first event: the start of the run, and the settings changed since its last checkpoint.

    ``remarks`` are about long texts, a warm-up that is longer than the run, and weights that were
    copied; of a run that is resumed, about another number of steps.
    """

    precision: Precision
    differences: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def lines(self, steps: int = 0) -> list[str]:
        lines = [f"precision {self.precision.kind} ({self.precision.why})"]
        if self.progress.step:
            lines.append(f"resumed after step {self.progress.step:,}")
        lines += self.remarks
        if self.differences:
            differences = "; ".join(self.differences)
            lines.append(f"not bit-exact with the interrupted run: {differences}")
        return lines


@dataclass(frozen=True)
class ReportEvent(Event):
    """Means over the steps since the last report; ``rate`` is the learning rate of the last step.

    Tokens include special tokens and no padding; ``fill`` is their share of ``batches.tokens``.
    ``counted`` is the unit: a dataset of images counts images. The loss is a sum over the parts of
    the objective; those that are ``absent`` had no targets and add 0.
    """

    loss: float
    nll: float
    rate: float
    gradient: float
    tokens_per_second: float
    seconds_left: float
    fill: float
    counted: str = "tok"
    absent: tuple[str, ...] = ()

    @property
    def figures(self) -> dict[str, str | float]:
        return {
            "event": "train",
            "step": self.progress.step,
            "loss": self.loss,
            "nll": self.nll,
            "rate": self.rate,
            "gradient": self.gradient,
            "tokens": self.progress.tokens,
            "tokens_per_second": self.tokens_per_second,
            "fill": self.fill,
            "seconds": self.progress.seconds,
            "flops": self.progress.flops,
            **{f"{name} examples": count for name, count in self.progress.corpora.items()},
        }

    def lines(self, steps: int = 0) -> list[str]:
        length = f"/{steps:,}" if steps else ""
        return [
            f"step {self.progress.step:>6,}{length}  loss {self.loss:.4f}  nll {self.nll:.4f}  "
            f"rate {self.rate:.2e}  {self.tokens_per_second:,.0f} {self.counted}/s  "
            f"batches {self.fill:.0%} full  {self._corpora}{duration(self.seconds_left)} left"
            f"{self._no_targets}"
        ]

    @property
    def _no_targets(self) -> str:
        return f"  no targets: {', '.join(self.absent)}" if self.absent else ""

    @property
    def _corpora(self) -> str:
        """Shares of mixed corpora in the examples read so far."""
        total = max(1, sum(self.progress.corpora.values()))
        shares = self.progress.corpora.items()
        return "".join(f"{name} {count / total:.1%}  " for name, count in shares)


@dataclass(frozen=True)
class DevEvent(Event):
    """Event: the model was evaluated on the development set."""

    verdict: DevResult
    best: bool

    @property
    def figures(self) -> dict[str, str | float]:
        step, seconds = self.progress.step, self.progress.seconds
        return {"event": "dev", "step": step, **self.verdict.figures, "seconds": seconds}

    def lines(self, steps: int = 0) -> list[str]:
        remarks = ["(best)"] * self.best + [self.verdict.remark] * bool(self.verdict.remark)
        return ["  ".join([f"step {self.progress.step:>6,}", str(self.verdict), *remarks])]


@dataclass(frozen=True)
class WatchEvent(Event):
    """Event: the evaluated model was inspected; ``record`` is the line of the log ``watch``."""

    watch: str
    record: dict[str, JSON]

    @property
    def reports(self) -> dict[str, dict[str, JSON]]:
        return {self.watch: self.record}

    def __str__(self) -> str:
        seconds = self.record["seconds"]
        return f"step {self.progress.step:>6,}  {self.watch} reported in {seconds} s"


@dataclass(frozen=True)
class SaveEvent(Event):
    """Event: a checkpoint was written."""

    def __str__(self) -> str:
        return f"step {self.progress.step:>6,}  checkpoint written"


@dataclass(frozen=True)
class ScoreEvent(Event):
    """Event: the trained model was scored on a test set."""

    test_set: str
    scores: tuple[MetricScore, ...]

    def lines(self, steps: int = 0) -> list[str]:
        return [f"{self.test_set}  {score}" for score in self.scores]


@dataclass(frozen=True)
class EndEvent(Event):
    """The last event of a run."""

    is_last = True
    reason: str

    def lines(self, steps: int = 0) -> list[str]:
        return [f"ended after step {self.progress.step:,}: {REASONS[self.reason]}"]


def duration(seconds: float) -> str:
    """A duration as text: 1h02m, 3m20s or 45s."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"


Watch = Callable[[], Mapping[str, JSON]]
"""Report on the model of a job, in evaluation mode."""


@dataclass
class Job:
    """All parts of a run.

    ``flops`` counts the operations of a step over examples of these lengths. An ``eager`` model is
    neither compiled nor captured; batches of a model ``in_rectangles`` are padded on CUDA, and its
    steps captured by shape. ``data`` is a fingerprint of the training data, ``split_data`` a prefix
    of it that must not change if development examples are held out (else empty); ``remarks`` are
    about copied weights, ``long_texts`` about training texts longer than a row. ``check_folder`` is
    called before the leader writes. Each process has a part of the
    weights of a ``divided`` model. ``watches`` report on the model after each evaluation, by name.
    """

    recipe: Recipe
    model: nn.Module
    objective: Objective
    sampler: BatchSampler
    evaluate: Callable[[nn.Module], DevResult]
    flops: Callable[[RowLengths], float]
    checkpoints: Checkpoints
    world: World
    data: str = ""
    split_data: str = ""
    eager: bool = False
    in_rectangles: bool = False
    remarks: tuple[str, ...] = ()
    long_texts: str = ""
    check_folder: Callable[[], None] = lambda: None
    watches: Mapping[str, Watch] = field(default_factory=dict)
    divided: bool = False
    budget_seconds: float = float("inf")
    stop_requested: Callable[[], bool] = lambda: False

    @property
    def processes(self) -> int:
        """Number of processes among which slices of a step can be divided evenly."""
        distributed = self.recipe.distributed
        return distributed.shards if distributed.exact else self.world.size
