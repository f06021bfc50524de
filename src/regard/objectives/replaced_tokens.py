"""Replaced-token detection (Clark et al., 2020, section 2).

A small generator is trained as a masked LM; its samples replace the chosen tokens, and the model,
the discriminator, predicts for every token whether it differs from the original. The loss is the
generator's plus 50 times the discriminator's, which sends no gradient to the generator. As in the
code of the paper, 15% of the tokens are chosen, of which 85% become the mask token, and a sample
that equals the original token counts as original.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from regard.core.batch import IGNORED, Batch, pack_ids
from regard.core.config import Config
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.papers.electra import Joint, JointOutputs, ReplacedTokenHead
from regard.models.transformer import Stack
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.rows import AnnotatedRow, RowBatch, RowObjective

KEPT = 0.15  # the share of chosen tokens that are not masked


class ReplacedTokensConfig(Config):
    """The table ``[objective.replaced-tokens]``."""

    rate: float = Field(0.15, gt=0, le=0.5)
    """The share of tokens that the generator may replace (0.25 for ELECTRA-large)."""
    weight: float = Field(50.0, gt=0)
    """The weight of the discriminator's loss; the generator's has weight 1."""
    generator: float = Field(0.25, gt=0, le=1)
    """Width, heads and inner size of the generator, as a share of the discriminator's."""
    temperature: float = Field(1.0, gt=0)
    """The softmax temperature of the generator's samples."""


@dataclass(frozen=True)
class ReplacedTokens(RowObjective):
    """Replaced-token objective; the loss is the mean over all tokens of a step."""

    name, config, head = "replaced-tokens", ReplacedTokensConfig, ReplacedTokenHead.name
    dev_size = 6
    generator: MaskedLM = field(default_factory=lambda: MaskedLM(kept=KEPT, random=0.0))
    loss_weight: float = 50.0
    generator_size: float = 0.25
    temperature: float = 1.0

    @classmethod
    def from_config(cls, config: ReplacedTokensConfig, smoothing: float) -> "ReplacedTokens":
        generator = MaskedLM(config.rate, smoothing=smoothing, kept=KEPT, random=0.0)
        return cls(generator, config.weight, config.generator, config.temperature)

    @property
    def smoothing(self) -> float:  # type: ignore[override]
        """The label smoothing of the generator."""
        return self.generator.smoothing

    @property
    def members(self) -> tuple[RowObjective, ...]:
        return (self.generator, self)

    def make_head(self) -> ReplacedTokenHead:
        return ReplacedTokenHead()

    def check(self, facts: TrunkWithHeads) -> None:
        if not facts.trunk.stack.attends:
            raise BadInput("objective.replaced-tokens needs a Transformer, as its generator is one")

    def extend(
        self, facts: TrunkWithHeads, fit_heads: Callable[[TrunkWithHeads], TrunkWithHeads]
    ) -> Joint:
        size, sizes = facts.trunk.token_width, self._generator_sizes(cast(Stack, facts.trunk.stack))
        embedding_size = None if sizes["width"] == size else size
        head = self.generator.make_head()
        init = {name: getattr(facts, name) for name in ("init_std", "init_cutoff")}
        generator = TrunkWithHeads(facts.trunk, None, (head,), **init)
        smaller = change(generator, **sizes, embedding_size=embedding_size)
        return Joint(facts, fit_heads(smaller), self.temperature)

    def _generator_sizes(self, stack: Stack) -> dict[str, int]:
        """Width, heads and inner size of the generator."""
        share = self.generator_size
        sizes = {
            name: max(1, round(share * getattr(stack, name)))
            for name in ("width", "heads", "inner")
        }
        if sizes["width"] % sizes["heads"]:
            ours = f"{share:g} of a width of {stack.width} and {stack.heads} heads"
            fault = f"{ours} is {sizes['width']} and {sizes['heads']}; heads must divide the width"
            raise BadInput(f"objective.{self.name}.generator: {fault}")
        return sizes

    def weight(self, example: AnnotatedRow) -> float:
        return len(example.row.tokens)

    def collate_targets(self, batch: RowBatch) -> tuple[Tensor, Tensor]:
        """For every token, the index of the sample that replaces it (-1: none), and the original.

        Padding is neither replaced nor counted.
        """
        masked = self.generator.head
        originals_T = pack_ids([example.row.tokens for example in batch.examples])
        chosen_N = pack_ids(batch.positions(masked))
        originals_T[chosen_N] = pack_ids(batch.targets(masked))
        number_T = torch.full_like(originals_T, -1)
        number_T[chosen_N] = torch.arange(len(chosen_N))
        padding = 0 if batch.limits is None else batch.limits.tokens - len(number_T)
        originals_T = F.pad(originals_T, (0, padding), value=IGNORED)
        return F.pad(number_T, (0, padding), value=-1), originals_T

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        replaced_T, real_T = self._replaced(outputs, batch)
        logits_T = outputs.by_head[self.head][:, 0].float()
        loss_T = F.binary_cross_entropy_with_logits(logits_T, replaced_T.float(), reduction="none")
        loss = (loss_T * real_T).sum()
        return self.loss_weight * loss, loss.detach()

    def _replaced(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Masks of the tokens that differ from the original, and of those that are not padding."""
        originals_T, real_T = batch.targets[self.head], batch.targets[self.head] != IGNORED
        return (cast(JointOutputs, outputs).tokens_T != originals_T) & real_T, real_T

    def dev_sums(self, outputs: Outputs, batch: Batch) -> list[Tensor]:
        replaced_T, real_T = self._replaced(outputs, batch)
        claimed_T = (outputs.by_head[self.head][:, 0] > 0) & real_T
        correct_T = (claimed_T == replaced_T) & real_T
        counts = (real_T, correct_T, replaced_T, replaced_T & claimed_T, claimed_T)
        return [self.loss(outputs, batch)[1], *(count.sum() for count in counts)]

    def dev_metrics(self, loss: float, count: float, *sums: float) -> dict[str, float]:
        correct, replaced, detected, claimed = sums
        return {
            "detection_accuracy": 100 * correct / count,
            "detection_precision": 100 * detected / max(1, claimed),
            "detection_recall": 100 * detected / max(1, replaced),
        }
