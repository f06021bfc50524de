"""Next-sentence prediction (Devlin et al., 2018, section 3.1, task 2) and sentence order.

A row holds two passages. In half of the rows the second passage follows the first in its document,
in the others it comes from another document; the model predicts which, from the pooled state.
Sentence-order prediction (Lan et al., 2019, section 3.1) instead swaps two consecutive passages in
half of the rows, so that topics do not give the answer away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.core.errors import BadInput
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import PlanRows, RowPlan
from regard.data.rows.sentence_pairs import ordered_pairs, sentence_pairs
from regard.models.label_heads import SentencePairHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.rows import RowObjective
from regard.text.templates import RowBuilder


class SentencePairConfig(Config):
    """Base class of the recipe tables of objectives over pairs of passages."""

    short: float = Field(0.1, ge=0, le=1)
    """The share of documents whose rows have any length instead of being full."""


class NextSentenceConfig(SentencePairConfig):
    """The table ``[objective.next-sentence]``."""


@dataclass(frozen=True)
class SentencePairObjective(RowObjective):
    """Base class of objectives that classify pairs of passages; ``pairs`` plans an epoch's rows."""

    head = SentencePairHead.name
    makes_rows = True
    pairs: ClassVar[Callable[..., RowPlan]]
    short: float = 0.1
    smoothing: float = 0.0

    def make_head(self) -> SentencePairHead:
        return SentencePairHead()

    def check(self, facts: TrunkWithHeads) -> None:
        if facts.trunk.embed.segments < 2:
            raise BadInput(f"objective.{self.name}: the model needs two segments, one per passage")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        frame, pairs = template.frame(2), type(self).pairs
        return lambda epoch: pairs(documents, frame, longest, (seed, epoch), self.short)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        return {self.name.replace("-", "_"): accuracy}


@dataclass(frozen=True)
class NextSentence(SentencePairObjective):
    """Next-sentence objective: whether the second passage follows the first in its document."""

    name, config, pairs = "next-sentence", NextSentenceConfig, sentence_pairs


class SentenceOrderConfig(SentencePairConfig):
    """The table ``[objective.sentence-order]``."""


@dataclass(frozen=True)
class SentenceOrder(SentencePairObjective):
    """Sentence-order objective: whether two consecutive passages are in order or swapped."""

    name, config, pairs = "sentence-order", SentenceOrderConfig, ordered_pairs
