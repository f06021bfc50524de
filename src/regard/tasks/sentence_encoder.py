"""Sentence encoders: groups of texts in, one vector for each text out, near where meanings are."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from math import isfinite, nan
from pathlib import Path
from typing import ClassVar, Literal, cast

import numpy as np
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import nn

from regard.core.config import Config, UnusableKey
from regard.core.errors import BadInput
from regard.data.batches.memory_dataset import MemoryDataset
from regard.data.batches.training_data import Dataset
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import LabelledExample
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import read_pairs
from regard.inference.embed import Embedder
from regard.inference.encoder_model import EncoderModel
from regard.metrics.regression import regression_scores
from regard.metrics.retrieval import partner_scores
from regard.models.heads import AnyHead
from regard.models.row_pooling import RowPooling
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.sentence_vectors import (
    CosineRegression,
    InBatchNegatives,
    SentenceObjective,
    TextGroup,
    Triplets,
)
from regard.tasks.encoder_task import EncoderTask
from regard.tasks.plan import Plan
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import (
    DevScores,
    Prepared,
    PreparedModel,
    Processes,
    TaskScores,
    TrainedModel,
    mean_nll,
)
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer

LOSSES: dict[str, type[SentenceObjective]] = {
    "in-batch-negatives": InBatchNegatives,
    "triplets": Triplets,
    "cosine": CosineRegression,
}
LOSS_KEYS = {"scale": "in-batch-negatives", "symmetric": "in-batch-negatives", "margin": "triplets"}
"""Keys of [embedding] that one loss reads."""


class EmbeddingConfig(Config):
    """The vectors of texts, and the loss that brings like texts together."""

    pool: Literal["mean", "max", "first"] = "mean"
    """How the states of a text become its vector: their mean, their maximum, or the summary token
    ([CLS])."""
    normalise: bool = True
    """The saved model scales vectors to length 1; all losses do."""
    loss: Literal["in-batch-negatives", "triplets", "cosine"] = "in-batch-negatives"
    """ "in-batch-negatives": InfoNCE over pairs, or groups with negatives; "triplets": a margin
    between positive and negatives; "cosine": squared error of cosine and score."""
    scale: float = Field(20.0, gt=0)
    """Of in-batch negatives: the factor of cosines (1 / temperature)."""
    symmetric: bool = False
    """Of in-batch negatives: also find the anchor of a positive."""
    margin: float = Field(0.5, gt=0, le=2)
    """Of triplets: the least difference of the cosines with positive and negative."""
    range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest score of files: cosines 0 and 1."""
    least_score: float | None = None
    """Of examples with scores, where the loss is not "cosine": the least score of a positive."""
    chunk: int = Field(0, ge=0)
    """The number of examples that are encoded at once, for batches larger than memory (gradient
    caching, arXiv:2101.06983); 0: all."""

    @model_validator(mode="after")
    def _is_ordered(self) -> "EmbeddingConfig":
        if self.range[0] >= self.range[1]:
            raise ValueError("range: the lowest score comes first, as in range = [0, 5]")
        return self


