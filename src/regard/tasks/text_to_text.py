"""Text to text: a model reads a text and a task, and writes the answer until EOS.

A causal model reads a text and a task token: translation (``text <to-de> translation``) and
headings (``text <summarize> heading``) are the same task with another token. An encoder-decoder
reads the task as words before the text (Raffel et al., 2019): ``summarize: text``. Only answers are
learned. Answers may be labels, each written as words.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from regard.core.config import UnusableKey
from regard.core.errors import BadInput, shown
from regard.core.reading import Reading
from regard.data.data_tables import FilesConfig
from regard.data.readers.fields import BadExample
from regard.data.readers.sources import Examples, Source, Unparsed
from regard.inference.decoder_model import WrittenText
from regard.inference.generation_settings import DecodeConfig
from regard.metrics.answers import answer_scores
from regard.metrics.classification import MEASURES, class_table, classification_scores, confusion
from regard.metrics.translation import MetricScore
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.heads import NextTokenHead
from regard.models.papers import sized
from regard.objectives.seq2seq import AnswerLM, Seq2Seq
from regard.tasks.pair_task import BLEUConfig, Pair, PairTask
from regard.tasks.plan import Plan, is_encoder_decoder, resolve_encoder_decoder, resolve_trunk
from regard.tasks.run_paths import RunPaths
from regard.tasks.task import Prepared, TaskScores, TrainedModel
from regard.text.task_prompt import PromptConfig
from regard.text.text_tables import EncoderTextConfig
from regard.text.tokenizers.row_tokenizer import RowTokenizer
from regard.text.tokenizers.t5 import T5Tokenizer

NO_LABEL = "(no label)"  # the class of outputs that are not the words of a label


@dataclass(frozen=True)
class LabelWords:
    """Pairs of a source whose targets are labels, with the words of each label in its place."""

    source: Source
    labels: Mapping[str, str]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the source."""
        return self.source.paths

    @property
    def spaced(self) -> tuple[str, ...]:
        """The languages of the source."""
        return self.source.spaced

    @property
    def name(self) -> str:
        """The name of the source in messages."""
        return self.source.name

    @property
    def origin(self) -> dict[str, object]:
        """Settings of the source, and the labels."""
        return {**self.source.origin, "labels": dict(self.labels)}

    def examples(self) -> Examples:
        """All examples, not yet parsed."""
        return ((example[0], partial(self._parse, example)) for example in self.source.examples())

    def _parse(self, example: Unparsed) -> tuple[str, ...]:
        (*_, where), parse = example
        text, label = parse()
        if label.strip() not in self.labels:
            detail = f"{shown(label)} is not a label of prompt.labels ({', '.join(self.labels)})"
            raise BadExample(where, "with an unknown label", detail)
        return text, self.labels[label.strip()]


