"""What a run needs to know of translation: its vocabularies, facts, objective and judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data.datasets.pairs import PairData
from regard.metrics.bleu import bleu
from regard.models.config import encoder_decoder_facts
from regard.models.facts import EncoderDecoder, change
from regard.models.paper import Paper
from regard.objectives.seq2seq import Seq2Seq
from regard.search.greedy import Greedy
from regard.tasks.task import mean_nll
from regard.tasks.translate import Translator
from regard.text.labels import LabelSet
from regard.text.translation_tokenizer import TranslationTokenizer, train_translation_tokenizer
from regard.training.distributed import World
from regard.training.loop.events import DevResult
from regard.training.paired import Paired


@dataclass(frozen=True)
class Translating(Paired):
    """The task "translate"."""

    def facts(self, data: Path) -> tuple[Paper, EncoderDecoder]:
        """The model, but for the sizes of its vocabularies."""
        return encoder_decoder_facts(self.recipe.model, joint=self.recipe.text.joint)

    def learn_text(self, pairs: Sequence[tuple[str, str]]) -> TranslationTokenizer:
        """Vocabularies of the training text."""
        text = self.recipe.text
        return train_translation_tokenizer(
            (source for source, _ in pairs),
            (target for _, target in pairs),
            text.kind,
            text.vocab,
            joint=text.joint,
            normalise=text.normalise,
            lower=text.lower,
        )

    def load_text(self, folder: Path) -> TranslationTokenizer:
        """Those of an earlier run."""
        return TranslationTokenizer.load(folder)

    def sides(self, tokenizer: TranslationTokenizer, labels: LabelSet | None) -> tuple[Any, Any]:
        """The vocabularies of both languages."""
        return tokenizer.sides

    def fitted(
        self, facts: EncoderDecoder, text: TranslationTokenizer, labels: LabelSet | None
    ) -> EncoderDecoder:
        """The facts with the sizes of their vocabularies."""
        sizes = {"source.vocab": len(text.source), "target.vocab": len(text.target)}
        return change(facts, **sizes)

    def objective(self, text: TranslationTokenizer, examples: PairData) -> Seq2Seq:
        """What is learned."""
        return Seq2Seq(text.target.bos, text.target.eos, self.recipe.train.smoothing)

    def notes(self) -> dict[str, Any]:
        """How it is decoded unless told otherwise."""
        return {"decode": self.recipe.decode.model_dump()}

    def flops(self, facts: EncoderDecoder, lengths: Sequence[tuple[int, int]]) -> float:
        """What a step costs."""
        return facts.training_flops(lengths)

    def judge(
        self, text: TranslationTokenizer, examples: PairData, world: World, model: nn.Module
    ) -> DevResult:
        """Negative log-likelihood of the development set, and BLEU where it judges."""
        objective = Seq2Seq(text.target.bos, text.target.eos, smoothing=0.0)
        loss = mean_nll(objective, examples.dev_batches(objective, world), model, world)
        figures = {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0)))}
        if self.recipe.train.judge == "loss":
            return DevResult(-loss, figures)
        figures["bleu"] = world.from_leader(lambda: self._dev_bleu(text, examples, model))
        return DevResult(figures["bleu"], figures)

    def _dev_bleu(self, text: TranslationTokenizer, examples: PairData, model: nn.Module) -> float:
        texts = examples.dev_texts(self.recipe.measure.dev_sentences)
        translations = Translator(model, text).translate([s for s, _ in texts], Greedy())
        best, refs = [one[0].text for one in translations], [[t for _, t in texts]]
        measure = self.recipe.measure
        return bleu(best, refs, tokenize=measure.tokenize, lowercase=measure.lowercase).value
