"""Tables of tasks whose own file does not have them yet; gone when all tasks stand in one file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator
from torch import nn

from regard.data.sources import DropCounts
from regard.ground.config import Config
from regard.models.facts import ModelFacts
from regard.models.paper import Paper
from regard.search.beam import Beam
from regard.tasks.published import search_of
from regard.tasks.task import Prepared, Processes, RunFolder, Task, TaskScores
from regard.text.config import EncoderTextConfig, TranslationTextConfig
from regard.text.families import FAMILIES

EMPTY_IS_NONE = AfterValidator(lambda name: name or None)  # TOML has no word for nothing
Weights = dict[str, Annotated[float, Field(gt=0)]] | Literal["balanced"]


class ClassLabelsConfig(Config):
    """How classes are called, where files write them otherwise, and how much each counts.

    Weights are one for each class (1 where none is given), or "balanced": all classes together
    count the same. A text has "one" label, "several", or a "number"; ``positive`` is the class that
    F1 is about; "" is none.
    """

    names: dict[str, str] | None = None
    weights: Weights | None = None
    kind: Literal["one", "several", "number"] = "one"
    positive: Annotated[str | None, EMPTY_IS_NONE] = None

    @model_validator(mode="after")
    def _are_classes(self) -> "ClassLabelsConfig":
        for key in ("names", "weights", "positive") if self.kind != "one" else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key} cannot be used with labels of kind {self.kind!r}")
        return self


class TagLabelsConfig(Config):
    """How tags are called, where files write them otherwise, and how much each counts.

    A word has "one" tag or a "number". Tags of entities are learned in a ``scheme``, or as they
    stand; "" is none.
    """

    names: dict[str, str] | None = None
    weights: Weights | None = None
    kind: Literal["one", "number"] = "one"
    scheme: Annotated[Literal["IOB1", "IOB2", "BIOES", "BILOU", ""] | None, EMPTY_IS_NONE] = None

    @model_validator(mode="after")
    def _are_tags(self) -> "TagLabelsConfig":
        for key in ("names", "weights", "scheme") if self.kind != "one" else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key} cannot be used with labels of kind {self.kind!r}")
        return self


class AnswersConfig(Config):
    """Windows over a context: their tokens, those two share, and how long things may be.

    ``threshold``: how much better "no answer" must be than the best answer; without it, every
    question is answered.
    """

    stride: int = Field(128, ge=0)
    question: int = Field(64, ge=1)
    longest: int = Field(30, ge=1)
    threshold: float | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The same as whoever answers calls them."""
        return {
            "stride": self.stride,
            "question": self.question,
            "longest_answer": self.longest,
            "threshold": self.threshold,
        }


class PretrainConfig(Config):
    """What an encoder learns from documents: masked tokens, and which passage follows another.

    With ``next_sentence`` rows are pairs of passages, those of a share ``short`` of all documents
    of any length; without it they are full of sentences. Of the tokens of a row a share ``rate`` is
    chosen, by ``whole_words`` or each on its own.
    """

    next_sentence: bool = True
    rate: float = Field(0.15, gt=0, le=0.5)
    whole_words: bool = False
    short: float = Field(0.1, ge=0, le=1)


class DecodeConfig(Config):
    """How sentences are found on the test set, and later, unless told otherwise."""

    free_keys = ("beam", "length", "alpha")
    beam: int = Field(5, ge=1)
    length: Literal["none", "mean", "gnmt", "power"] = "gnmt"
    alpha: float = Field(0.6, ge=0, allow_inf_nan=False)

    @property
    def search(self) -> Beam:
        """The beam search it describes."""
        return search_of(self.model_dump())

    @model_validator(mode="after")
    def _can_be_searched(self) -> "DecodeConfig":
        search_of(self.model_dump())
        return self


class MeasureConfig(Config):
    """Which BLEU: sacreBLEU's tokeniser ("none" for text that is tokenised already), and case.

    Weights that are chosen by BLEU (``train.judge``) translate ``dev_sentences`` of the
    development set.
    """

    free_keys = ("tokenize", "lowercase")
    tokenize: str = "13a"
    lowercase: bool = False
    dev_sentences: int = Field(1_000, ge=1)


