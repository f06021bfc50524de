"""Tasks: everything that a recipe can train a model for. Each is one file, from reading to scores.

A task names the tables of a recipe that it reads, resolves the model, makes examples of files,
chooses head and objective, and scores a model on the development set and on test sets. The training
loop is independent of tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.data.batches.training_data import ProcessRank, TrainingData, split_held_out
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import ExampleContent
from regard.data.readers.fields import DropCounts
from regard.data.readers.text_files import STDIN
from regard.generation.step import Search
from regard.inference.decoder_model import WrittenText
from regard.inference.encoder_model import EncoderModel
from regard.inference.predictor import Predictor
from regard.metrics.classification import Confusion, LabelScore
from regard.metrics.translation import MetricScore
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.loaded_model import LoadedModel
from regard.models.macs import RowLengths
from regard.models.paper import Paper
from regard.objectives.objective import Objective
from regard.tasks.plan import Plan, Tables
from regard.tasks.run_paths import STDIN_COPY, RunPaths
from regard.text.label_sets import LabelSet

Example = TypeVar("Example")
AnyReading = TypeVar("AnyReading", bound=Reading)
Announced = TypeVar("Announced", bound=Mapping[str, object] | float)  # by JSON: no tuples


class Processes(ProcessRank, Protocol):
    """The processes of a run: see ``regard.training.distributed``."""

    def all_reduce(self, sums: Tensor) -> Tensor: ...
    def from_leader(self, compute: Callable[[], Announced]) -> Announced: ...


class TrainedModel(Protocol):
    """A loaded model that is scored: see ``regard.tasks.components.Runner``."""

    facts: ModelFacts
    notes: dict[str, object]

    @property
    def encoder(self) -> EncoderModel: ...
    @property
    def predictor(self) -> Predictor: ...
    def translate(self, texts: list[str], search: Search) -> Sequence[Sequence[WrittenText]]: ...
    def generate(self, prompts: list[str], search: Search) -> Sequence[Sequence[WrittenText]]: ...


@dataclass(frozen=True, eq=False)
class Prepared(Generic[AnyReading]):
    """Prepared data of a run: a tokenizer or image processor, a dataset, and labels if any."""

    reading: AnyReading
    dataset: TrainingData
    labels: LabelSet | None = None


@dataclass(frozen=True, eq=False)
class PreparedModel(Prepared[AnyReading]):
    """Prepared data, with paper and facts of the model, which evaluation runs on texts."""

    paper: Paper = field(kw_only=True)
    facts: ModelFacts = field(kw_only=True)

    def loaded(self, module: nn.Module, notes: dict[str, object]) -> LoadedModel:
        """The model with the weights of a module, as if read from a folder with these notes."""
        return LoadedModel(self.paper, self.facts, module, self.reading, notes=notes)


class DevScores(NamedTuple):
    """The loss of the development set and its metrics by name; ``remark``: about predictions."""

    figures: dict[str, float]
    remark: str = ""


class TaskScores(NamedTuple):
    """Scores on a test set, with scores of each label and a confusion matrix for classifiers."""

    scores: list[MetricScore]
    of_labels: Sequence[LabelScore] = ()
    confusion: Confusion | None = None


class Task(ABC, Generic[Example, AnyReading]):
    """A task of a recipe.

    ``own_tables`` are the tables of recipes that it reads beside the common ones, by name.
    ``train.metric`` may name one of its ``dev_metrics``, ``expect.metric`` one of its
    ``test_metrics``.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "examples"  # what its data consists of
    own_tables: ClassVar[Mapping[str, type[Config]]] = {}
    dev_metrics: ClassVar[tuple[str, ...]] = ()
    test_metrics: ClassVar[tuple[str, ...]] = ()
    has_intervals: ClassVar[bool] = False  # whether scores on test sets have intervals by default
    reads_links: ClassVar[bool] = False  # pairs of sentences, with links of words (data.links)
    mixes_corpora: ClassVar[bool] = False  # whether ``data.mix`` applies
    default_smoothing: ClassVar[float] = 0.0  # of labels, where the recipe has no train.smoothing

    def __init__(self, tables: Tables):
        self.tables = tables

    @property
    def allows_smoothing(self) -> bool:
        """Whether label smoothing applies: to classes, not to numbers or positions."""
        return True

    @property
    def longest_row(self) -> int:
        """The maximum number of tokens of a row, which positions must allow."""
        return self.tables.batches.longest

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
        return self.tables.data.train.has_pairs

    def unread_keys(self) -> Iterator[UnusableKey]:
        """Keys that the recipe sets but no code reads, given its other keys."""
        yield from ()

    @abstractmethod
    def resolve(self, data: Path) -> Plan:
        """The plan of the recipe: its model, except for sizes that depend on the data."""

    @abstractmethod
    def read(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> list[Example]:
        """The examples of files that the recipe names."""

    @abstractmethod
    def content(self, example: Example) -> ExampleContent:
        """The parts of an example that facts of the data are about."""

    def split_labels(self, contents: Iterable[ExampleContent]) -> Sequence[Sequence[str]]:
        """Labels of each example that a split must leave in training; empty: any split will do."""
        return ()

    def contents(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> Iterator[ExampleContent]:
        """The parts of all examples of files."""
        return map(self.content, self.read(files, data, dropped))

    def train_contents(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> Iterator[ExampleContent]:
        """The parts of all examples of training files, of every corpus."""
        folders = self.tables.data.corpora(data).values()
        return chain.from_iterable(self.contents(files, folder, dropped) for folder in folders)

    def read_required(self, name: str, data: Path, dropped: DropCounts | None) -> list[Example]:
        """Examples of the test set of this name; an empty one is refused."""
        files = self.tables.data.tests[name]
        files.check_files(data, name)
        if files.held_out:
            return self.read_held_out(files.held_out, data, dropped)
        examples = self.read(files, data, dropped)
        files.require(examples, name, self.unit)
        return examples

    def read_held_out(
        self, count: int, data: Path, dropped: DropCounts | None = None
    ) -> list[Example]:
        """Examples of train that training holds out for dev, given the same files."""
        train = self.tables.data.train
        if train.has_pairs and STDIN in train.under(Path()).paths:
            raise BadInput("data.train: standard input; what was held out from it is not stored")
        train.check_files(data, "train")
        examples = self.read(train, data, dropped)
        return split_held_out(examples, count, self.split_labels(map(self.content, examples)))[1]

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        """Return the size of each test set; refuse bad test sets before anything is written.

        Files of the other sets must be there.
        """
        self.tables.data.check_files(data)
        return {
            name: len(self.read_required(name, data, DropCounts() if skip_bad else None))
            for name in self.tables.data.tests
        }

    @abstractmethod
    def prepare(self, plan: Plan, paths: RunPaths) -> Prepared[AnyReading]:
        """Tokenizer, labels and examples; the leader writes them, all processes read them."""

    def train_files(self, paths: RunPaths) -> FilesConfig:
        """Files of ``data.train``, with a copy of standard input, since training reads it again."""
        copy = paths.out / STDIN_COPY
        return self.tables.data.train.without_stdin(copy, again=not paths.fresh)

    def prepare_module(self, module: nn.Module, prepared: Prepared[AnyReading]) -> None:
        """Change a new module before its first step; default: it stays as it was built."""

    @abstractmethod
    def objective(self, prepared: Prepared[AnyReading]) -> Objective:
        """The training objective."""

    def dev_inputs(
        self, prepared: Prepared[AnyReading], paths: RunPaths, count: int
    ) -> list[tuple[object, ...]]:
        """The first inputs of the development set: a text, two texts of one row, or an image."""
        examples = prepared.dataset.dev_examples[:count]
        return [self.content(example).inputs[:2] for example in examples]

    def flops(self, facts: ModelFacts, lengths: RowLengths) -> float:
        """Number of floating-point operations of one step over examples of these lengths."""
        return facts.training_flops(lengths)

    @abstractmethod
    def evaluate_dev(
        self, prepared: Prepared[AnyReading], processes: Processes, model: nn.Module
    ) -> DevScores:
        """The loss of the development set, and its metrics by name."""

    @abstractmethod
    def test_scores(
        self, model: TrainedModel, examples: Sequence[Example], with_interval: bool = False
    ) -> TaskScores:
        """The scores of a loaded model on the examples of a test set."""

    def notes(self) -> dict[str, object]:
        """Settings of the recipe that are saved with the model, because inference needs them."""
        return self.tables.data.train.input_columns(self.name).notes


def mean_nll(
    objective: Objective, batches: Iterable[Batch], model: nn.Module, processes: Processes
) -> float:
    """The negative log-likelihood of the batches of all processes together; 0 without targets."""
    sums = torch.zeros(2, dtype=torch.float64, device=processes.device)
    with torch.inference_mode():
        for batch in batches:
            sums[0] += objective(model, batch)[1]
            sums[1] += batch.weight
    total, weight = processes.all_reduce(sums).tolist()
    return total / weight if weight else 0.0
