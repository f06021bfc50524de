"""Classification: a text, a pair of texts or an image in, a label out; or several, or a number."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast
from warnings import warn

import numpy as np

from regard.core.config import EMPTY_IS_NONE, UnusableKey
from regard.core.errors import BadInput, DataWarning, shown
from regard.core.reading import RowReading
from regard.data.batches.memory_dataset import BPEDropoutRows, ImageDataset
from regard.data.batches.training_data import Dataset
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import DropCounts
from regard.data.readers.glue import GLUE_TASKS
from regard.data.readers.plain import labelled
from regard.images.processor import ImageProcessor
from regard.inference.classifier import Classifier
from regard.metrics.classification import MEASURES, TOP, top_score
from regard.models.heads import AnyHead
from regard.models.label_heads import LabelHead
from regard.models.papers import KINDS, paper
from regard.models.patches import Patches
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.label_distillation import LabelDistillationConfig
from regard.objectives.label_losses import ROW_OBJECTIVES
from regard.objectives.objective import Objective
from regard.tasks.encoder_task import Encoded, EncoderTask
from regard.tasks.image_labels import (
    ImagesConfig,
    decoded_examples,
    image_objective,
    make_processor,
    reads_images,
    unread_image_keys,
)
from regard.tasks.labels import SCORES, AnyLabelsConfig, ClassWeights, class_weights
from regard.tasks.plan import Plan
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import TaskScores
from regard.text.label_sets import LABEL_SETS, LabelSet
from regard.text.long_texts import LONG_TEXTS, CutTexts, InputRows
from regard.text.text_tables import LabelTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.words import Sentence

Shorten = Callable[[RowReading, Sequence[Any], int], InputRows]
METRICS = {
    "one": tuple(MEASURES),
    "several": ("micro-F1", "accuracy"),
    "number": ("Pearson", "Spearman"),
}


class LabelsConfig(AnyLabelsConfig):
    """Kind, names and weights of the labels of texts.

    A text has "one" label, "several", or a "number". ``weights`` are one per label (default 1), or
    "balanced": every label has the same total weight. F1 is measured for the label ``positive``.
    """

    unread: ClassVar = {
        "one": (),
        "several": ("weights", "positive"),
        "number": ("names", "weights", "positive"),
    }
    kind: Literal["one", "several", "number"] = "one"
    """A text has one label, several, or a number."""
    names: dict[str, str] | None = None
    """Names of labels, by their spelling in files."""
    weights: ClassWeights | None = None
    """The weight of each label in the loss, or "balanced"."""
    positive: Annotated[str | None, EMPTY_IS_NONE] = None
    """The label of which F1 is measured."""


class Classify(EncoderTask[LabelledExample, RowReading, Classifier, LabelSet]):
    """The task "classify", for any trunk."""

    name = "classify"
    head, predictor_class = LabelHead, Classifier
    drawn, saved_settings = ("dropout", "unknown"), ("long", "stride")
    own_tables: ClassVar = {
        "text": LabelTextConfig,
        "images": ImagesConfig,
        "labels": LabelsConfig,
        "distillation": LabelDistillationConfig,
    }
    dev_metrics = ("accuracy", "macro-F1", "Matthews", "F1", "Pearson", "Spearman", "micro-F1")
    test_metrics = dev_metrics

    @property
    def labels_config(self) -> LabelsConfig:
        """The table ``labels``."""
        return self.tables[LabelsConfig]

    @property
    def text_config(self) -> LabelTextConfig:
        """The table ``text``."""
        return self.tables[LabelTextConfig]

    @property
    def long_texts(self) -> CutTexts:
        """How texts are read that are longer than a row."""
        return LONG_TEXTS[self.text_config.long](self.text_config.stride)

    @property
    def images_config(self) -> ImagesConfig:
        """The table ``images``."""
        return self.tables[ImagesConfig]

    @property
    def metrics(self) -> tuple[str, ...]:
        metrics = METRICS[self.labels_config.kind]
        return metrics if self.labels_config.positive is None else (*metrics, "F1")

    def unread_keys(self) -> Iterator[UnusableKey]:
        yield from super().unread_keys()
        model = self.tables.model
        images = model.start is not None or paper(model.paper).tokenizer == ImageProcessor.name
        yield from unread_image_keys(self.images_config, images, self.single_label)
        if self.long_texts.truncates and "stride" in self.text_config.model_fields_set:
            yield UnusableKey("text.stride", 'where text.long is not "windows"')
        elif self.text_config.dropout and not self.long_texts.truncates:
            why = 'where text.long is "windows": a text has other windows each time'
            yield UnusableKey("text.dropout", why)

    def read_inputs(
        self, plan: Plan, paths: RunPaths, texts: Callable[[], Iterable[Sentence]]
    ) -> RowReading:
        config, embed = self.images_config, plan.facts.encoder.embed
        if embed.reads_images:
            start = None if plan.start is None else plan.start.tokenizer
            return make_processor(config, cast(Patches, embed), start)
        if config.model_fields_set:
            raise BadInput("images: cannot be used, because the model of model.start reads texts")
        return super().read_inputs(plan, paths, texts)

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        if self.distillation is not None and facts.trunk.embed.has_distillation_token:
            return (KINDS["DistilledLabelHead"](1),)
        return (LabelHead(1, facts.trunk.stack.dropout),)

    def read(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> list[LabelledExample]:
        if not files.has_pairs:
            return super().read(files, data, dropped)
        limits = self.tables.data
        # Long texts are cut, read in windows or dropped (text.long), unless a limit is set.
        longest: int | None = limits.longest_characters
        if "longest_characters" not in limits.model_fields_set:
            longest = None
        return [*labelled(files.under(data), dropped, longest_characters=longest)]

    def training_set(
        self, reading: RowReading, examples: Sequence[LabelledExample], encoded: Sequence[Encoded]
    ) -> Dataset:
        texts, seed = [example.texts for example in examples], self.tables.seed
        if reads_images(reading):
            return ImageDataset(
                encoded, [image for image, *_ in texts], seed, self.images_config.workers
            )
        if not (rate := self.text_config.dropout):
            return super().training_set(reading, examples, encoded)
        longest = self._row_limit(reading) if self.long_texts.limits_plain_rows else None
        return BPEDropoutRows(encoded, texts, cast(RowTokenizer, reading), rate, seed, longest)

    def keep_in_memory(
        self, reading: RowReading, examples: list[LabelledExample]
    ) -> list[LabelledExample]:
        if not reads_images(reading):
            return examples
        return decoded_examples(self.images_config, cast(ImageProcessor, reading), examples)

    def texts(self, example: LabelledExample) -> tuple[str, ...]:
        return example.texts

    def label_set(self, examples: Sequence[LabelledExample]) -> LabelSet:
        config = self.labels_config
        names, kind = config.names or {}, LABEL_SETS[config.kind]
        benchmarks = {name.lower(): task for name, task in GLUE_TASKS.items()}
        benchmark = benchmarks.get(str(self.tables.data.train.reader).lower())
        labels = None if benchmark is None else kind.of_benchmark(benchmark.labels, names)
        labels = labels or kind.of(chain.from_iterable(map(_labels, examples)), names)
        if absent := [label for label, name in names.items() if name not in labels.names]:
            fault = f"no training example has the label {absent[0]!r}"
            known = ", ".join(labels.names)
            warn(f"labels.names: {fault}; there are {known}", DataWarning, stacklevel=2)
        if config.positive is not None and config.positive not in labels.names:
            known = ", ".join(map(repr, labels.names))
            raise BadInput(
                f"labels.positive: no label is called {config.positive!r}; known: {known}"
            )
        return labels

    def encode(
        self, reading: RowReading, labels: LabelSet, examples: Sequence[LabelledExample]
    ) -> list[Encoded]:
        rows, _ = self._rows(reading, examples, self.long_texts.rows)
        return _encoded(rows, labels, examples)

    def encode_training(
        self, reading: RowReading, labels: LabelSet, examples: Sequence[LabelledExample]
    ) -> tuple[list[Encoded], str]:
        rows, longer = self._rows(reading, examples, self.long_texts.long_training_rows)
        encoded = _encoded(rows, labels, examples)
        if not longer:
            return encoded, ""
        limit, effect = self.row_length(reading), self.long_texts.effect
        most = max(len(row.tokens) for row, _ in encoded)
        if limit < min(most, self.tables.batches.longest):
            fault = f"the tokenizer limits rows to {limit:,} tokens"
            raise BadInput(f"batches.longest: {fault}: set it to {limit} for texts to be {effect}")
        windows = len(encoded) - len(rows) + longer
        number = f", {windows:,} in all" if windows > longer else ""
        share = f"{longer:,} of {len(examples):,} have more than {limit:,} tokens"
        return encoded, f"{share}: {effect}{number} (text.long)"

    def _rows(
        self, reading: RowReading, examples: Sequence[LabelledExample], shorten: Shorten
    ) -> tuple[InputRows, int]:
        """The rows of each example, and the number of examples that are longer than a row."""
        for example in examples if reads_images(reading) else ():
            if isinstance(image := example.texts[0], str) and not Path(image).is_file():
                raise BadInput(
                    f"{example.where}: {shown(image)} is not a file; the model reads images"
                )
        inputs, limit = [_input(example) for example in examples], self._row_limit(reading)
        rows: InputRows = [[row] for row in reading.training_rows(inputs)]
        if limit is None:
            return rows, 0
        longer = [number for number, (row,) in enumerate(rows) if len(row.tokens) > limit]
        shortened = shorten(reading, [inputs[number] for number in longer], limit)
        for number, own in zip(longer, shortened, strict=True):
            rows[number] = own
        return rows, len(longer)

    def _row_limit(self, reading: RowReading) -> int | None:
        """The most tokens of a row in training; None: images."""
        return reading.limit(self.row_length(reading), plain_rows=True)

    def notes(self) -> dict[str, object]:
        settings = {name: getattr(self.text_config, name) for name in self.saved_settings}
        saved = {name: value for name, value in settings.items() if value is not None}
        return super().notes() | saved

    def make_objective(self, labels: LabelSet, encoded: Sequence[Encoded]) -> Objective:
        targets = (target[0] for _, target in encoded)
        weights = class_weights(labels, self.labels_config.weights, targets)
        make = ROW_OBJECTIVES[labels.problem_type]
        return make(len(labels), self.tables.smoothing, weights)

    def objective_of_inputs(self, labels: Objective, reading: RowReading) -> Objective:
        if not reads_images(reading):
            return labels
        return image_objective(self.images_config, labels, cast(ImageProcessor, reading))

    def teacher_logits(
        self, teacher: Classifier, reading: RowReading, examples: Sequence[LabelledExample]
    ) -> list[np.ndarray]:
        logits = teacher.logits([_input(example) for example in examples])
        rows, _ = self._rows(reading, examples, self.long_texts.long_training_rows)
        pairs = zip(logits, rows, strict=True)
        return [logits_V[None].numpy() for logits_V, own in pairs for _ in own]

    @classmethod
    def row_limit(
        cls, reading: RowReading, max_length: int | None, notes: Mapping[str, object]
    ) -> int | None:
        # Folders of before ``text.long`` read texts as those that drop long ones in training.
        long_texts = LONG_TEXTS[str(notes.get("long", "drop"))]
        return reading.limit(max_length, long_texts.limits_plain_rows)

    def score(
        self,
        predictor: Classifier,
        examples: Sequence[LabelledExample],
        with_interval: bool = False,
    ) -> TaskScores:
        """Scores by the kind of labels: accuracy and F1 of classes, F1 over all labels, or
        correlation.

        If there are more than five labels, also top-5 accuracy.
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
        ranked = [
            sorted(prediction.scores, key=prediction.scores.__getitem__)[::-1]
            for prediction in predictions
        ]
        return results._replace(scores=[*results.scores, top_score(golds, ranked, with_interval)])


def _encoded(
    rows: InputRows, labels: LabelSet, examples: Sequence[LabelledExample]
) -> list[Encoded]:
    """(row, target) of each row of each example."""
    encoded = list[Encoded]()
    for own, example in zip(rows, examples, strict=True):
        target = labels.encode(_labels(example), example.where)
        encoded += ((row, target) for row in own)
    return encoded


def _labels(example: LabelledExample) -> tuple[str, ...]:
    if example.labels is None:
        reason = "the file has none, or options.label does not name its column"
        raise BadInput(f"{example.where}: its label is hidden: {reason}")
    return example.labels


def _input(example: LabelledExample) -> Any:
    return example.texts[0] if len(example.texts) == 1 else example.texts
