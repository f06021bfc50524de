"""Tasks: what a recipe can train a model for. Each is one file, from reading to scores.

A task names the tables of a recipe that it reads, makes examples of files, chooses head and
objective, and scores a model on the development set and on test sets. The training loop knows none
of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.data.datasets.dataset import ProcessRank
from regard.data.files.fields import DropCounts
from regard.ground.batch import Batch
from regard.ground.config import Config
from regard.ground.errors import BadInput
from regard.metrics.classification import Confusion
from regard.metrics.precision_recall import LabelScore
from regard.metrics.translation import MetricScore
from regard.models.encoder_decoder import ModelFacts
from regard.models.paper import Paper
from regard.tasks.run_paths import STDIN_COPY, RunPaths
from regard.text.labels import LabelSet

Table = TypeVar("Table", bound=Config)
Computed = TypeVar("Computed")


class Processes(ProcessRank, Protocol):
    """The processes of a run: see ``regard.training.distributed``."""

    def all_reduce(self, sums: Tensor) -> Tensor: ...
    def from_leader(self, compute: Callable[[], Computed]) -> Computed: ...


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a task has made of its files: a tokenizer, labels if it has any, and a dataset."""

    tokenizer: Any
    labels: LabelSet | None
    dataset: Any


class TaskScores(NamedTuple):
    """Scores on a test set; where there are labels also how well each is found, and, if examples
    are classified, which are taken for which.
    """

    scores: list[MetricScore]
    of_labels: Sequence[LabelScore] = ()
    confusion: Confusion | None = None


class Task(ABC):
    """A task of a recipe.

    ``tables`` are the tables of recipes that it reads beside the common ones, by name. Weights can
    be chosen by its ``dev_metrics``, and a recipe may expect one of its ``test_metrics``.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "examples"  # what its data consists of
    tables: ClassVar[Mapping[str, type[Config]]] = {}
    dev_metrics: ClassVar[tuple[str, ...]] = ()
    test_metrics: ClassVar[tuple[str, ...]] = ()
    has_intervals: ClassVar[bool] = False  # whether scores on test sets have intervals by default
    has_ladders: ClassVar[bool] = False  # whether models of it can be compared in one table

    def __init__(self, recipe: Any):
        self.recipe = recipe

    def table(self, kind: type[Table]) -> Table:
        """The table of the recipe that has this type."""
        return self.recipe.table(kind)

    @property
    def allows_smoothing(self) -> bool:
        """Whether label smoothing applies: to classes, not to numbers or positions."""
        return True

    @property
    def single_label(self) -> bool:
        """Whether it predicts one label of several, so that each label has scores of its own."""
        return False

    @property
    def metrics(self) -> Collection[str]:
        """The metrics that are measured with the other keys of the recipe."""
        return {*self.dev_metrics, *self.test_metrics}

    @property
    def limits_characters(self) -> bool:
        """Whether it refuses texts of more than ``data.longest_characters``."""
        return bool(self.recipe.data.train.has_pairs)

    def unread_keys(self) -> Iterator[str]:
        """The keys that the recipe sets though nothing reads them, beside its other keys.

        Each may be followed by the reason: "text.vocab beside model.start".
        """
        train = self.recipe.train
        if "smoothing" in train.model_fields_set and train.smoothing and not self.allows_smoothing:
            yield "train.smoothing"
        data = self.recipe.data
        if "longest_characters" in data.model_fields_set and not self.limits_characters:
            yield "data.longest_characters where files have a reader, or documents"

    @abstractmethod
    def facts(self, data: Path) -> tuple[Paper, ModelFacts]:
        """The model of the recipe, except for what depends on the data."""

    def read(self, files: Any, data: Path, dropped: DropCounts | None = None) -> list[Any]:
        """The examples of files that the recipe names."""
        return [*files.read(data, self.name, dropped)]

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """The size of each test set; a bad one is refused before anything is written."""
        sizes = {}
        for name, files in self.recipe.data.tests.items():
            examples = self.read(files, data, DropCounts() if skip_bad else None)
            files.require(examples, name, self.unit)
            sizes[name] = len(examples)
        return sizes

    @abstractmethod
    def prepare(self, folder: RunPaths) -> Prepared:
        """Tokenizer, labels and examples; the leader writes them, all processes read them."""

    def train_files(self, folder: RunPaths) -> Any:
        """The files of ``data.train``; standard input is copied: training reads it again."""
        copy = folder.out / STDIN_COPY
        return self.recipe.data.train.without_stdin(copy, again=not folder.fresh)

    @abstractmethod
    def fit(self, facts: Any, prepared: Prepared) -> ModelFacts:
        """The facts with the sizes that the data decides."""

    def begin(self, model: nn.Module, data: Path, prepared: Prepared) -> tuple[str, ...]:
        """Take over weights from files of the recipe; returns remarks about them, for people."""
        return ()

    @abstractmethod
    def objective(self, prepared: Prepared) -> Any:
        """What is learned."""

    def flops(self, facts: ModelFacts, lengths: Sequence[tuple[int, ...]]) -> float:
        """Operations of one step over examples of these lengths."""
        return facts.training_flops(lengths)

    @abstractmethod
    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        """The loss of the development set, and its metrics by name."""

    def test_scores(
        self, model: Any, examples: Sequence[Any], with_interval: bool = False
    ) -> TaskScores:
        """The scores of a loaded model on the examples of a test set."""
        raise BadInput(f"task {self.name!r} has no test sets")

    def notes(self) -> dict[str, Any]:
        """What the model must remember of its recipe to be used as it was trained."""
        return {}


def mean_nll(
    objective: Any, batches: Iterable[Batch], model: nn.Module, processes: Processes
) -> float:
    """The negative log-likelihood of the batches of all processes together."""
    sums = torch.zeros(2, dtype=torch.float64, device=processes.device)
    with torch.inference_mode():
        for batch in batches:
            sums[0] += objective(model, batch)[1]
            sums[1] += batch.weight
    total, weight = processes.all_reduce(sums).tolist()
    return total / weight
