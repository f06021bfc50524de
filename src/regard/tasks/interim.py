"""Tables of tasks whose own file does not have them yet; gone when all tasks stand in one file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator
from torch import nn

from regard.data.sources import DropCounts, read_pairs
from regard.ground.config import Config
from regard.metrics.bleu import bleu
from regard.metrics.translation import chrf, ter
from regard.models.facts import ModelFacts
from regard.models.paper import Paper
from regard.search.beam import Beam
from regard.tasks.published import search_of
from regard.tasks.task import Prepared, Processes, RunFolder, Task, TaskScores
from regard.text.config import EncoderTextConfig, TranslationTextConfig

EMPTY_IS_NONE = AfterValidator(lambda name: name or None)  # TOML has no word for nothing
Weights = dict[str, Annotated[float, Field(gt=0)]] | Literal["balanced"]


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


class Translate(InterimTask):
    name, unit, has_ladders = "translate", "pairs", True
    tables: ClassVar = {
        "text": TranslationTextConfig,
        "decode": DecodeConfig,
        "measure": MeasureConfig,
    }
    dev_metrics, test_metrics = ("bleu",), ("BLEU", "chrF", "TER")

    def test_scores(
        self,
        model: Any,
        files: Any,
        data: Path,
        dropped: DropCounts | None = None,
        *,
        with_interval: bool = False,
    ) -> TaskScores:
        pairs = list(read_pairs(files.under(data), self.recipe.data.longest_characters, dropped))
        measure, decode = self.recipe.table(MeasureConfig), self.recipe.table(DecodeConfig)
        results = model.translate([source for _, source, _ in pairs], decode.search)
        hypotheses = [hypotheses[0].text for hypotheses in results]
        references = [[target for _, _, target in pairs]]
        case: dict[str, Any] = {"lowercase": measure.lowercase, "with_interval": with_interval}
        return TaskScores(
            [
                bleu(hypotheses, references, tokenize=measure.tokenize, **case),
                chrf(hypotheses, references, **case),
                ter(hypotheses, references, with_interval=with_interval),
            ]
        )

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        if self.recipe.model.start is not None:
            yield "model.start"
        keys = self.recipe.table(MeasureConfig).model_fields_set
        if "dev_sentences" in keys and self.recipe.train.judge != "bleu":
            yield "measure.dev_sentences beside train.judge other than 'bleu'"


class Pretrain(InterimTask):
    name, unit = "pretrain", "documents"
    tables: ClassVar = {"text": EncoderTextConfig, "pretrain": PretrainConfig}

    def unread_keys(self) -> Iterator[str]:
        yield from super().unread_keys()
        text = self.recipe.table(EncoderTextConfig)
        if self.recipe.model.start is not None:
            yield from (f"text.{key} beside model.start" for key in sorted(text.model_fields_set))
        elif text.kind not in (None, "wordpiece"):
            yield "text.kind"
        yield from (
            f"text.{key}" for key in ("normalise", "dropout") if key in text.model_fields_set
        )
        if "longest_characters" in self.recipe.data.model_fields_set:
            yield "data.longest_characters"
        if self.recipe.model.source is not None:
            yield "model.source"
        if self.recipe.data.tests:
            yield "data.test"
