"""Pre-training objectives by name, and the recipe table that lists them."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, create_model, model_validator

from regard.ground.config import Config
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.paper import Paper
from regard.models.papers import LINEAGE, bert
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.article_fields import FieldsLM
from regard.objectives.bilm import BiLM
from regard.objectives.causal_lm import CausalLM
from regard.objectives.distillation import Distillation
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.negative_sampling import NegativeSampling
from regard.objectives.next_sentence import NextSentence, SentenceOrder
from regard.objectives.permutation_lm import PermutationLM
from regard.objectives.replaced_tokens import ReplacedTokens
from regard.objectives.rows import RowObjective
from regard.objectives.span_boundary import SpanBoundary
from regard.objectives.span_corruption import SpanCorruption
from regard.objectives.sum import Sum

OBJECTIVES: dict[str, type[RowObjective]] = {
    kind.name: kind
    for kind in (
        *(MaskedLM, NextSentence, SentenceOrder, SpanBoundary, ReplacedTokens),
        *(CausalLM, FieldsLM, BiLM, PermutationLM, NegativeSampling, Distillation, SpanCorruption),
    )
}


def paper_with_objectives(name: str) -> Paper:
    """The paper of that name, or BERT if the paper has no pre-training objectives."""
    papers = {paper.key: paper for paper in LINEAGE if paper.pretraining}
    return papers.get(name.lower(), bert.PAPER)


class ObjectiveTables(Config):
    """Recipe tables of objectives, in the order of the recipe; ``NAME = false`` removes one."""

    _names: tuple[str, ...] = PrivateAttr(())

    @classmethod
    def default_keys(cls, model: Mapping[str, object]) -> Mapping[str, object]:
        paper = paper_with_objectives(str(model.get("paper")))
        return paper.pretraining_of(str(model.get("size") or paper.default_size))

    @model_validator(mode="wrap")
    @classmethod
    def _in_order(cls, content: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(content, dict):
            disabled = {name for name in cls.model_fields if content.get(name) is False}
            content = {name: table for name, table in content.items() if name not in disabled}
        tables = handler(content)
        if isinstance(content, dict):
            tables._names = tuple(content)
        return tables

    @property
    def score_texts(self) -> bool:
        """Whether the model gives texts a probability, so that test sets have a perplexity."""
        return any(OBJECTIVES[name].scores_texts for name in self._names)

    @property
    def smooth(self) -> bool:
        """Whether label smoothing applies to any of the objectives."""
        return any(OBJECTIVES[name].smooths for name in self._names)

    @property
    def distils(self) -> bool:
        """Whether one of the objectives has a teacher, and so its tokenizer."""
        return Distillation.name in self._names

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides of the model: of an encoder-decoder if any of the objectives trains one."""
        sides = {OBJECTIVES[name].sides for name in self._names}
        return EncoderDecoder.sides if EncoderDecoder.sides in sides else TrunkWithHeads.sides

    def sum(self, smoothing: float) -> Sum:
        """The sum of the listed objectives."""
        tables = ((OBJECTIVES[name], getattr(self, name)) for name in self._names)
        return Sum(*(kind.from_config(table, smoothing) for kind, table in tables))


_tables: Any = {name: (kind.config | None, None) for name, kind in OBJECTIVES.items()}
ObjectivesConfig = create_model("ObjectivesConfig", __base__=ObjectiveTables, **_tables)
