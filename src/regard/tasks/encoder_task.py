"""Base class of classify, tag, answer and choose: examples in memory, scores on dev and test sets.

Each adds what it reads, its head, its targets, its objective, its predictor and its scores.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
from torch import nn

from regard.core.config import UnusableKey
from regard.core.errors import BadInput
from regard.core.reading import RowReading
from regard.data.batches.memory_dataset import MemoryDataset, UnknownWordRows
from regard.data.batches.training_data import Dataset, TrainingData, split_held_out
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import Example as FileExample
from regard.data.readers.examples import ExampleContent
from regard.data.readers.fields import DropCounts
from regard.inference.embed import Embedder
from regard.inference.encoder_model import EncoderModel, smallest
from regard.inference.predictor import Predictor
from regard.inference.role_labeller import MARKS, PREDICATES
from regard.models.folders.hf import PREDICTION_KEYS
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.start import read_model
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_distillation import (
    LabelDistillation,
    LabelDistillationConfig,
    with_teacher,
    without_teacher,
)
from regard.objectives.label_losses import Classification
from regard.objectives.objective import Objective
from regard.tasks.labels import AnyLabelsConfig
from regard.tasks.plan import Plan, resolve_trunk
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import (
    DevScores,
    Example,
    Prepared,
    Processes,
    Task,
    TaskScores,
    TrainedModel,
    mean_nll,
)
from regard.text.label_sets import LABEL_SETS, LabelSet
from regard.text.long_texts import LONG_TEXTS
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Sentence

Input = TypeVar("Input", bound=RowReading)
AnyPredictor = TypeVar("AnyPredictor", bound=Predictor | Embedder)
Labels = TypeVar("Labels", bound=LabelSet | None)

Encoded = tuple[Any, Any]  # a row, or the rows of an example, and the target


class EncoderTask(Task[Example, Input], Generic[Example, Input, AnyPredictor, Labels]):
    """A task of a trunk with one head.

    If it has a table "labels", its predictions are labels (or numbers) of a ``LabelSet``; if it has
    a table "distillation", predictions of a teacher can be learned as well.
    """

    has_intervals = True
    head: ClassVar[type[AnyHead]]
    predictor_class: ClassVar[type[Predictor]]
    drawn: ClassVar[tuple[str, ...]] = ()  # keys of [text] that it draws by in training
    saved_settings: ClassVar[tuple[str, ...]] = ()  # of the predictor, saved in ``notes``
    default_length: ClassVar[int | None] = None  # of rows, for models without ``notes``

    @property
    def single_label(self) -> bool:
        labels = self.tables.find(AnyLabelsConfig)
        return labels is not None and LABEL_SETS[labels.kind].single_label

    def split_labels(self, contents: Iterable[ExampleContent]) -> Sequence[Sequence[str]]:
        return [content.labels for content in contents] if self.single_label else ()

    @property
    def allows_smoothing(self) -> bool:
        return self.single_label

    @property
    def distillation(self) -> LabelDistillationConfig | None:
        """The table ``distillation``, if it names a teacher."""
        config = self.tables.find(LabelDistillationConfig)
        return None if config is None or config.teacher is None else config

    def unread_keys(self) -> Iterator[UnusableKey]:
        yield from self.tables.unread_text_keys(self.tables.tokenizer_key, self.drawn)
        table, config = self.tables.find(LabelDistillationConfig), self.distillation
        for key in () if table is None else sorted(table.model_fields_set):
            if config is None and key != "teacher":
                yield UnusableKey(f"distillation.{key}", "without distillation.teacher")
            elif config is not None and not self.single_label:
                why = "where a text, or a word, has not one label of several"
                yield UnusableKey(f"distillation.{key}", why)
            elif config is not None and config.is_hard and key == "temperature":
                why = 'where distillation.kind is "hard"'
                yield UnusableKey("distillation.temperature", why)

    def resolve(self, data: Path) -> Plan:
        teacher = self._teacher(data)
        plan = resolve_trunk(self.tables, data, self.heads, add_pool=True)
        taught = plan.facts if teacher is None else teacher.facts
        if taught.encoder.embed.reads_images != plan.facts.encoder.embed.reads_images:
            raise BadInput(
                "distillation.teacher: one of teacher and student reads texts, the other images"
            )
        return replace(plan, teacher=teacher)

    def _teacher(self, data: Path) -> LoadedModel | None:
        """Fine-tuned teacher model of a distillation, if the recipe names one."""
        if (config := self.distillation) is None or config.teacher is None:
            return None
        teacher = read_model("distillation.teacher", config.teacher, data, hub=True)
        where = f"distillation.teacher: {config.teacher}"
        if self.head.name not in teacher.facts.head_names or teacher.labels is None:
            raise BadInput(f"{where} was not fine-tuned for task {self.name!r}")
        if teacher.tokenizer is None:
            raise BadInput(f"{where} has no tokenizer files")
        return teacher

    @abstractmethod
    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        """Heads of the task over a trunk, with one output each; the labels later set the number."""

    @abstractmethod
    def texts(self, example: Example) -> Iterable[Sentence]:
        """The texts of an example, or their words, from which a tokenizer may be trained."""

    def label_set(self, examples: Sequence[Example]) -> Labels:
        """The labels of the examples, if the task has labels."""
        return cast(Labels, None)

    @abstractmethod
    def encode(self, reading: Input, labels: Labels, examples: Sequence[Example]) -> list[Encoded]:
        """(row, target) for each example; a long example may give several."""

    def encode_training(
        self, reading: Input, labels: Labels, examples: Sequence[Example]
    ) -> tuple[list[Encoded], str]:
        """Encoded training examples, and a remark on those longer than a row; empty: none is."""
        return self.encode(reading, labels, examples), ""

    @abstractmethod
    def make_objective(self, labels: Labels, encoded: Sequence[Encoded]) -> Objective:
        """The objective, with class weights that may depend on the encoded examples."""

    def teacher_logits(
        self, teacher: AnyPredictor, reading: Input, examples: Sequence[Example]
    ) -> list[np.ndarray]:
        """Logits of the teacher for each target of each encoded example."""
        raise NotImplementedError

    def row_length(self, reading: RowReading) -> int:
        """The maximum length of a row: ``batches.longest``, or the limit of the tokenizer."""
        longest = self.tables.batches.longest
        return min(longest, reading.longest or longest)

    @classmethod
    def row_limit(
        cls, reading: RowReading, max_length: int | None, notes: Mapping[str, object]
    ) -> int | None:
        """The length at which rows are truncated, or divided into windows."""
        return max_length

    @classmethod
    def predictor(
        cls,
        model: nn.Module,
        reading: RowReading,
        labels: LabelSet | None,
        max_length: int | None,
        notes: Mapping[str, object],
    ) -> Predictor:
        """The predictor of a trained model, with the settings of its training (``notes``)."""
        settings: dict[str, Any] = {
            name: notes[name] for name in cls.saved_settings if name in notes
        }
        if (limit := cls.row_limit(reading, max_length, notes)) is not None:
            settings["max_length"] = limit
        return cls.predictor_class(model, reading, labels, **settings)

    @classmethod
    def predictor_of(cls, runner: EncoderModel) -> Predictor:
        """Predictor of a loaded model, with the settings of training if config.json stores them."""
        notes = _checked_notes(runner.notes)
        if "labels" in cls.own_tables and runner.labels is None:
            raise BadInput("this folder has no labels: predictions have no names")
        longest = cast(int | None, notes.get("longest", cls.default_length))
        max_length = smallest(runner.truncation, longest)
        predictor = cls.predictor(runner.module, runner.reading, runner.labels, max_length, notes)
        limit = predictor.max_length if runner.max_length is None else max_length
        return replace(predictor, batch_size=runner.batch_size, max_length=limit)

    @abstractmethod
    def score(
        self, predictor: AnyPredictor, examples: Sequence[Example], with_interval: bool = False
    ) -> TaskScores:
        """Scores of a predictor on examples."""

    def read(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> list[Example]:
        return [*cast(Iterator[Example], files.read(data, self.name, dropped))]

    def content(self, example: Example) -> ExampleContent:
        return cast(FileExample, example).content

    def read_inputs(
        self, plan: Plan, paths: RunPaths, texts: Callable[[], Iterable[Sentence]]
    ) -> Input:
        """Tokenizer or image processor of the model, by the plan."""
        return cast(Input, plan.read_texts(paths, texts))

    def training_set(
        self, reading: Input, examples: Sequence[Example], encoded: Sequence[Encoded]
    ) -> Dataset:
        """Training examples as a dataset: the same rows in every epoch, except unknown words."""
        rate, tables = self.tables[EncoderTextConfig].unknown, self.tables
        if not rate:
            return MemoryDataset(encoded)
        return UnknownWordRows(encoded, cast(RowTokenizer, reading).words.unk, rate, tables.seed)

    def keep_in_memory(self, reading: Input, examples: list[Example]) -> list[Example]:
        """Development examples in a form that is quick to read in every evaluation."""
        return examples

    def prepare(self, plan: Plan, paths: RunPaths) -> Prepared[Input]:
        data, dropped = self.tables.data, DropCounts()
        train = self.read(self.train_files(paths), paths.data, dropped if paths.skip_bad else None)
        data.train.require(train, "train", self.unit)
        if data.dev.held_out:
            labels_of = self.split_labels(map(self.content, train))
            train, dev = split_held_out(train, data.dev.held_out, labels_of)
        else:
            dev = self.read(data.dev, paths.data, paths.dropping())
            data.dev.require(dev, "dev", self.unit)
        texts = chain.from_iterable(map(self.texts, train))
        reading, labels = self.read_inputs(plan, paths, lambda: texts), self.label_set(train)
        dev = self.keep_in_memory(reading, dev)
        encoded, long_texts = self.encode_training(reading, labels, train)
        dev_encoded = self.encode(reading, labels, dev)
        for files in data.tests.values():  # wrong targets are found before training
            self.encode(reading, labels, self.read(files, paths.data, paths.dropping()))
        if plan.teacher is not None and labels is not None:
            logits_NV = self._teacher_logits(plan.teacher, paths, reading, labels, train)
            encoded = _with_logits(encoded, logits_NV, len(labels), paths)
        dataset = TrainingData(
            batching=self.tables.batching,
            train=self.training_set(reading, train, encoded),
            dev=dev_encoded,
            sizes={"train": len(train), "dev": len(dev)},
            dropped=dropped,
            dev_examples=dev,
            long_texts=long_texts,
        )
        return Prepared(reading, dataset, labels)

    def _teacher_logits(
        self,
        teacher: LoadedModel,
        paths: RunPaths,
        reading: Input,
        labels: LabelSet,
        examples: Sequence[Example],
    ) -> np.ndarray:
        """The logits of the teacher for all targets of the examples, in the order of our labels."""
        theirs = cast(LabelSet, teacher.labels)
        if (order := labels.order_in(theirs)) is None:
            line = f"its labels are {theirs.first_names}, not {labels.first_names}"
            raise BadInput(f"distillation.teacher: {line}")
        text = cast(RowReading, teacher.tokenizer)
        limit = teacher.facts.encoder.embed.limit
        longest = smallest(self.tables.batches.longest, text.longest, limit)

        def predict() -> np.ndarray:
            module = teacher.module.to(paths.device)
            predictor = self.predictor(module, text, theirs, longest, self.notes())
            logits = self.teacher_logits(cast(AnyPredictor, predictor), reading, examples)
            module.cpu()
            return np.concatenate(logits)[:, order].astype(np.float32)

        return paths.keep_array("teacher", predict)

    def objective(self, prepared: Prepared[Input]) -> Objective:
        labels = self._label_objective(prepared)
        if (config := self.distillation) is not None and prepared.labels is not None:
            weights, hard = (config.temperature, config.weight), config.is_hard
            labels = LabelDistillation(
                cast(Classification, labels), len(prepared.labels), *weights, hard=hard
            )
        return self.objective_of_inputs(labels, prepared.reading)

    def _label_objective(self, prepared: Prepared[Input]) -> Objective:
        examples = cast(Sequence[Encoded], prepared.dataset.train)
        if self.distillation is not None:
            examples = [without_teacher(example) for example in examples]
        return self.make_objective(cast(Labels, prepared.labels), examples)

    def objective_of_inputs(self, labels: Objective, reading: Input) -> Objective:
        """Objective of the labels, over the inputs that the model reads: texts or images."""
        return labels

    def evaluate_dev(
        self, prepared: Prepared[Input], processes: Processes, model: nn.Module
    ) -> DevScores:
        labels, dataset = self._label_objective(prepared), prepared.dataset
        objective = self.objective_of_inputs(labels, prepared.reading)
        loss = mean_nll(objective, dataset.dev_batches(objective, processes), model, processes)

        def scores() -> DevScores:
            read = prepared.reading, prepared.labels, self.row_length(prepared.reading)
            predictor = self.predictor(model, *read, self.notes())
            scored = self.score(cast(AnyPredictor, predictor), dataset.dev_examples)
            remark = "" if scored.confusion is None else scored.confusion.remark
            return DevScores({score.name: score.value for score in scored.scores}, remark)

        measured = DevScores(**processes.from_leader(lambda: scores()._asdict()))
        return DevScores({"loss": loss} | measured.figures, measured.remark)

    def notes(self) -> dict[str, object]:
        return {"longest": self.tables.batches.longest, **super().notes()}

    def test_scores(
        self, model: TrainedModel, examples: Sequence[Example], with_interval: bool = False
    ) -> TaskScores:
        has_head = self.head.name in model.facts.head_names
        if not has_head or model.predictor.name != self.predictor_class.name:
            heads = ", ".join(model.facts.head_names) or "none"
            remedy = f"choose a recipe of its task, or train it by this one (its heads: {heads})"
            raise BadInput(f"this model was not trained for task {self.name!r}; {remedy}")
        return self.score(cast(AnyPredictor, model.predictor), examples, with_interval)


def _with_logits(
    encoded: list[Encoded], logits_NV: np.ndarray, labels: int, paths: RunPaths
) -> list[Encoded]:
    """The encoded examples, each with the logits of the teacher for its targets."""
    ends = np.cumsum([len(targets) for _, targets in encoded])
    if logits_NV.shape != (ends[-1], labels):
        raise BadInput(
            f"{paths.store}: the teacher's stored logits are of other examples: delete them"
        )
    of_examples = np.split(logits_NV, ends[:-1])
    return [with_teacher(*both) for both in zip(encoded, of_examples, strict=True)]


def _is_whole(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and value >= least


LIMITS: dict[str, tuple[Callable[[object], bool], str]] = {
    "long": (lambda value: value in [*LONG_TEXTS], " or ".join(map(repr, LONG_TEXTS))),
    "mark": (lambda value: value in MARKS, " or ".join(map(repr, MARKS))),
    "predicates": (lambda value: value in PREDICATES, " or ".join(map(repr, PREDICATES))),
    "stride": (lambda value: _is_whole(value, 0), "an integer of at least 0"),
    "threshold": (lambda value: isinstance(value, int | float | None), "a number or null"),
    "segment": (lambda value: _is_whole(value, 0), "an integer of at least 0"),
    "single_above": (lambda value: isinstance(value, int | float | None), "a number or null"),
}


def _checked_notes(notes: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of predictors stored in config.json (``notes``); refuse bad values."""
    checked = {name: notes[name] for name in PREDICTION_KEYS if name in notes}
    for name, value in checked.items():
        fits, limit = LIMITS.get(name, (_is_whole, "an integer of at least 1"))
        if not fits(value) or isinstance(value, bool):
            raise BadInput(f"config.json: notes.{name} must be {limit}, not {value!r}")
    return checked
