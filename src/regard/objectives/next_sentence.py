"""Next-sentence prediction (Devlin et al., 2018, section 3.1, task 2).

A row holds two passages. In half of the rows the second follows the first in its document, in half
it comes from another document. The model predicts which, from the pooled state of the row.
"""

from dataclasses import dataclass

from pydantic import Field

from regard.data.documents import Documents
from regard.data.row_plans import PlanRows
from regard.data.sentence_pairs import sentence_pairs
from regard.ground.config import Config
from regard.ground.errors import BadInput
from regard.models.facts import SentencePairHead, TrunkWithHeads
from regard.objectives.rows import RowObjective
from regard.text.templates import RowBuilder


class NextSentenceConfig(Config):
    """The table ``[objective.next-sentence]``."""

    short: float = Field(0.1, ge=0, le=1)
    """The share of documents that give rows of any length, not full ones."""


@dataclass(frozen=True)
class NextSentence(RowObjective):
    """Predicts whether the second passage follows the first; the loss is the mean over rows."""

    name, config, head = "next-sentence", NextSentenceConfig, SentencePairHead.name
    makes_rows = True
    short: float = 0.1
    smoothing: float = 0.0

    @classmethod
    def from_config(cls, config: NextSentenceConfig, smoothing: float) -> "NextSentence":
        """The objective with the settings of a recipe."""
        return cls(config.short, smoothing)

    def make_head(self) -> SentencePairHead:
        """Two classes: the second passage follows (0), or comes from elsewhere (1)."""
        return SentencePairHead()

    def check(self, facts: TrunkWithHeads) -> None:
        """Refuse a model without segments, by which the two passages are told apart."""
        if facts.trunk.embed.segments < 2:
            raise BadInput("next-sentence: the model has one segment, and rows have two passages")

    def rows(self, documents: Documents, template: RowBuilder, longest: int, seed: int) -> PlanRows:
        """Pairs of passages, drawn anew in each epoch."""
        frame = template.frame(2)
        return lambda epoch: sentence_pairs(documents, frame, longest, (seed, epoch), self.short)

    def metrics(self, loss: float, accuracy: float) -> dict[str, float]:
        """Accuracy over rows."""
        return {"next_sentence": accuracy}
