"""What classify, tag, answer and choose share: examples in memory, and scores on dev and test sets.

Each adds what it reads, its head, its targets, its objective, its predictor and its scores.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from torch import nn

from regard.data.datasets.dataset import Batching, Dataset, TrainingData, split_held_out
from regard.data.datasets.memory import MemoryDataset, UnknownWordRows
from regard.data.files.fields import DropCounts
from regard.ground.errors import BadInput
from regard.inference.batch_runner import Predictor
from regard.inference.encoder_model import EncoderModel, smallest
from regard.models.folders.hf import PREDICTION_KEYS
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import AnyHead
from regard.models.paper import Paper
from regard.models.pools import FirstToken, LastToken, MeanPool
from regard.models.start import read_model
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_distillation import (
    LabelDistillation,
    LabelDistillationConfig,
    with_teacher,
    without_teacher,
)
from regard.objectives.objective import Objective
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Processes, TaskScores, mean_nll
from regard.tasks.trunk_task import TrunkTask
from regard.text.config import EncoderTextConfig
from regard.text.labels import LABEL_SETS, LabelSet
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Sentence

Encoded = tuple[Any, Any]  # a row, or the rows of an example, and the target


class EncoderTask(TrunkTask):
    """A task of a trunk with one head.

    If ``tables`` has a table "labels", its predictions are labels (or numbers) of a ``LabelSet``;
    if it has a table "distillation", those of a teacher can be learned as well.
    """

    has_intervals = True
    head: ClassVar[type[AnyHead]]
    predictor_class: ClassVar[type[Predictor]]
    saved_settings: ClassVar[tuple[str, ...]] = ()  # of the predictor, saved in ``notes``
    default_length: ClassVar[int | None] = None  # of rows, for models without ``notes``

    @property
    def single_label(self) -> bool:
        labels: Any = self.tables.get("labels")
        return labels is not None and LABEL_SETS[self.table(labels).kind].single_label

    @property
    def allows_smoothing(self) -> bool:
        return self.single_label

    @property
    def distillation(self) -> LabelDistillationConfig | None:
        """The table ``distillation``, if it names a teacher."""
        table: Any = self.tables.get("distillation")
        config = None if table is None else self.table(table)
        return None if config is None or config.teacher is None else config

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        table: Any = self.tables.get("distillation")
        config = self.distillation
        for key in () if table is None else sorted(self.table(table).model_fields_set):
            if config is None and key != "teacher":
                yield f"distillation.{key} without distillation.teacher"
            elif config is not None and not self.single_label:
                yield f"distillation.{key} where a text, or a word, has not one label of several"
            elif config is not None and config.kind == "hard" and key == "temperature":
                yield 'distillation.temperature where distillation.kind is "hard"'

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        teacher, (of_paper, facts) = self.teacher(data), super().facts(data)
        taught = facts if teacher is None else teacher.facts
        if taught.encoder.embed.reads_images != facts.encoder.embed.reads_images:
            raise BadInput("distillation.teacher: one model reads texts, the other images")
        return of_paper, facts

    def teacher(self, data: Path) -> LoadedModel | None:
        """The fine-tuned model whose predictions are learned, if the recipe names one."""
        if (config := self.distillation) is None or config.teacher is None:
            return None
        teacher = read_model("distillation.teacher", config.teacher, data, hub=True)
        facts: Any = teacher.facts
        where = f"distillation.teacher: {config.teacher}"
        if self.head.name not in facts.head_names or teacher.labels is None:
            raise BadInput(f"{where} was not fine-tuned for task {self.name!r}")
        if teacher.tokenizer is None:
            raise BadInput(f"{where} has no tokenizer files")
        return teacher

    @abstractmethod
    def make_head(self, dropout: float) -> AnyHead:
        """Its head, with one output; the labels of the data decide how many it gets."""

    @abstractmethod
    def texts(self, example: Any) -> Iterable[Sentence]:
        """The texts of an example, or their words, from which a tokenizer may be trained."""

    def label_set(self, examples: Sequence[Any]) -> LabelSet | None:
        """The labels of the examples, if the task has labels."""
        return None

    @abstractmethod
    def encode(
        self, tokenizer: RowTokenizer, labels: Any, examples: Sequence[Any]
    ) -> list[Encoded]:
        """(row, target) for each example; a long example may give several."""

    @abstractmethod
    def make_objective(self, labels: Any, encoded: Sequence[Encoded]) -> Objective:
        """The objective, with class weights that may depend on the encoded examples."""

    def teacher_logits(
        self, teacher: Any, tokenizer: RowTokenizer, examples: Sequence[Any]
    ) -> list[np.ndarray]:
        """For each encoded example, the logits of a teacher for each of its targets."""
        raise NotImplementedError

    def row_length(self, tokenizer: RowTokenizer) -> int:
        """The most tokens of a row: as the recipe says, and no more than the tokenizer allows."""
        return min(self.recipe.batches.longest, tokenizer.longest or self.recipe.batches.longest)

    @classmethod
    def row_limit(cls, tokenizer: RowTokenizer, max_length: int | None) -> int | None:
        """The length at which rows are truncated, or divided into windows."""
        return max_length

    @classmethod
    def predictor(
        cls,
        model: nn.Module,
        tokenizer: RowTokenizer,
        labels: LabelSet | None,
        max_length: int | None,
        notes: dict[str, Any],
    ) -> Predictor:
        """The predictor of a trained model, with the settings of its training (``notes``)."""
        settings = {name: notes[name] for name in cls.saved_settings if name in notes}
        if (limit := cls.row_limit(tokenizer, max_length)) is not None:
            settings["max_length"] = limit
        return cls.predictor_class(model, tokenizer, labels, **settings)

    @classmethod
    def predictor_of(cls, runner: EncoderModel) -> Predictor:
        """The predictor of a loaded model, with the settings of training where they are noted."""
        notes = _checked_notes(runner.notes)
        if "labels" in cls.tables and runner.labels is None:
            raise BadInput("this folder has no labels: predictions have no names")
        max_length = smallest(runner.truncation, notes.get("longest", cls.default_length))
        predictor = cls.predictor(runner.model, runner.text, runner.labels, max_length, notes)
        limit = predictor.max_length if runner.max_length is None else max_length
        return replace(predictor, batch_size=runner.batch_size, max_length=limit)

    @abstractmethod
    def score(
        self, predictor: Any, examples: Sequence[Any], with_interval: bool = False
    ) -> TaskScores:
        """The scores of its predictions."""

    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """One head, over the pooled state of rows or over the state of each token.

        Only the last token of a causal model has seen the whole row, and rows of recurrent ones
        have no summary token: the mean stands for both directions.
        """
        stack = facts.trunk.stack
        head = self.make_head(stack.dropout)
        pool = LastToken() if stack.causal else FirstToken() if stack.attends else MeanPool()
        return replace(
            facts, output_heads=(head,), pool=(facts.pool or pool) if head.per_row else None
        )

    @property
    def labelled_head(self) -> str:
        return self.head.name

    def training_set(
        self,
        tokenizer: RowTokenizer,
        labels: Any,
        examples: Sequence[Any],
        encoded: Sequence[Encoded],
    ) -> Dataset:
        """The training examples as a dataset: the same rows in every epoch, but unknown words."""
        rate = self.table(EncoderTextConfig).unknown
        if not rate:
            return MemoryDataset(encoded)
        return UnknownWordRows(encoded, tokenizer.words.unk, rate, self.recipe.train.seed)

    def keep_in_memory(self, tokenizer: Any, examples: list[Any]) -> list[Any]:
        """Development examples in a form that is quick to read in every evaluation."""
        return examples

    def prepare(self, folder: RunPaths) -> Prepared:
        given, dropped = self.recipe.data, DropCounts()
        may_drop = dropped if folder.skip_bad else None
        train = self.read(self.train_files(folder), folder.data, may_drop)
        given.train.require(train, "train", self.unit)
        if given.dev.held_out:
            train, dev = split_held_out(train, given.dev.held_out)
        else:
            dev = self.read(given.dev, folder.data, folder.dropping())
            given.dev.require(dev, "dev", self.unit)
        texts = chain.from_iterable(map(self.texts, train))
        tokenizer, labels = self.tokenizer(folder, lambda: texts), self.label_set(train)
        dev = self.keep_in_memory(tokenizer, dev)
        encoded, dev_encoded = (self.encode(tokenizer, labels, of) for of in (train, dev))
        for files in self.recipe.data.tests.values():  # wrong targets are found before training
            self.encode(tokenizer, labels, self.read(files, folder.data, folder.dropping()))
        encoded = self._with_teacher(folder, tokenizer, labels, train, encoded)
        sizes = {"train": len(train), "dev": len(dev)}
        dataset = TrainingData(
            batching=Batching.of(self.recipe),
            train=self.training_set(tokenizer, labels, train, encoded),
            dev=dev_encoded,
            sizes=sizes,
            dropped=dropped,
            dev_examples=dev,
        )
        return Prepared(tokenizer, labels, dataset)

    def _with_teacher(
        self,
        folder: RunPaths,
        tokenizer: RowTokenizer,
        labels: Any,
        examples: Sequence[Any],
        encoded: list[Encoded],
    ) -> list[Encoded]:
        """The encoded examples with the logits of the teacher, if there is one."""
        if (teacher := self.teacher(folder.data)) is None:
            return encoded
        if (order := labels.order_in(teacher.labels)) is None:
            theirs = cast(Any, teacher.labels).first_names
            line = f"its labels are {theirs}, not {labels.first_names}"
            raise BadInput(f"distillation.teacher: {line}")
        facts, text = cast(Any, teacher.facts), cast(Any, teacher.tokenizer)
        lengths = (self.recipe.batches.longest, text.longest, facts.trunk.embed.limit)
        longest = min(length for length in lengths if length is not None)

        def predict() -> np.ndarray:
            module = teacher.module.to(folder.device)
            predictor = self.predictor(module, text, teacher.labels, longest, {})
            logits = self.teacher_logits(predictor, tokenizer, examples)
            module.cpu()
            return np.concatenate(logits)[:, order].astype(np.float32)

        logits_NV = folder.keep_array("teacher", predict)
        ends = np.cumsum([len(targets) for _, targets in encoded])
        if logits_NV.shape != (ends[-1], len(labels)):
            raise BadInput(f"{folder.store}: the teacher's predictions are not of these examples")
        of_examples = np.split(logits_NV, ends[:-1])
        return [with_teacher(*both) for both in zip(encoded, of_examples, strict=True)]

    def objective(self, prepared: Prepared) -> Objective:
        labels: Any = self._label_objective(prepared)
        if (config := self.distillation) is not None:
            outputs = len(prepared.labels)  # type: ignore[arg-type]
            weights = config.temperature, config.weight
            labels = LabelDistillation(labels, outputs, *weights, hard=config.kind == "hard")
        return self.objective_of_inputs(labels, prepared.tokenizer)

    def _label_objective(self, prepared: Prepared) -> Objective:
        examples = prepared.dataset.train
        if self.distillation is not None:
            examples = [without_teacher(example) for example in examples]
        return self.make_objective(prepared.labels, examples)

    def objective_of_inputs(self, labels: Objective, tokenizer: Any) -> Objective:
        """The objective of labels, over the inputs that a tokenizer makes."""
        return labels

    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        labels, dataset = self._label_objective(prepared), prepared.dataset
        objective = self.objective_of_inputs(labels, prepared.tokenizer)
        loss = mean_nll(objective, dataset.dev_batches(objective, processes), model, processes)

        def scores() -> dict[str, float]:
            read = prepared.tokenizer, prepared.labels, self.row_length(prepared.tokenizer)
            predictor = self.predictor(model, *read, self.notes())
            scored = self.score(predictor, dataset.dev_examples).scores
            return {score.name: score.value for score in scored}

        return {"loss": loss} | processes.from_leader(scores)

    def test_scores(
        self, model: Any, examples: Sequence[Any], with_interval: bool = False
    ) -> TaskScores:
        if self.head.name not in model.facts.head_names:
            raise BadInput(f"this model was not trained for task {self.name!r}")
        return self.score(model.predictor, examples, with_interval)


def _checked_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Those notes of a folder that predictors read."""
    checked = {name: notes[name] for name in PREDICTION_KEYS if name in notes}
    for name, value in checked.items():
        whole = isinstance(value, int) and value >= (name != "stride")
        fits = isinstance(value, int | float | None) if name == "threshold" else whole
        if not fits or isinstance(value, bool):
            raise BadInput(f"config.json: notes.{name} is not a number that fits ({value!r})")
    return checked
