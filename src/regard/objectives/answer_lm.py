"""Answers by task tokens: the next token of an answer, given text, task token and answer so far.

A row is text, task token and answer, and a causal model reads it from left to right. Only the
answer and its end are predicted: nothing is learned of how texts go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from regard.ground.batch import IGNORED, Batch, BatchLimits, Ids, pack, pack_ids
from regard.ground.errors import BadInput
from regard.models.heads import NextTokenHead
from regard.models.trunk_with_heads import Outputs, TrunkWithHeads
from regard.objectives.objective import PairObjective
from regard.parts.losses import smoothed_cross_entropy
from regard.text.task_prompt import TaskPrompt


@dataclass(frozen=True)
class AnswerLM(PairObjective):
    """Cross-entropy of the tokens of an answer and of EOS; an example is (text, answer)."""

    head, per_token = NextTokenHead.name, True
    prompt: TaskPrompt
    eos: int
    smoothing: float = 0.0

    @staticmethod
    def check(facts: TrunkWithHeads) -> None:
        """A token may not see what it is to predict."""
        if not facts.trunk.stack.causal:
            raise BadInput("model: tokens of this model see later ones, and so their answers")

    def lengths(self, sizes_NS: np.ndarray) -> np.ndarray:
        texts_N, answers_N = sizes_NS.T
        return (self.prompt.lengths(texts_N) + answers_N)[:, None]

    def collate(
        self, examples: Sequence[tuple[Ids, Ids]], limits: BatchLimits | None = None
    ) -> Batch:
        rows, targets = [], []
        for text, answer in examples:
            prompt = self.prompt.row(text)
            rows.append(np.concatenate([prompt, answer]))
            ignored = np.full(len(prompt) - 1, IGNORED)
            targets.append(np.concatenate([ignored, answer, [self.eos]]))
        weight = sum(map(self.weight, examples))
        inputs, targets_T = pack(rows, limits), pack_ids(targets, limits, IGNORED)
        return Batch(inputs, {self.head: targets_T}, weight)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits_TV = outputs.by_head[self.head]
        return smoothed_cross_entropy(logits_TV, batch.targets[self.head], self.smoothing)
