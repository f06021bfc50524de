"""Pre-training objectives by name, and the recipe table that lists them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, PrivateAttr, create_model, model_validator

from regard.core.catalogue import Catalogue, Entry
from regard.core.config import Config
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.paper import Paper
from regard.models.papers import PAPERS
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.rows import RowObjective
from regard.objectives.sum import Sum

OBJECTIVES = Catalogue[type[RowObjective]](
    {
        "masked-lm": Entry("regard.objectives.masked_lm:MaskedLM"),
        "next-sentence": Entry("regard.objectives.next_sentence:NextSentence"),
        "sentence-order": Entry("regard.objectives.next_sentence:SentenceOrder"),
        "span-boundary": Entry("regard.objectives.span_boundary:SpanBoundary"),
        "replaced-tokens": Entry("regard.objectives.replaced_tokens:ReplacedTokens"),
        "causal-lm": Entry("regard.objectives.causal_lm:CausalLM"),
        "fields": Entry("regard.objectives.article_fields:FieldsLM"),
        "bilm": Entry("regard.objectives.bilm:BiLM"),
        "permutation-lm": Entry("regard.objectives.permutation_lm:PermutationLM"),
        "negative-sampling": Entry("regard.objectives.negative_sampling:NegativeSampling"),
        "distillation": Entry("regard.objectives.distillation:Distillation"),
        "span-corruption": Entry("regard.objectives.span_corruption:SpanCorruption"),
    }
)


def paper_with_objectives(name: str) -> Paper:
    """The paper of that name, or BERT if the paper has no pre-training objectives."""
    paper = PAPERS.get(name.lower())
    return paper if paper is not None and paper.pretraining else PAPERS["bert"]


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
        return "distillation" in self._names

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides of the model: of an encoder-decoder if any of the objectives trains one."""
        sides = {OBJECTIVES[name].sides for name in self._names}
        return EncoderDecoder.sides if EncoderDecoder.sides in sides else TrunkWithHeads.sides

    def sum(self, smoothing: float) -> Sum:
        """The sum of the listed objectives."""
        tables = ((OBJECTIVES[name], getattr(self, name)) for name in self._names)
        return Sum(*(kind.from_config(table, smoothing) for kind, table in tables))


@cache
def objectives_config() -> type[ObjectiveTables]:
    """The recipe table with a table of each objective; all objectives are imported."""
    tables: Any = {name: (kind.config | None, None) for name, kind in OBJECTIVES.items()}
    return create_model("ObjectivesConfig", __base__=ObjectiveTables, **tables)