class Embed(EncoderTask[LabelledExample, RowTokenizer, Embedder, None]):
    """The task "embed"."""

    name = "embed"
    own_tables: ClassVar = {"text": EncoderTextConfig, "embedding": EmbeddingConfig}
    dev_metrics = test_metrics = ("Pearson", "Spearman", "accuracy", "MRR")

    @property
    def config(self) -> EmbeddingConfig:
        """The table ``embedding``."""
        return self.tables[EmbeddingConfig]

    @property
    def loss(self) -> type[SentenceObjective]:
        """The class of the objective."""
        return LOSSES[self.config.loss]

    def unread_keys(self) -> Iterator[UnusableKey]:
        yield from super().unread_keys()
        config, why = self.config, f"with embedding.loss = {self.config.loss!r}"
        for key in sorted(config.model_fields_set):
            if LOSS_KEYS.get(key, config.loss) != config.loss:
                yield UnusableKey(f"embedding.{key}", why)
        if self.loss.has_scores and config.least_score is not None:
            yield UnusableKey("embedding.least_score", why)
        if not self.loss.has_scores and "range" in config.model_fields_set:
            yield UnusableKey("embedding.range", why)

    def heads(self, facts: TrunkWithHeads) -> tuple[AnyHead, ...]:
        if facts.trunk.embed.reads_images:
            raise BadInput('model: reads images; task "embed" needs an encoder of texts')
        return ()

    def texts(self, example: LabelledExample) -> tuple[str, ...]:
        return example.texts

    def dev_inputs(
        self, prepared: Prepared[RowTokenizer], paths: RunPaths, count: int
    ) -> list[tuple[object, ...]]:
        return [inputs[:1] for inputs in super().dev_inputs(prepared, paths, count)]

    def read(
        self, files: FilesConfig, data: Path, dropped: DropCounts | None = None
    ) -> list[LabelledExample]:
        if not files.has_pairs:
            return super().read(files, data, dropped)
        pairs = read_pairs(files.under(data), self.tables.data.longest_characters, dropped)
        return [LabelledExample(where, (first, second), None) for where, first, second in pairs]

    def encode(
        self, reading: RowTokenizer, labels: None, examples: Sequence[LabelledExample]
    ) -> list[TextGroup]:
        targets = [self._target(example) for example in examples]
        texts = [*chain.from_iterable(example.texts for example in examples)]
        rows = iter(reading.rows(texts, self.row_length(reading)))
        return [
            ([*islice(rows, len(example.texts))], target)
            for example, target in zip(examples, targets, strict=True)
        ]

    def _target(self, example: LabelledExample) -> float:
        """Target of an example: the cosine to learn, 0 of a positive pair, NaN of others."""
        least, most = self.loss.least_texts, self.loss.most_texts or len(example.texts)
        if not least <= len(example.texts) <= most:
            needed = least if least == most else f"at least {least}"
            fault = f"{len(example.texts)} texts, but embedding.loss = {self.config.loss!r} needs"
            raise BadInput(f"{example.where}: {fault} {needed}")
        return self._cosine(example) if self.loss.has_scores else self._positive(example)

    def _cosine(self, example: LabelledExample) -> float:
        low, high = self.config.range
        score = score_of(example)
        if not low <= score <= high:
            fault = f"the score {score:g} is not in embedding.range = [{low:g}, {high:g}]"
            raise BadInput(f"{example.where}: {fault}")
        return (score - low) / (high - low)

    def _positive(self, example: LabelledExample) -> float:
        if example.labels is None:
            return 0.0
        if (least := self.config.least_score) is None:
            fault = "it has a score: set embedding.least_score, from which on a pair is positive"
            raise BadInput(f"{example.where}: {fault}")
        return 0.0 if score_of(example) >= least else nan

    def training_set(
        self,
        reading: RowTokenizer,
        examples: Sequence[LabelledExample],
        encoded: Sequence[TextGroup],
    ) -> Dataset:
        positive = [group for group in encoded if group[1] == group[1]]
        if not positive:
            least = self.config.least_score
            raise BadInput(f"embedding.least_score: no training pair has a score of {least:g}")
        return MemoryDataset(positive)

    def prepare(self, plan: Plan, paths: RunPaths) -> PreparedModel[RowTokenizer]:
        prepared = super().prepare(plan, paths)
        facts = plan.fit(prepared.reading)
        return PreparedModel(prepared.reading, prepared.dataset, paper=plan.paper, facts=facts)

    def objective(self, prepared: Prepared[RowTokenizer]) -> SentenceObjective:
        groups = cast(MemoryDataset[TextGroup], prepared.dataset.train)
        return self._objective(prepared.reading, groups, "data.train")

    def make_objective(self, labels: None, encoded: Sequence[TextGroup]) -> SentenceObjective:
        raise NotImplementedError

    def _objective(
        self, reading: RowTokenizer, groups: Sequence[TextGroup], where: str
    ) -> SentenceObjective:
        """The objective of groups of texts, all of one size."""
        config, summary = self.config, reading.template.template.summary
        sizes = sorted({len(rows) for rows, _ in groups})
        if len(sizes) > 1:
            raise BadInput(
                f"{where}: examples of {sizes[0]} and of {sizes[-1]} texts; all must have as many"
            )
        if config.pool == "first" and summary is None:
            raise BadInput('embedding.pool: the tokenizer has no summary token; use "mean"')
        keys = {key: getattr(config, key) for key, loss in LOSS_KEYS.items() if loss == config.loss}
        pooling = RowPooling(config.pool, summary, reading.inner)
        return self.loss(sizes[0], pooling, config.chunk, **keys)

    def evaluate_dev(
        self, prepared: Prepared[RowTokenizer], processes: Processes, model: nn.Module
    ) -> DevScores:
        dataset, reading = prepared.dataset, prepared.reading
        objective = self._objective(reading, dataset.dev, "data.dev")
        loss = mean_nll(objective, dataset.dev_batches(objective, processes), model, processes)

        def scores() -> dict[str, float]:
            loaded = cast(PreparedModel[RowTokenizer], prepared).loaded(model, self.notes())
            scored = self.score(EncoderModel(loaded).embedder(), dataset.dev_examples).scores
            return {score.name: score.value for score in scored}

        return DevScores({"loss": loss} | processes.from_leader(scores))

    def score(
        self, predictor: Embedder, examples: Sequence[LabelledExample], with_interval: bool = False
    ) -> TaskScores:
        """Correlation of cosines with the scores of pairs; without scores, how often the positive
        of an anchor is the nearest of the other texts of all examples.
        """
        texts = [*dict.fromkeys(chain.from_iterable(example.texts for example in examples))]
        vectors_TD = F.normalize(predictor.vectors(texts), dim=-1).cpu().double().numpy()
        numbers = {text: number for number, text in enumerate(texts)}
        pairs_NS = np.array([[numbers[text] for text in example.texts[:2]] for example in examples])
        first_ND, second_ND = vectors_TD[pairs_NS[:, 0]], vectors_TD[pairs_NS[:, 1]]
        if all(example.labels is not None for example in examples):
            golds = [score_of(example) for example in examples]
            cosines = (first_ND * second_ND).sum(1).tolist()
            return TaskScores(regression_scores(golds, cosines, with_interval))
        others = sorted({numbers[text] for example in examples for text in example.texts[1:]})
        partners_N = np.searchsorted(others, pairs_NS[:, 1])
        return TaskScores(partner_scores(first_ND, vectors_TD[others], partners_N, with_interval))

    def test_scores(
        self, model: TrainedModel, examples: Sequence[LabelledExample], with_interval: bool = False
    ) -> TaskScores:
        return self.score(model.encoder.embedder(), examples, with_interval)

    def notes(self) -> dict[str, object]:
        config, longest = self.config, self.tables.batches.longest
        kept = {"pool": config.pool, "normalise": config.normalise, "longest": longest}
        return {"embedding": {**kept, "lower": False}}


def score_of(example: LabelledExample) -> float:
    """The score of a pair."""
    if example.labels is None:
        raise BadInput(f'{example.where}: no score; embedding.loss = "cosine" needs one')
    try:
        score = float(*example.labels)
    except ValueError:
        score = nan
    if not isfinite(score):
        raise BadInput(f"{example.where}: the score {example.labels[0]!r} is not a number")
    return score
