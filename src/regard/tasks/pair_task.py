"""What tasks over pairs of texts share: one is read, the other written, and BLEU compares."""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sacrebleu.metrics import CHRF, TER
from torch import nn

from regard.data.datasets.dataset import Batching
from regard.data.datasets.pairs import PairData, PairStore, load_pairs
from regard.data.files.fields import DropCounts
from regard.data.files.sources import read_pairs
from regard.ground.config import Config
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.bleu import bleu_metric
from regard.metrics.translation import MetricScore, measured
from regard.search.beam import Beam
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Processes, Task, TaskScores, mean_nll
from regard.text.vocabularies.vocabulary import Vocabulary

Pair = tuple[str, str, str]  # where it stands, and its texts


class BLEUConfig(Config):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case."""

    free_keys = ("tokenize", "lowercase")
    tokenize: str = "13a"
    """sacreBLEU's tokeniser."""
    lowercase: bool = False
    """Ignore case."""


class PairTask(Task):
    """A task whose model reads one text of a pair and writes the other."""

    unit, limits_characters = "pairs", True
    test_metrics: ClassVar[tuple[str, ...]] = ("BLEU", "chrF", "TER")

    @property
    @abstractmethod
    def measure(self) -> BLEUConfig:
        """The table ``measure``."""

    @abstractmethod
    def plain_objective(self, prepared: Prepared) -> Any:
        """What is learned, without label smoothing."""

    @abstractmethod
    def write(self, model: Any, texts: list[str]) -> list[list[Any]]:
        """What a loaded model writes for each text, best first."""

    @property
    def search(self) -> Beam:
        """The search of the table ``decode``."""
        return self.table(DecodeConfig).search

    def read(self, files: Any, data: Path, dropped: DropCounts | None = None) -> list[Pair]:
        return [*read_pairs(files.under(data), self.recipe.data.longest_characters, dropped)]

    def read_train(self, files: Any, folder: RunPaths) -> list[Pair]:
        """The pairs to train on."""
        pairs = self.read(files, folder.data, folder.dropping())
        self.recipe.data.train.require(pairs, "train", self.unit)
        return pairs

    def load(
        self,
        files: Any,
        folder: RunPaths,
        sides: tuple[Vocabulary, Vocabulary],
        dropout: float = 0.0,
    ) -> PairData:
        """All pairs as ids."""
        given = self.recipe.data
        store = PairStore(sides, folder.store, given.longest_characters, folder.skip_bad)
        train, dev = files.under(folder.data), given.dev.held_out or given.dev.under(folder.data)
        return load_pairs(store, Batching.of(self.recipe), train, dev, dropout)

    def notes(self) -> dict[str, Any]:
        return {**super().notes(), "decode": self.table(DecodeConfig).model_dump()}

    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        objective = self.plain_objective(prepared)
        batches = prepared.dataset.dev_batches(objective, processes)
        loss = mean_nll(objective, batches, model, processes)
        return {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0)))}

    def test_scores(
        self, model: Any, examples: Sequence[Pair], with_interval: bool = False
    ) -> TaskScores:
        outputs = self.write(model, [source for _, source, _ in examples])
        hypotheses = [best.text for best, *_ in outputs]
        return TaskScores(self.scores(hypotheses, [it[2] for it in examples], with_interval))

    def scores(
        self, hypotheses: list[str], references: list[str], with_interval: bool
    ) -> list[MetricScore]:
        """BLEU, chrF and TER."""
        tokenize, lowercase = self.measure.tokenize, self.measure.lowercase
        metrics = (bleu_metric(tokenize, lowercase), CHRF(lowercase=lowercase), TER())
        return [measured(metric, hypotheses, [references], with_interval) for metric in metrics]
