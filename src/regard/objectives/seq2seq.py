"""Objectives of pairs: the target's next token, by an encoder-decoder or by a causal model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import (
    IGNORED,
    Batch,
    Ids,
    Limits,
    PackedTokens,
    SourceTarget,
    SpecialIds,
    pack,
    pack_ids,
)
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape
from regard.models.heads import NextTokenHead
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.objective import PairObjective
from regard.text.task_prompt import TaskPrompt


@dataclass(frozen=True)
class Seq2Seq(PairObjective):
    """Sequence-to-sequence objective: the next target token, for any encoder-decoder.

    A ``prompt`` adds the prefix of a task to each source.
    """

    head: ClassVar[str] = "next_token"
    bos: int
    eos: int
    smoothing: float = 0.1
    prompt: TaskPrompt | None = None

    def lengths(self, sizes_NS: np.ndarray) -> np.ndarray:
        if self.prompt is None:
            return sizes_NS + 1
        return np.stack([self.prompt.lengths(sizes_NS[:, 0]), sizes_NS[:, 1]], axis=1) + 1

    def collate(self, examples: Sequence[tuple[Ids, Ids]], limits: Limits = None) -> Batch:
        sources, targets = zip(*examples, strict=True) if examples else ((), ())
        if self.prompt is not None:
            sources = tuple(map(self.prompt.row, sources))
        target = pack(targets, limits, special_ids=SpecialIds(first=self.bos))
        targets_T = pack_ids(targets, limits, IGNORED, SpecialIds(last=self.eos))
        inputs = SourceTarget(self.read(sources, limits), target)
        return Batch(inputs, {self.head: targets_T}, target.real)

    def read(self, rows: Sequence[Ids], limits: Limits = None) -> PackedTokens:
        return pack(rows, limits, special_ids=SpecialIds(last=self.eos))

    def score(self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """Log-probabilities of the tokens of each target, one tensor per row."""
        logits_TV = model(batch.inputs, tape=tape).by_head[self.head]
        logp_TV = torch.log_softmax(logits_TV.float(), dim=-1)
        chosen_T = logp_TV.gather(1, batch.targets[self.head][:, None])[:, 0]
        return batch.inputs.target.layout.split(chosen_T)


@dataclass(frozen=True)
class AnswerLM(PairObjective):
    """Answer objective of a causal model, for examples (text, answer): the answer and EOS."""

    head, per_token = NextTokenHead.name, True
    prompt: TaskPrompt
    eos: int
    smoothing: float = 0.0

    @staticmethod
    def check(facts: TrunkWithHeads) -> None:
        """Raise BadInput if the model is not causal."""
        if not facts.trunk.stack.causal:
            raise BadInput(
                "model: this task needs a causal model, whose tokens see no later tokens"
            )

    def lengths(self, sizes_NS: np.ndarray) -> np.ndarray:
        texts_N, answers_N = sizes_NS.T
        return (self.prompt.lengths(texts_N) + answers_N)[:, None]

    def collate(self, examples: Sequence[tuple[Ids, Ids]], limits: Limits = None) -> Batch:
        rows, targets = [], []
        for text, answer in examples:
            prompt = self.prompt.row(text)
            rows.append(np.concatenate([prompt, answer]))
            ignored = np.full(len(prompt) - 1, IGNORED)
            targets.append(np.concatenate([ignored, answer, [self.eos]]))
        weight = sum(map(self.weight, examples))
        inputs, targets_T = pack(rows, limits), pack_ids(targets, limits, IGNORED)
        return Batch(inputs, {self.head: targets_T}, weight)
