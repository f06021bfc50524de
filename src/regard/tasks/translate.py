"""Translation as a task: pairs of texts to learn from, an encoder-decoder, and its BLEU."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from torch import nn

from regard.data.datasets.dataset import Batching
from regard.data.datasets.pairs import PairData, PairStore, load_pairs
from regard.data.sources import DropCounts, read_pairs
from regard.ground.config import Config
from regard.metrics.bleu import bleu
from regard.metrics.translation import chrf, ter
from regard.models.config import encoder_decoder_facts
from regard.models.facts import EncoderDecoder, change
from regard.models.paper import Paper
from regard.objectives.seq2seq import Seq2Seq
from regard.search.beam import Beam
from regard.search.greedy import Greedy
from regard.tasks.generation_settings import DecodeConfig
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Processes, Task, TaskScores, mean_nll
from regard.tasks.translator import Translator
from regard.text.config import TranslationTextConfig
from regard.text.translation_tokenizer import TranslationTokenizer, train_translation_tokenizer

BLEU = "bleu"  # by which weights can be chosen


class MeasureConfig(Config):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case.

    Where weights are chosen by BLEU (``train.judge``), the first ``dev_sentences`` of the
    development set are translated.
    """

    free_keys = ("tokenize", "lowercase")
    tokenize: str = "13a"
    """sacreBLEU's tokeniser."""
    lowercase: bool = False
    """Ignore case."""
    dev_sentences: int = Field(1_000, ge=1)
    """How many sentences of the development set are translated for `train.judge`."""


class Translate(Task):
    """The task "translate"."""

    name, unit, has_ladders = "translate", "pairs", True
    limits_characters = True
    tables: ClassVar = {
        "text": TranslationTextConfig,
        "decode": DecodeConfig,
        "measure": MeasureConfig,
    }
    dev_metrics, test_metrics = (BLEU,), ("BLEU", "chrF", "TER")

    @property
    def text(self) -> TranslationTextConfig:
        """The table ``text``."""
        return self.table(TranslationTextConfig)

    @property
    def measure(self) -> MeasureConfig:
        """The table ``measure``."""
        return self.table(MeasureConfig)

    @property
    def search(self) -> Beam:
        """The search of the table ``decode``."""
        return self.table(DecodeConfig).search

    @property
    def chooses_by_bleu(self) -> bool:
        """Whether the development set is translated."""
        return bool(self.recipe.train.judge == BLEU)

    def unread_keys(self) -> Iterator[str]:
        """What only encoders have, and what only BLEU reads."""
        yield from super().unread_keys()
        if self.recipe.model.start is not None:
            yield "model.start"
        if "dev_sentences" in self.measure.model_fields_set and not self.chooses_by_bleu:
            yield "measure.dev_sentences unless train.judge is 'bleu'"

    def facts(self, data: Path) -> tuple[Paper, EncoderDecoder]:
        """The encoder-decoder, but for the sizes of its vocabularies."""
        return encoder_decoder_facts(self.recipe.model, joint=self.text.joint)

    def read(
        self, files: Any, data: Path, dropped: DropCounts | None = None
    ) -> list[tuple[str, str, str]]:
        """(where, source text, target text) of every pair."""
        return [*read_pairs(files.under(data), self.recipe.data.longest_characters, dropped)]

    def prepare(self, folder: RunPaths) -> Prepared:
        """The vocabularies of both languages, and pairs of ids."""
        given = self.recipe.data
        files = self.train_files(folder)
        train, tokenizer = files.under(folder.data), self._tokenizer(files, folder)
        store = PairStore(tokenizer.sides, folder.store, given.longest_characters, folder.skip_bad)
        dev = given.dev.held_out or given.dev.under(folder.data)
        pairs = load_pairs(store, Batching.of(self.recipe), train, dev, self.text.dropout)
        return Prepared(tokenizer, None, pairs)

    def _tokenizer(self, files: Any, folder: RunPaths) -> TranslationTokenizer:
        if not folder.fresh and any(folder.text.glob("*tokenizer.json")):
            return TranslationTokenizer.load(folder.text)
        config, pairs = self.text, self.read(files, folder.data, folder.dropping())
        self.recipe.data.train.require(pairs, "train", self.unit)
        tokenizer = train_translation_tokenizer(
            (source for _, source, _ in pairs),
            (target for _, _, target in pairs),
            config.kind,
            config.vocab,
            joint=config.joint,
            normalise=config.normalise,
            lower=config.lower,
        )
        folder.keep_text(tokenizer)
        return tokenizer

    def fit(self, facts: EncoderDecoder, prepared: Prepared) -> EncoderDecoder:
        """The facts with the sizes of their vocabularies."""
        source, target = prepared.tokenizer.sides
        return change(facts, **{"source.vocab": len(source), "target.vocab": len(target)})

    def objective(self, prepared: Prepared) -> Seq2Seq:
        """The next token of the target."""
        target = prepared.tokenizer.target
        return Seq2Seq(target.bos, target.eos, self.recipe.train.smoothing)

    def notes(self) -> dict[str, Any]:
        """The table ``decode``."""
        return {"decode": self.table(DecodeConfig).model_dump()}

    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        """Negative log-likelihood and perplexity of the development set, and BLEU if it decides."""
        target, data = prepared.tokenizer.target, prepared.dataset
        objective = Seq2Seq(target.bos, target.eos, smoothing=0.0)
        loss = mean_nll(objective, data.dev_batches(objective, processes), model, processes)
        figures = {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0)))}
        if self.chooses_by_bleu:
            translator = Translator(model, prepared.tokenizer)
            figures[BLEU] = processes.from_leader(lambda: self._dev_bleu(translator, data))
        return figures

    def _dev_bleu(self, translator: Translator, data: PairData) -> float:
        pairs, measure = data.dev_texts(self.measure.dev_sentences), self.measure
        found = translator.translate([source for source, _ in pairs], Greedy())
        hypotheses, references = [one[0].text for one in found], [[target for _, target in pairs]]
        tokenize, lowercase = measure.tokenize, measure.lowercase
        return bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase).value

    def test_scores(
        self, model: Any, examples: Sequence[Any], with_interval: bool = False
    ) -> TaskScores:
        """BLEU, chrF and TER of the translations of a test set."""
        found = model.translate([source for _, source, _ in examples], self.search)
        hypotheses = [one[0].text for one in found]
        references = [[target for _, _, target in examples]]
        case: dict[str, Any] = {
            "lowercase": self.measure.lowercase,
            "with_interval": with_interval,
        }
        scores = [
            bleu(hypotheses, references, tokenize=self.measure.tokenize, **case),
            chrf(hypotheses, references, **case),
            ter(hypotheses, references, with_interval=with_interval),
        ]
        return TaskScores(scores)
