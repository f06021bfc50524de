"""Classification: a text, a pair of texts or an image in, a label out; or several, or a number."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from regard.data.datasets.dataset import Dataset
from regard.data.datasets.memory import BPEDropoutRows
from regard.data.files.fields import DropCounts
from regard.data.files.sources import read_pairs
from regard.data.readers.examples import LabelledExample
from regard.data.readers.glue import GLUE_TASKS
from regard.ground.config import EMPTY_IS_NONE
from regard.ground.errors import BadInput
from regard.images.processor import ImageProcessor
from regard.inference.classifier import Classifier
from regard.metrics.classification import MEASURES, TOP, top_score
from regard.models.label_heads import LabelHead
from regard.models.papers import paper
from regard.models.papers.deit import DistilledLabelHead
from regard.models.pools import FirstTokens
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_distillation import LabelDistillationConfig
from regard.objectives.labels import ROW_OBJECTIVES
from regard.objectives.objective import Objective
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.image_labels import (
    ImagesConfig,
    decoded_examples,
    image_dataset,
    image_objective,
    make_processor,
    reads_images,
    unread_image_keys,
)
from regard.tasks.labels import SCORES, AnyLabelsConfig, ClassWeights, class_weights
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import TaskScores
from regard.text.config import EncoderTextConfig
from regard.text.labels import LABEL_SETS, LabelSet
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Sentence

METRICS = {
    "one": tuple(MEASURES),
    "several": ("micro-F1", "accuracy"),
    "number": ("Pearson", "Spearman"),
}


class LabelsConfig(AnyLabelsConfig):
    """The labels of texts: their names where files write them otherwise, and their weights.

    A text has "one" label, "several", or a "number". ``weights`` are one per label (default 1), or
    "balanced": all labels together count the same. F1 is that of the label ``positive``.
    """

    unread: ClassVar = {
        "one": (),
        "several": ("weights", "positive"),
        "number": ("names", "weights", "positive"),
    }
    kind: Literal["one", "several", "number"] = "one"
    """A text has one label, several, or a number."""
    names: dict[str, str] | None = None
    """Names of labels, by what files write."""
    weights: ClassWeights | None = None
    """The weight of each label in the loss, or "balanced"."""
    positive: Annotated[str | None, EMPTY_IS_NONE] = None
    """The label of which F1 is measured."""


class Classify(EncoderTask):
    """The task "classify", for any trunk."""

    name = "classify"
    head, predictor_class = LabelHead, Classifier
    has_bpe_dropout = has_unknown_words = True
    tables: ClassVar = {
        "text": EncoderTextConfig,
        "images": ImagesConfig,
        "labels": LabelsConfig,
        "distillation": LabelDistillationConfig,
    }
    dev_metrics = ("accuracy", "macro-F1", "Matthews", "F1", "Pearson", "Spearman", "micro-F1")
    test_metrics = dev_metrics

    @property
    def labels_config(self) -> LabelsConfig:
        """The table ``labels``."""
        return self.table(LabelsConfig)

    @property
    def metrics(self) -> tuple[str, ...]:
        metrics = METRICS[self.labels_config.kind]
        return metrics if self.labels_config.positive is None else (*metrics, "F1")

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        model = self.recipe.model
        images = model.start is not None or paper(model.paper).tokenizer == ImageProcessor.name
        yield from unread_image_keys(self.table(ImagesConfig), images, self.single_label)

    def tokenizer(self, folder: RunPaths, texts: Callable[[], Iterable[Sentence]]) -> Any:
        of_paper, facts = self.facts(folder.data)
        config = self.table(ImagesConfig)
        if of_paper.tokenizer != ImageProcessor.name:
            if config.model_fields_set:
                raise BadInput("images: the model of model.start reads texts")
            return super().tokenizer(folder, texts)
        start = self.start(folder.data)
        return make_processor(config, facts.trunk.embed, start and start.tokenizer)

    def make_head(self, dropout: float) -> LabelHead:
        return LabelHead(1, dropout)

    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        if self.distillation is None or not facts.trunk.embed.has_distillation_token:
            return super().with_heads(facts)
        return replace(facts, pool=FirstTokens(2), output_heads=(DistilledLabelHead(1),))

    def read(
        self, files: Any, data: Path, dropped: DropCounts | None = None
    ) -> list[LabelledExample]:
        if not files.has_pairs:
            return super().read(files, data, dropped)
        pairs = read_pairs(files.under(data), self.recipe.data.longest_characters, dropped)
        return [LabelledExample(where, (text,), (label,)) for where, text, label in pairs]

    def training_set(
        self,
        tokenizer: RowTokenizer,
        labels: LabelSet,
        examples: Sequence[LabelledExample],
        encoded: Sequence[Encoded],
    ) -> Dataset:
        if reads_images(tokenizer):
            seed = self.recipe.train.seed
            return image_dataset(self.table(ImagesConfig), encoded, examples, seed)
        if not (rate := self.table(EncoderTextConfig).dropout):
            return super().training_set(tokenizer, labels, examples, encoded)
        texts = [example.texts for example in examples]
        return BPEDropoutRows(encoded, texts, tokenizer, rate, self.recipe.train.seed)

    def keep_in_memory(self, tokenizer: Any, examples: list[Any]) -> list[Any]:
        return decoded_examples(self.table(ImagesConfig), tokenizer, examples)

    def texts(self, example: LabelledExample) -> tuple[str, ...]:
        return example.texts

    def label_set(self, examples: Sequence[LabelledExample]) -> LabelSet:
        config = self.labels_config
        names, kind = config.names or {}, LABEL_SETS[config.kind]
        benchmarks = {name.lower(): task for name, task in GLUE_TASKS.items()}
        benchmark = benchmarks.get(str(self.recipe.data.train.reader).lower())
        labels = None if benchmark is None else kind.of_benchmark(benchmark.labels, names)
        labels = labels or kind.of(chain.from_iterable(map(_labels, examples)), names)
        if config.positive is not None and config.positive not in labels.names:
            known = ", ".join(map(repr, labels.names))
            raise BadInput(
                f"labels.positive: no label is called {config.positive!r}; known: {known}"
            )
        return labels

    def encode(
        self, tokenizer: RowTokenizer, labels: LabelSet, examples: Sequence[LabelledExample]
    ) -> list[Encoded]:
        max_length = self.row_limit(tokenizer, self.row_length(tokenizer))
        rows = tokenizer.training_rows([_input(example) for example in examples], max_length)
        return [
            (row, labels.encode(_labels(example), example.where))
            for row, example in zip(rows, examples, strict=True)
        ]

    def make_objective(self, labels: LabelSet, encoded: Sequence[Encoded]) -> Objective:
        targets = (target[0] for _, target in encoded)
        weights = class_weights(labels, self.labels_config.weights, targets)
        make = ROW_OBJECTIVES[labels.problem_type]
        return make(len(labels), self.recipe.train.smoothing, weights)

    def objective_of_inputs(self, labels: Objective, tokenizer: Any) -> Objective:
        if not reads_images(tokenizer):
            return labels
        return image_objective(self.table(ImagesConfig), labels, tokenizer)

    def teacher_logits(
        self, teacher: Classifier, tokenizer: RowTokenizer, examples: Sequence[LabelledExample]
    ) -> list[np.ndarray]:
        logits = teacher.logits([_input(example) for example in examples])
        return [logits_V[None].numpy() for logits_V in logits]

    @classmethod
    def row_limit(cls, tokenizer: RowTokenizer, max_length: int | None) -> int | None:
        return tokenizer.limit(max_length)

    def score(
        self,
        predictor: Classifier,
        examples: Sequence[LabelledExample],
        with_interval: bool = False,
    ) -> TaskScores:
        """By the kind of labels: accuracy and its like, F1 over all labels, or correlation.

        Of more than five labels also how often the right one is among the five most probable.
        """
        labels = predictor.labels
        golds = [labels.gold(_labels(example), example.where) for example in examples]
        predictions = predictor.predict([_input(example) for example in examples])
        values = [prediction.value for prediction in predictions]
        results = SCORES[labels.problem_type](
            golds, values, with_interval, self.labels_config.positive
        )
        if not labels.single_label or len(labels) <= TOP:
            return results
        ranked = [sorted(one.scores, key=one.scores.__getitem__)[::-1] for one in predictions]
        return results._replace(scores=[*results.scores, top_score(golds, ranked, with_interval)])


def _labels(example: LabelledExample) -> tuple[str, ...]:
    if example.labels is None:
        raise BadInput(f"{example.where}: its label is hidden")
    return example.labels


def _input(example: LabelledExample) -> Any:
    return example.texts[0] if len(example.texts) == 1 else example.texts