class InterimTask(Task):
    """Its tables; what it does is done elsewhere."""

    def facts(self, data: Path) -> tuple[Paper, ModelFacts]:
        raise NotImplementedError

    def check_data(self, data: Path, skip_bad: bool) -> dict[str, int]:
        raise NotImplementedError

    def prepare(self, folder: RunFolder) -> Prepared:
        raise NotImplementedError

    def fit(self, facts: Any, prepared: Prepared) -> ModelFacts:
        raise NotImplementedError

    def objective(self, prepared: Prepared) -> Any:
        raise NotImplementedError

    def dev_figures(
        self, prepared: Prepared, processes: Processes, model: nn.Module
    ) -> dict[str, float]:
        raise NotImplementedError

    def test_scores(
        self,
        model: Any,
        files: Any,
        data: Path,
        dropped: DropCounts | None = None,
        *,
        with_interval: bool = False,
    ) -> TaskScores:
        raise NotImplementedError


class TranslateInterim(InterimTask):
    name, unit, has_ladders = "translate", "pairs", True
    tables: ClassVar = {
        "text": TranslationTextConfig,
        "decode": DecodeConfig,
        "measure": MeasureConfig,
    }
    dev_metrics, test_metrics = ("bleu",), ("BLEU", "chrF", "TER")

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        if self.recipe.model.start is not None:
            yield "model.start"
        keys = self.recipe.table(MeasureConfig).model_fields_set
        if "dev_sentences" in keys and self.recipe.train.judge != "bleu":
            yield "measure.dev_sentences beside train.judge other than 'bleu'"


class EncoderInterim(InterimTask):
    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        text, data = self.recipe.table(EncoderTextConfig), self.recipe.data
        if self.recipe.model.start is not None and text.model_fields_set:
            yield "text beside model.start, which has a tokenizer: text=false removes the table"
        elif text.kind not in (None, *(family.name for family in FAMILIES)):
            yield "text.kind"
        yield from (
            f"text.{key}" for key in ("normalise", "dropout") if key in text.model_fields_set
        )
        if "longest_characters" in data.model_fields_set:
            yield "data.longest_characters"


class ClassifyInterim(EncoderInterim):
    name = "classify"
    tables: ClassVar = {"text": EncoderTextConfig, "labels": ClassLabelsConfig}
    dev_metrics = ("accuracy", "macro-F1", "Matthews", "F1", "Pearson", "Spearman", "micro-F1")
    test_metrics = dev_metrics

    @property
    def names_labels(self) -> bool:
        return self.recipe.table(ClassLabelsConfig).kind == "one"

    @property
    def smooths(self) -> bool:
        return self.names_labels

    def unread_keys(self) -> Iterator[str]:
        if self.recipe.data.train.reader is not None:
            yield from super().unread_keys()
            return
        where = "where data.train has no reader"
        if self.recipe.model.start is not None:
            yield f"model.start {where}"
        if not self.names_labels:
            yield f"labels.kind {where}"


class TagInterim(EncoderInterim):
    name = "tag"
    tables: ClassVar = {"text": EncoderTextConfig, "labels": TagLabelsConfig}
    dev_metrics = ("F1", "accuracy", "Pearson")
    test_metrics = (*dev_metrics, "precision", "recall")

    @property
    def names_labels(self) -> bool:
        return self.recipe.table(TagLabelsConfig).kind == "one"

    @property
    def smooths(self) -> bool:
        return self.names_labels


class AnswerInterim(EncoderInterim):
    name = "answer"
    tables: ClassVar = {"text": EncoderTextConfig, "answers": AnswersConfig}
    dev_metrics = test_metrics = ("exact match", "F1")
    smooths = False


class ChooseInterim(EncoderInterim):
    name = "choose"
    tables: ClassVar = {"text": EncoderTextConfig}
    dev_metrics = test_metrics = ("accuracy",)
    smooths = False


class PretrainInterim(EncoderInterim):
    name, unit = "pretrain", "documents"
    tables: ClassVar = {"text": EncoderTextConfig, "pretrain": PretrainConfig}

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        if self.recipe.data.tests:
            yield "data.test"
