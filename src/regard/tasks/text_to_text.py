"""Text to text by a causal model: a text, a task token, then the answer it writes until EOS.

Translation (``text <to-de> translation``) and headings (``text <summarize> heading``) are the same
task with another token; only answers are learned.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from regard.ground.errors import BadInput
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.answers import answer_scores
from regard.metrics.translation import MetricScore
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.paper import Paper
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.seq2seq import AnswerLM
from regard.tasks.pair_task import BLEUConfig, PairTask
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared
from regard.tasks.trunk_task import TrunkTask
from regard.text.config import EncoderTextConfig
from regard.text.task_prompt import PromptConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer


class TextToText(PairTask, TrunkTask):
    """The task "text-to-text"."""

    name = "text-to-text"
    tables: ClassVar = {
        "text": EncoderTextConfig,
        "prompt": PromptConfig,
        "decode": DecodeConfig,
        "measure": BLEUConfig,
    }
    test_metrics = (*PairTask.test_metrics, "exact match", "F1")
    decided: ClassVar = {"vocab": "text.vocab", "output_heads": "the task", "pool": "the task"}

    @property
    def prompt(self) -> PromptConfig:
        """The table ``prompt``."""
        return self.table(PromptConfig)

    @property
    def measure(self) -> BLEUConfig:
        return self.table(BLEUConfig)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return (self.prompt.task_token,)

    def vocabulary(self, data: Path) -> RowTokenizer | None:
        given = super().vocabulary(data)
        return None if given is None else given.with_special_tokens(self.special_tokens)

    def facts(self, data: Path) -> tuple[Paper, TrunkWithHeads]:
        paper, facts = super().facts(data)
        AnswerLM.check(facts)
        if (given := self.vocabulary(data)) is not None:
            facts = change(facts, vocab=max(facts.sizes["tokens"], len(given.words)))
        return paper, facts

    def with_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        return replace(facts, output_heads=(NextTokenHead(),), pool=None)

    def prepare(self, folder: RunPaths) -> Prepared:
        files = self.train_files(folder)

        def texts() -> Iterator[str]:
            return chain.from_iterable(pair[1:] for pair in self.read_train(files, folder))

        tokenizer = self.tokenizer(folder, texts)
        prepared = Prepared(tokenizer, None, self.load(files, folder, (tokenizer.words,) * 2))
        self._check_lengths(prepared, folder.data)
        return prepared

    def _check_lengths(self, prepared: Prepared, data: Path) -> None:
        """Refuse development rows for which the model has no positions."""
        limit, objective = self.facts(data)[1].trunk.embed.limit, self.plain_objective(prepared)
        longest = max(objective.length(example)[0] for example in prepared.dataset.dev)
        if limit is not None and longest > limit:
            fault = f"a row has {longest} tokens, and the model knows {limit} positions"
            raise BadInput(f"data.dev: {fault}: prompt.longest shortens texts")

    def objective(self, prepared: Prepared) -> AnswerLM:
        plain = self.plain_objective(prepared)
        return replace(plain, smoothing=self.recipe.train.smoothing)

    def plain_objective(self, prepared: Prepared) -> AnswerLM:
        words = prepared.tokenizer.words
        return AnswerLM(self.prompt.prompt(words), words.eos)

    def notes(self) -> dict[str, Any]:
        return {**super().notes(), "prompt": self.prompt.model_dump()}

    def write(self, model: Any, texts: list[str]) -> list[list[Any]]:
        if (trained := model.notes.get("prompt")) != self.prompt.model_dump():
            known = "no prompt" if trained is None else f"the prompt {trained}"
            raise BadInput(f"this model was trained with {known}, not {self.prompt.model_dump()}")
        return model.generate(texts, self.search)

    def scores(
        self, hypotheses: list[str], references: list[str], with_interval: bool
    ) -> list[MetricScore]:
        written = super().scores(hypotheses, references, with_interval)
        golds = [[reference] for reference in references]
        return [*written, *answer_scores(golds, hypotheses, with_interval)]
