"""Labels that an encoder-decoder writes as words (Raffel et al., 2019), parsed back.

A text that is not the words of any label has no label, and counts as wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import ClassVar, cast

from regard.core.batch import BatchLimits
from regard.core.tape import NULL_TAPE, NullTape
from regard.inference.component import Row
from regard.inference.decoder_model import Request, WriterData, WriterRow
from regard.inference.predictor import Predictor
from regard.inference.translator import Translator
from regard.text.task_prompt import PromptConfig

TextRow = Row[str, WriterData]


@dataclass(frozen=True)
class WrittenLabel:
    """A label, or None, with the text that the model wrote and its probability."""

    empty_record: ClassVar = {"label": None, "text": None, "probability": None}
    label: str | None
    text: str
    probability: float

    @property
    def line(self) -> str:
        """Label and probability, separated by a tab; a text that is no label is marked."""
        label = f"(no label) {' '.join(self.text.split())}" if self.label is None else self.label
        return f"{label}\t{self.probability:.4f}"

    @property
    def record(self) -> dict[str, object]:
        """The prediction for JSON."""
        return {"label": self.label, "text": self.text, "probability": self.probability}


@dataclass(frozen=True, eq=False)
class WritingClassifier(Predictor[str, WriterData, WrittenLabel]):
    """The component "classify" of an encoder-decoder that writes the words of labels."""

    name = "classify"
    translator: Translator = field(kw_only=True)
    prompt: PromptConfig = field(kw_only=True)

    @classmethod
    def of(cls, translator: Translator, prompt: PromptConfig) -> "WritingClassifier":
        """The classifier of a translator, with the prompt of its training."""
        read = translator.module, translator.vocabularies, None
        limits = translator.batch_size, translator.position_limit
        return cls(*read, *limits, translator=translator, prompt=prompt)

    @property
    def limits(self) -> BatchLimits:
        return self.translator.limits

    @property
    def empty_record(self) -> Mapping[str, object]:
        return WrittenLabel.empty_record

    @property
    def columns(self) -> tuple[str, ...]:
        return "label", "probability"

    def parse(self, line: str, where: str) -> str:
        return line

    def token_count(self, given: str, most: int) -> int:
        return self.translator.token_count(given, most)

    def rows(self, inputs: Sequence[str], keys: Sequence[int]) -> list[TextRow]:
        return cast(list[TextRow], self.translator.rows([*map(Request, inputs)], keys))

    def values(self, rows: Sequence[TextRow], tape: NullTape = NULL_TAPE) -> list[WrittenLabel]:
        writer = self.translator.writer()
        outputs = writer.values(cast(Sequence[WriterRow], rows), tape)
        written = [(best.text, exp(best.hypothesis.logprob)) for (best, *_), _ in outputs]
        return [WrittenLabel(self.prompt.label_of(text), text, p) for text, p in written]
