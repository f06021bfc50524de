"""Translation: pairs of texts, an encoder-decoder, and its BLEU."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, cast

from pydantic import Field
from torch import nn

from regard.core.config import UnusableKey
from regard.data.batches.pair_dataset import PairData
from regard.data.data_tables import FilesConfig
from regard.generation.greedy import Greedy
from regard.inference.decoder_model import WrittenText
from regard.inference.generation_settings import DecodeConfig
from regard.inference.translator import Translator
from regard.metrics.translation import bleu
from regard.models.start import hold_at_zero
from regard.objectives.seq2seq import Seq2Seq
from regard.tasks.pair_task import BLEUConfig, PairTask
from regard.tasks.plan import WORD_VECTORS, Plan, resolve_encoder_decoder
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import DevScores, Prepared, PreparedModel, Processes, TrainedModel
from regard.text.text_tables import TranslationTextConfig
from regard.text.tokenizers.marian_spm import MarianPieces, MarianTokenizer, train_marian_tokenizer
from regard.text.tokenizers.translation_tokenizer import (
    TranslationTokenizer,
    train_translation_tokenizer,
)

BLEU = "bleu"  # by which weights can be chosen
TOKENIZERS: dict[str, type[TranslationTokenizer]] = {MarianPieces.kind: MarianTokenizer}
TRAINERS: dict[str, Callable[..., TranslationTokenizer]] = {
    MarianPieces.kind: train_marian_tokenizer
}
"""Tokenizers of kinds that are not subwords alone, and the functions that learn them."""


class MeasureConfig(BLEUConfig):
    """Tokeniser of sacreBLEU ("none" for text that is tokenised already), and case.

    If ``train.metric`` is BLEU, the first ``dev_sentences`` of the development set are translated.
    """

    dev_sentences: int = Field(1_000, ge=1)
    """Number of sentences of the development set that are translated for `train.metric`."""


class Translate(PairTask[TranslationTokenizer]):
    """The task "translate"."""

    name, reads_links, default_smoothing = "translate", True, 0.1
    own_tables: ClassVar = {
        "text": TranslationTextConfig,
        "decode": DecodeConfig,
        "measure": MeasureConfig,
    }
    dev_metrics = (BLEU,)

    @property
    def chooses_by_bleu(self) -> bool:
        """Whether the development set is translated, because ``train.metric`` is BLEU."""
        return self.tables.metric == BLEU

    def unread_keys(self) -> Iterator[UnusableKey]:
        model = self.tables.model
        yield from (
            UnusableKey(f"model.{key}") for key in WORD_VECTORS if getattr(model, key) is not None
        )
        if model.start is not None and model.start.token_side is not None:
            why = "but for parts without token vectors, as in source.layers"
            yield UnusableKey("model.start", why)
        if (
            "dev_sentences" in self.tables[MeasureConfig].model_fields_set
            and not self.chooses_by_bleu
        ):
            yield UnusableKey("measure.dev_sentences", "unless train.metric is 'bleu'")

    def resolve(self, data: Path) -> Plan:
        joint = self.tables[TranslationTextConfig].joint
        return resolve_encoder_decoder(self.tables, data, joint=joint)

    def prepare(self, plan: Plan, paths: RunPaths) -> PreparedModel[TranslationTokenizer]:
        files, text = self.train_files(paths), self.tables[TranslationTextConfig]
        tokenizer = self._tokenizer(files, paths)
        data, facts = self.load(files, paths, tokenizer.sides, text.dropout), plan.fit(tokenizer)
        return PreparedModel(tokenizer, data, paper=plan.paper, facts=facts)

    def _tokenizer(self, files: FilesConfig, paths: RunPaths) -> TranslationTokenizer:
        config = self.tables[TranslationTextConfig]
        kind = TOKENIZERS.get(config.kind, TranslationTokenizer)
        if not paths.fresh and any((paths.text / name).exists() for name in kind.FILES):
            return kind.load(paths.text)
        subwords = partial(train_translation_tokenizer, kind=config.kind, joint=config.joint)
        learn = TRAINERS.get(config.kind, subwords)
        tokenizer = learn(
            *self.vocabulary_texts(files, paths, itemgetter(slice(1, 2)), itemgetter(slice(2, 3))),
            vocab=config.vocab,
            normalise=config.normalise,
            lower=config.lower,
        )
        paths.keep_text(tokenizer)
        return tokenizer

    def prepare_module(self, module: nn.Module, prepared: Prepared[TranslationTokenizer]) -> None:
        tokenizer = prepared.reading
        if tokenizer.starts_from_zero:
            vectors = cast(nn.Embedding, module.get_submodule("target.embed.token"))
            hold_at_zero(vectors, tokenizer.target.bos)

    def plain_objective(self, prepared: Prepared[TranslationTokenizer]) -> Seq2Seq:
        target = prepared.reading.target
        return Seq2Seq(target.bos, target.eos, smoothing=0.0)

    def evaluate_dev(
        self, prepared: Prepared[TranslationTokenizer], processes: Processes, model: nn.Module
    ) -> DevScores:
        scores = super().evaluate_dev(prepared, processes, model)
        if self.chooses_by_bleu:
            read = cast(PreparedModel[TranslationTokenizer], prepared)
            translator = Translator(read.loaded(model, {}))
            data = cast(PairData, prepared.dataset)
            bleu = processes.from_leader(lambda: self._dev_bleu(translator, data))
            scores.figures[BLEU] = bleu
        return scores

    def _dev_bleu(self, translator: Translator, data: PairData) -> float:
        measure = self.tables[MeasureConfig]
        pairs = data.dev_texts(measure.dev_sentences)
        translations = translator.translate([source for source, _ in pairs], Greedy())
        hypotheses = [best.text for best, *_ in translations]
        references = [[target for _, target in pairs]]
        tokenize, lowercase = measure.tokenize, measure.lowercase
        return bleu(hypotheses, references, tokenize=tokenize, lowercase=lowercase).value

    def write(self, model: TrainedModel, texts: list[str]) -> Sequence[Sequence[WrittenText]]:
        return model.translate(texts, self.tables[DecodeConfig].search)
