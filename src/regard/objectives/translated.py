"""Translation as an objective: given a sentence, write another, one token after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.ground.batch import (
    IGNORED,
    Batch,
    BatchLimits,
    Ids,
    PackedTokens,
    SpecialIds,
    pack,
    tokens_of,
)
from regard.ground.tape import NULL_TAPE, NullTape
from regard.parts.losses import smoothed_cross_entropy


@dataclass(frozen=True)
class Translated:
    """Cross-entropy of the next target token, with label smoothing, for any encoder-decoder."""

    bos: int
    eos: int
    smoothing: float = 0.1

    def length(self, example: tuple[Ids, Ids]) -> tuple[int, int]:
        """Tokens on either side, markers included."""
        source, target = example
        return len(source) + 1, len(target) + 1

    def weight(self, example: tuple[Ids, Ids]) -> int:
        """How many goals it has."""
        return len(example[1]) + 1

    def collate(
        self, examples: Sequence[tuple[Ids, Ids]], limits: BatchLimits | None = None
    ) -> Batch:
        """A batch of pairs; with a ``limits``, of fixed shape."""
        sources, targets = zip(*examples, strict=True) if examples else ((), ())
        target = pack(targets, limits, special_ids=SpecialIds(first=self.bos))
        return Batch(
            source=self.read(sources, limits),
            target=target,
            goals_T=tokens_of(targets, limits, IGNORED, SpecialIds(last=self.eos)),
            weight=target.real,
        )

    def read(self, sources: Sequence[Ids], limits: BatchLimits | None = None) -> PackedTokens:
        """The source side alone, as at translation."""
        return pack(sources, limits, special_ids=SpecialIds(last=self.eos))

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, Tensor]:
        """Sums over the batch: (loss, negative log-likelihood)."""
        logits_TV = self.logits(model, batch, tape)
        return smoothed_cross_entropy(logits_TV, batch.goals_T, self.smoothing)

    def score(self, model: nn.Module, batch: Batch) -> list[Tensor]:
        """Log-probability of every goal, one tensor per row."""
        logits_TV = self.logits(model, batch)
        logp_TV = torch.log_softmax(logits_TV.float(), dim=-1)
        picked_T = logp_TV.gather(1, batch.goals_T[:, None])[:, 0]
        return batch.target.layout.split(picked_T)

    def logits(self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE) -> Tensor:
        """Logits over the next token at every place of the target."""
        source, target = batch.source, batch.target
        assert source is not None
        return model(source.tokens_T, source.layout, target.tokens_T, target.layout, tape=tape)
