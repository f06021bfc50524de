"""Text to text by a causal model: a text, a task token, then the answer it writes until EOS.

Translation (``text <to-de> translation``) and headings (``text <summarize> heading``) are the same
task with another token; only answers are learned.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar

from regard.ground.errors import BadInput
from regard.inference.decoder_model import WrittenText
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.answers import answer_scores
from regard.metrics.translation import MetricScore
from regard.models.heads import NextTokenHead
from regard.objectives.seq2seq import AnswerLM
from regard.tasks.pair_task import BLEUConfig, PairTask
from regard.tasks.plan import Plan, resolve_trunk
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, TrainedModel
from regard.text.config import EncoderTextConfig
from regard.text.task_prompt import PromptConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer


class TextToText(PairTask[RowTokenizer]):
    """The task "text-to-text"."""

    name = "text-to-text"
    own_tables: ClassVar = {
        "text": EncoderTextConfig,
        "prompt": PromptConfig,
        "decode": DecodeConfig,
        "measure": BLEUConfig,
    }
    test_metrics = (*PairTask.test_metrics, "exact match", "F1")

    @property
    def prompt(self) -> PromptConfig:
        """The table ``prompt``."""
        return self.tables[PromptConfig]

    def unread_keys(self) -> Iterator[str]:
        return self.tables.unread_text_keys(self.tables.tokenizer_key)

    def resolve(self, data: Path) -> Plan:
        decided = {"vocab": "text.vocab", "output_heads": "the task", "pool": "the task"}
        plan = resolve_trunk(self.tables, data, lambda facts: (NextTokenHead(),), decided=decided)
        AnswerLM.check(plan.trunk)
        return plan.with_special_tokens((self.prompt.task_token,))

    def prepare(self, plan: Plan, place: RunPaths) -> Prepared[RowTokenizer]:
        files = self.train_files(place)

        def texts() -> Iterator[str]:
            return chain.from_iterable(pair[1:] for pair in self.read_train(files, place))

        tokenizer = plan.read_texts(place, texts)
        prepared = Prepared(tokenizer, self.load(files, place, (tokenizer.words,) * 2))
        self._check_lengths(prepared, plan.facts.encoder.embed.limit)
        return prepared

    def _check_lengths(self, prepared: Prepared[RowTokenizer], limit: int | None) -> None:
        """Refuse development rows for which the model has no positions."""
        objective = self.plain_objective(prepared)
        longest = max(objective.length(example)[0] for example in prepared.dataset.dev)
        if limit is not None and longest > limit:
            fault = f"a row has {longest} tokens, but the model has {limit} positions"
            raise BadInput(f"data.dev: {fault}: set prompt.longest to truncate texts")

    def plain_objective(self, prepared: Prepared[RowTokenizer]) -> AnswerLM:
        tokenizer = prepared.reading
        return AnswerLM(self.prompt.prompt(tokenizer.words), tokenizer.eos)

    def notes(self) -> dict[str, object]:
        notes = {"longest": self.tables.batches.longest, **super().notes()}
        return notes | {"prompt": self.prompt.model_dump()}

    def write(self, model: TrainedModel, texts: list[str]) -> Sequence[Sequence[WrittenText]]:
        if (trained := model.notes.get("prompt")) != self.prompt.model_dump():
            known = "no prompt" if trained is None else f"the prompt {trained}"
            raise BadInput(f"this model was trained with {known}, not {self.prompt.model_dump()}")
        return model.generate(texts, self.tables[DecodeConfig].search)

    def scores(
        self, hypotheses: list[str], references: list[str], with_interval: bool
    ) -> list[MetricScore]:
        written = super().scores(hypotheses, references, with_interval)
        golds = [[reference] for reference in references]
        return [*written, *answer_scores(golds, hypotheses, with_interval)]
