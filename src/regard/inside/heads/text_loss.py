"""Losses that texts have by themselves, or with a label, for the gradients of heads."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import IGNORED, BatchLimits
from regard.core.errors import BadInput, did_you_mean
from regard.data.batches.packing import inference_batches
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.importance import LossBatch
from regard.layers.losses import smoothed_cross_entropy
from regard.models.label_heads import LabelHead, MLMHead
from regard.models.trunk_with_heads import NEXT_TOKEN, Outputs
from regard.text.segmentation import LabelledRow, LabelledRows
from regard.text.tokenizers.row_tokenizer import require_tokenizer

MASKED_EVERY = 7  # about the 15% of BERT
WITH_GRADIENTS = BatchLimits(1_024, 16, 1_024)


def losses_in_batches(
    model: ModelRunner,
    inputs: Sequence[LabelledRows],
    labels: Sequence[str] | None,
    names: Sequence[str],
) -> list[LossBatch] | None:
    """Inputs in batches with their losses, those of gold labels if there are some; None: no loss.

    ``names`` are the labels of the model.
    """
    if labels is None and model.reads_images:
        return None
    costs = np.array([max(len(row.queries.subwords) for row in each.values()) for each in inputs])
    limits = BatchLimits(1_024, 1, 1_024) if model.reads_images else WITH_GRADIENTS
    batches: list[LossBatch] = []
    for numbers in inference_batches(costs, limits):
        rows = [inputs[number] for number in numbers]
        if labels is not None:
            own = [labels[number] for number in numbers]
            batches.append(label_loss(model, rows, own, names))
        elif (batch := text_loss(model, rows)) is not None:
            batches.append(batch)
    return batches or None


def text_loss(model: ModelRunner, rows: Sequence[LabelledRows]) -> LossBatch | None:
    """Texts with their language-model loss, the mean over the tokens of each; None: no such head.

    A causal model and a decoder predict each next token; a masked LM every seventh token, which
    is masked.
    """
    makers = (maker for name, maker in _MAKERS.items() if name in model.facts.head_names)
    return next((batch for maker in makers if (batch := maker(model, rows)) is not None), None)


def label_loss(
    model: ModelRunner, rows: Sequence[LabelledRows], labels: Sequence[str], names: Sequence[str]
) -> LossBatch:
    """Texts with the cross-entropy of their gold labels; ``names`` are the labels of the model."""
    if LabelHead.name not in model.facts.head_names:
        raise BadInput("labels: this model predicts no labels of texts: leave them out")
    for number, label in enumerate(labels, start=1):
        if label not in names:
            hint = did_you_mean(label, [*names])
            raise BadInput(f"labels:{number}: the model has no label {label!r}{hint}")
    targets = [names.index(label) for label in labels]
    return rows, _cross_entropy(LabelHead.name, np.array(targets), np.ones(len(rows)))


def _next_token(model: ModelRunner, rows: Sequence[LabelledRows]) -> LossBatch | None:
    side = model.facts.sides[-1]
    if not getattr(model.facts, side).stack.causal:
        return None
    end = IGNORED if side == "trunk" else require_tokenizer(model.tokenizer).target.eos
    targets = [np.array([*each[side].row.tokens[1:], end]) for each in rows]
    return rows, _cross_entropy(NEXT_TOKEN, *_weighted(targets))


def _masked_lm(model: ModelRunner, rows: Sequence[LabelledRows]) -> LossBatch:
    tokenizer = require_tokenizer(model.tokenizer)
    masked: list[LabelledRows] = []
    targets = []
    for each in rows:
        row = cast(LabelledRow, each["trunk"])
        ids = np.array(row.row.tokens)
        inner = np.flatnonzero(~np.isin(ids, [*tokenizer.special]))
        chosen = inner[MASKED_EVERY // 2 :: MASKED_EVERY]
        chosen = chosen if len(chosen) else inner[:1]
        target = np.full(len(ids), IGNORED)
        target[chosen], ids[chosen] = ids[chosen], tokenizer.mask
        masked.append({"trunk": row._replace(row=row.row._replace(tokens=ids))})
        targets.append(target)
    return masked, _cross_entropy(MLMHead.name, *_weighted(targets))


_MAKERS: dict[str, Callable[[ModelRunner, Sequence[LabelledRows]], LossBatch | None]] = {
    NEXT_TOKEN: _next_token,
    MLMHead.name: _masked_lm,
}
"""Language-model losses by the name of the head that predicts tokens."""


def _weighted(targets: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Targets of all rows, and weights that make the sum over a row a mean."""
    weights = [np.full(len(each), 1 / max(1, (each != IGNORED).sum())) for each in targets]
    return np.concatenate(targets), np.concatenate(weights)


def _cross_entropy(
    head: str, targets_N: np.ndarray, weights_N: np.ndarray
) -> Callable[[Outputs], Tensor]:
    def loss(outputs: Outputs) -> Tensor:
        logits_NV = outputs.by_head[head]
        targets = torch.from_numpy(targets_N).to(logits_NV.device)
        weights = torch.from_numpy(weights_N).to(logits_NV)
        return smoothed_cross_entropy(logits_NV, targets, weights_T=weights)[0]

    return loss
