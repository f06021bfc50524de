"""Translation as a task: pairs of texts to learn from, an encoder-decoder, and its BLEU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from regard.data.datasets.pairs import PairData
from regard.inference.generation_settings import DecodeConfig
from regard.inference.translator import Translator
from regard.metrics.bleu import bleu
from regard.models.config import encoder_decoder_facts
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.start import copy_parts
from regard.objectives.seq2seq import Seq2Seq
from regard.search.greedy import Greedy
from regard.tasks.pair_task import BLEUConfig, PairTask
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, Processes
from regard.text.config import TranslationTextConfig
from regard.text.tokenizers.translation_tokenizer import (
    TranslationTokenizer,
    train_translation_tokenizer,
)

BLEU = "bleu"  # by which weights can be chosen


class MeasureConfig(BLEUConfig):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case.

    Where weights are chosen by BLEU (``train.metric``), the first ``dev_sentences`` of the
    development set are translated.
    """

    dev_sentences: int = Field(1_000, ge=1)
    """How many sentences of the development set are translated for `train.metric`."""


class Translate(PairTask):
    """The task "translate"."""

    name, has_ladders = "translate", True
    tables: ClassVar = {
        "text": TranslationTextConfig,
        "decode": DecodeConfig,
        "measure": MeasureConfig,
    }
    dev_metrics = (BLEU,)

    @property
    def text(self) -> TranslationTextConfig:
        """The table ``text``."""
        return self.table(TranslationTextConfig)

    @property
    def measure(self) -> MeasureConfig:
        return self.table(MeasureConfig)

    @property
    def chooses_by_bleu(self) -> bool:
        """Whether the development set is translated."""
        return bool(self.recipe.train.metric == BLEU)

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        model = self.recipe.model
        keys = ("features", "vectors")
        yield from (f"model.{key}" for key in keys if getattr(model, key) is not None)
        if model.start is not None and model.start.token_side is not None:
            yield "model.start but for parts without token vectors, as in source.layers"
        if "dev_sentences" in self.measure.model_fields_set and not self.chooses_by_bleu:
            yield "measure.dev_sentences unless train.metric is 'bleu'"

    def facts(self, data: Path) -> tuple[Paper, EncoderDecoder]:
        return encoder_decoder_facts(self.recipe.model, joint=self.text.joint)

    def prepare(self, folder: RunPaths) -> Prepared:
        files = self.train_files(folder)
        tokenizer = self._tokenizer(files, folder)
        pairs = self.load(files, folder, tokenizer.sides, self.text.dropout)
        return Prepared(tokenizer, None, pairs)

    def _tokenizer(self, files: Any, folder: RunPaths) -> TranslationTokenizer:
        if not folder.fresh and any(folder.text.glob("*tokenizer.json")):
            return TranslationTokenizer.load(folder.text)
        config, pairs = self.text, self.read_train(files, folder)
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
        source, target = prepared.tokenizer.sides
        return change(facts, **{"source.vocab": len(source), "target.vocab": len(target)})

    def begin(self, model: nn.Module, data: Path, prepared: Prepared) -> tuple[str, ...]:
        start = self.recipe.model.start
        return () if start is None else copy_parts(start, model, data)

    def objective(self, prepared: Prepared) -> Seq2Seq:
        target = prepared.tokenizer.target
        return Seq2Seq(target.bos, target.eos, self.recipe.train.smoothing)

    def plain_objective(self, prepared: Prepared) -> Seq2Seq:
        target = prepared.tokenizer.target
        return Seq2Seq(target.bos, target.eos, smoothing=0.0)

    def evaluate_dev(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        figures = super().evaluate_dev(prepared, processes, model)
        if self.chooses_by_bleu:
            translator, data = Translator(model, prepared.tokenizer), prepared.dataset
            figures[BLEU] = processes.from_leader(lambda: self._dev_bleu(translator, data))
        return figures

    def _dev_bleu(self, translator: Translator, data: PairData) -> float:
        pairs, measure = data.dev_texts(self.measure.dev_sentences), self.measure
        translations = translator.translate([source for source, _ in pairs], Greedy())
        hypotheses = [best.text for best, *_ in translations]
        references = [[target for _, target in pairs]]
        tokenize, lowercase = measure.tokenize, measure.lowercase
        return bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase).value

    def write(self, model: Any, texts: list[str]) -> list[list[Any]]:
        return model.translate(texts, self.search)
