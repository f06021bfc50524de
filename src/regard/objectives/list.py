"""The objectives of pre-training by name, and the table of recipes that lists them."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, create_model, model_validator

from regard.ground.config import Config
from regard.models.paper import Paper
from regard.models.papers import LINEAGE, bert
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
from regard.objectives.sum import Sum

OBJECTIVES: dict[str, type[RowObjective]] = {
    one.name: one
    for one in (
        *(MaskedLM, NextSentence, SentenceOrder, SpanBoundary, ReplacedTokens),
        *(CausalLM, BiLM, PermutationLM, NegativeSampling, Distillation),
    )
}


def paper_with_objectives(name: str) -> Paper:
    """The paper of that name, or BERT's if it has no objectives of pre-training."""
    papers = {paper.key: paper for paper in LINEAGE if paper.pretraining}
    return papers.get(name.lower(), bert.PAPER)


class ObjectiveTables(Config):
    """A table for each objective, in the order of the recipe; ``NAME = false`` removes one."""

    _names: tuple[str, ...] = PrivateAttr(())

    @classmethod
    def default_keys(cls, model: Mapping[str, object]) -> Mapping[str, object]:
        paper = paper_with_objectives(str(model.get("paper")))
        return paper.pretraining_of(str(model.get("size") or paper.default_size))

    @model_validator(mode="wrap")
    @classmethod
    def _in_order(cls, content: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(content, dict):
            content = {
                name: table
                for name, table in content.items()
                if table is not False or name not in cls.model_fields
            }
        tables = handler(content)
        if isinstance(content, dict):
            tables._names = tuple(content)
        return tables

    @property
    def score_texts(self) -> bool:
        """Whether texts have a probability, and test sets a perplexity."""
        return any(OBJECTIVES[one].scores_texts for one in self._names)

    @property
    def smooth(self) -> bool:
        """Whether label smoothing applies to one of them."""
        return any(OBJECTIVES[one].smooths for one in self._names)

    @property
    def distils(self) -> bool:
        """Whether a teacher, and its tokenizer, are among them."""
        return Distillation.name in self._names

    def sum(self, smoothing: float) -> Sum:
        """The sum of the listed objectives."""
        return Sum(
            *(OBJECTIVES[one].from_config(getattr(self, one), smoothing) for one in self._names)
        )


_tables: Any = {name: (one.config | None, None) for name, one in OBJECTIVES.items()}
ObjectivesConfig = create_model("ObjectivesConfig", __base__=ObjectiveTables, **_tables)
