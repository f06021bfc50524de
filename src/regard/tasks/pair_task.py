"""Base class of tasks over pairs of texts: one is read, the other generated and scored."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
from sacrebleu.metrics import CHRF, TER
from torch import nn

from regard.core.config import Config
from regard.data.batches.pair_dataset import PairData, PairStore, load_pairs
from regard.data.data_tables import FilesConfig
from regard.data.readers.examples import ExampleContent
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import Source, read_pairs, sample_texts
from regard.inference.decoder_model import WrittenText
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.translation import MetricScore, bleu_metric, measured
from regard.objectives.seq2seq import AnswerLM, Seq2Seq
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import (
    AnyReading,
    DevScores,
    Prepared,
    Processes,
    Task,
    TaskScores,
    TrainedModel,
    mean_nll,
)
from regard.text.vocabulary import Vocabulary

SAMPLE = 100_000_000  # characters of pairs that a vocabulary is learned from, at most
Pair = tuple[str, str, str]  # where it stands, and its texts


class BLEUConfig(Config):
    """Tokeniser of sacreBLEU ("none" for text that is tokenised already), and case."""

    free_keys = ("tokenize", "lowercase")
    tokenize: str = "13a"
    """sacreBLEU's tokeniser."""
    lowercase: bool = False
    """Ignore case."""


class PairTask(Task[Pair, AnyReading]):
    """A task whose model reads one text of a pair and writes the other."""

    unit, limits_characters, mixes_corpora = "pairs", True, True
    test_metrics: ClassVar[tuple[str, ...]] = ("BLEU", "chrF", "TER")

    @abstractmethod
    def plain_objective(self, prepared: Prepared[AnyReading]) -> Seq2Seq | AnswerLM:
        """The training objective without label smoothing."""

    @abstractmethod
    def write(self, model: TrainedModel, texts: list[str]) -> Sequence[Sequence[WrittenText]]:
        """Generate texts for each input with a loaded model, best first."""

    def objective(self, prepared: Prepared[AnyReading]) -> Seq2Seq | AnswerLM:
        return replace(self.plain_objective(prepared), smoothing=self.tables.smoothing)

    def read(self, files: FilesConfig, data: Path, dropped: DropCounts | None = None) -> list[Pair]:
        return [*read_pairs(self.source(files, data), self.tables.data.longest_characters, dropped)]

    def content(self, example: Pair) -> ExampleContent:
        return ExampleContent(example[1:2], example[2:])

    def source(self, files: FilesConfig, data: Path) -> Source:
        """The pairs of files, as they are learned."""
        return files.under(data)

    def train_pairs(self, files: FilesConfig, paths: RunPaths) -> Iterator[Pair]:
        """The pairs to train on, one by one; it is an error if a corpus has none."""
        data = self.tables.data
        for name, folder in data.corpora(paths.data).items():
            source = self.source(files, folder)
            pairs = read_pairs(source, data.longest_characters, paths.dropping())
            first = [*islice(pairs, 1)]
            data.train.require(first, name, self.unit)
            yield from chain(first, pairs)

    def vocabulary_texts(
        self, files: FilesConfig, paths: RunPaths, *sides: Callable[[Pair], Iterable[str]]
    ) -> list[Iterator[str]]:
        """Texts of training pairs, for each of ``sides``, to learn vocabularies from.

        They are an even sample if there are many pairs.
        """
        total = sum(len(pair[1]) + len(pair[2]) for pair in self.train_pairs(files, paths))
        share = min(1.0, SAMPLE / max(1, total))

        def texts(texts_of: Callable[[Pair], Iterable[str]]) -> Iterator[str]:
            pairs = self.train_pairs(files, paths)
            return sample_texts((text for pair in pairs for text in texts_of(pair)), share)

        return [*map(texts, sides)]

    def load(
        self,
        files: FilesConfig,
        paths: RunPaths,
        sides: tuple[Vocabulary, Vocabulary],
        dropout: float = 0.0,
    ) -> PairData:
        """Load all pairs as ids."""
        data = self.tables.data
        store = PairStore(
            sides,
            paths.store,
            data.longest_characters,
            paths.skip_bad,
            paths.start_workers,
            read_only=paths.prepared is not None,
            deduplicate=paths.deduplicate,
        )
        folders = data.corpora(paths.data)
        train = {name: self.source(files, folder) for name, folder in folders.items()}
        dev = data.dev.held_out or self.source(data.dev, paths.data)
        return load_pairs(store, self.tables.batching, train, dev, dropout, data.mix)

    def dev_inputs(
        self, prepared: Prepared[AnyReading], paths: RunPaths, count: int
    ) -> list[tuple[object, ...]]:
        return [*cast(PairData, prepared.dataset).dev_texts(count)]

    def notes(self) -> dict[str, object]:
        return {**super().notes(), "decode": self.tables[DecodeConfig].model_dump()}

    def evaluate_dev(
        self, prepared: Prepared[AnyReading], processes: Processes, model: nn.Module
    ) -> DevScores:
        objective = self.plain_objective(prepared)
        batches = prepared.dataset.dev_batches(objective, processes)
        loss = mean_nll(objective, batches, model, processes)
        return DevScores({"loss": loss, "perplexity": float(np.exp(min(loss, 700.0)))})

    def test_scores(
        self, model: TrainedModel, examples: Sequence[Pair], with_interval: bool = False
    ) -> TaskScores:
        outputs = self.write(model, [source for _, source, _ in examples])
        hypotheses = [best.text for best, *_ in outputs]
        return TaskScores(self.scores(hypotheses, [it[2] for it in examples], with_interval))

    def scores(
        self, hypotheses: list[str], references: list[str], with_interval: bool
    ) -> list[MetricScore]:
        """BLEU, chrF and TER."""
        config = self.tables[BLEUConfig]
        tokenize, lowercase = config.tokenize, config.lowercase
        metrics = (bleu_metric(tokenize, lowercase), CHRF(lowercase=lowercase), TER())
        return [measured(metric, hypotheses, [references], with_interval) for metric in metrics]