class TextToText(PairTask[Reading]):
    """The task "text-to-text"."""

    name = "text-to-text"
    own_tables: ClassVar = {
        "text": EncoderTextConfig,
        "prompt": PromptConfig,
        "decode": DecodeConfig,
        "measure": BLEUConfig,
    }
    test_metrics = (*PairTask.test_metrics, "exact match", "F1", *MEASURES)

    @property
    def prompt(self) -> PromptConfig:
        """The table ``prompt``."""
        return self.tables[PromptConfig]

    @property
    def single_label(self) -> bool:
        return bool(self.prompt.labels)

    @property
    def metrics(self) -> Collection[str]:
        return {*super().metrics} - (set() if self.single_label else {*MEASURES})

    def unread_keys(self) -> Iterator[UnusableKey]:
        sides = sized(self.tables.model.name).sides
        return self.tables.unread_text_keys(self.tables.tokenizer_key, sides=sides)

    def source(self, files: FilesConfig, data: Path) -> Source:
        source = super().source(files, data)
        return LabelWords(source, self.prompt.labels) if self.prompt.labels else source

    def resolve(self, data: Path) -> Plan:
        paired = is_encoder_decoder(self.tables, data)
        other, own = ("task_token", "prefix") if paired else ("prefix", "task_token")
        if other in self.prompt.model_fields_set:
            kind = "an encoder-decoder" if paired else "a model with one trunk"
            raise BadInput(f"prompt.{other} cannot be used with {kind}: set prompt.{own}")
        if paired:
            return resolve_encoder_decoder(self.tables, data, joint=True)
        decided = {"vocab": "text.vocab", "output_heads": "the task", "pool": "the task"}
        plan = resolve_trunk(self.tables, data, lambda facts: (NextTokenHead(),), decided=decided)
        AnswerLM.check(plan.trunk)
        return plan.with_special_tokens((self.prompt.task_token,))

    def prepare(self, plan: Plan, paths: RunPaths) -> Prepared[Reading]:
        files = self.train_files(paths)

        def texts_of(pair: Pair) -> Iterator[str]:
            return (text for text in (self.prompt.prefix, *pair[1:]) if text)

        tokenizer = plan.read_texts(paths, lambda: self.vocabulary_texts(files, paths, texts_of)[0])
        dataset = self.load(files, paths, (tokenizer.words,) * 2)
        prepared = Prepared(plan.reading(tokenizer), dataset)
        self._check_lengths(prepared, plan.facts.encoder.embed.limit)
        return prepared

    def _check_lengths(self, prepared: Prepared[Reading], limit: int | None) -> None:
        """Refuse development rows for which the model has no positions."""
        objective = self.plain_objective(prepared)
        longest = max(max(objective.length(example)) for example in prepared.dataset.dev)
        if limit is not None and longest > limit:
            fault = f"a row has {longest} tokens, but the model has {limit} positions"
            raise BadInput(f"data.dev: {fault}: set prompt.longest to truncate texts")

    def plain_objective(self, prepared: Prepared[Reading]) -> Seq2Seq | AnswerLM:
        if prepared.reading.name == T5Tokenizer.name:
            target = cast(T5Tokenizer, prepared.reading).target
            return Seq2Seq(target.bos, target.eos, 0.0, self.prompt.prefixed(target))
        tokenizer = cast(RowTokenizer, prepared.reading)
        return AnswerLM(self.prompt.prompt(tokenizer.words), tokenizer.eos)

    def notes(self) -> dict[str, object]:
        notes = {"longest": self.tables.batches.longest, **super().notes()}
        return notes | {"prompt": self.prompt.model_dump()}

    def write(self, model: TrainedModel, texts: list[str]) -> Sequence[Sequence[WrittenText]]:
        trained, search = model.notes.get("prompt"), self.tables[DecodeConfig].search
        if trained is None or PromptConfig.as_trained(trained) != self.prompt:
            known = "no prompt" if trained is None else f"the prompt {trained}"
            raise BadInput(f"this model was trained with {known}, not {self.prompt.model_dump()}")
        paired = model.facts.sides == EncoderDecoder.sides
        return (model.translate if paired else model.generate)(texts, search)

    def test_scores(
        self, model: TrainedModel, examples: Sequence[Pair], with_interval: bool = False
    ) -> TaskScores:
        if not self.single_label:
            return super().test_scores(model, examples, with_interval)
        outputs = self.write(model, [source for _, source, _ in examples])
        written = [best.text for best, *_ in outputs]
        golds, labels = (
            [self.prompt.label_of(text) or NO_LABEL for text in texts]
            for texts in ([target for *_, target in examples], written)
        )
        scores = self.scores(written, [target for *_, target in examples], with_interval)
        scores += classification_scores(golds, labels, with_interval)
        return TaskScores(scores, class_table(golds, labels), confusion(golds, labels))

    def scores(
        self, hypotheses: list[str], references: list[str], with_interval: bool
    ) -> list[MetricScore]:
        written = super().scores(hypotheses, references, with_interval)
        golds = [[reference] for reference in references]
        return [*written, *answer_scores(golds, hypotheses, with_interval)]
