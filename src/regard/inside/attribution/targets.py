"""Targets of an attribution: the logits that are explained, and their log-probabilities."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import BadInput
from regard.inference.model_runner import ModelRunner
from regard.inside.logit_target import TOKEN_OF_ROW, OutputNames, by_output, explained_head
from regard.models.heads import NextTokenHead
from regard.models.trunk_with_heads import Outputs
from regard.text.label_sets import MultiLabelSet, RegressionSet, SingleLabelSet
from regard.text.segmentation import LabelledRows
from regard.text.tokenizers.row_tokenizer import require_tokenizer

BEST = 5  # labels or tokens that are compared


def _over_outputs(logits_NPV: Tensor, position_K: Tensor) -> Tensor:
    return logits_NPV[:, position_K].log_softmax(-1)


def _over_positions(logits_NPV: Tensor, position_K: Tensor) -> Tensor:
    return logits_NPV.log_softmax(1)[:, position_K]


def _each(logits_NPV: Tensor, position_K: Tensor) -> Tensor:
    return F.logsigmoid(logits_NPV[:, position_K])


def _number(logits_NPV: Tensor, position_K: Tensor) -> Tensor:
    return logits_NPV[:, position_K]


NORMALISERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    SingleLabelSet.problem_type: _over_outputs,
    TOKEN_OF_ROW: _over_positions,
    MultiLabelSet.problem_type: _each,
    RegressionSet.problem_type: _number,
}
"""Log-probabilities (N, K, V) at K positions by the kind of labels; predicted numbers are kept."""


class Target(NamedTuple):
    """A label, or a word: its name, and the (position, index) of each of its logits.

    A word of several tokens has several logits, whose sum is explained. The logits of a row of a
    classifier have position 0.
    """

    name: str
    places: tuple[tuple[int, int], ...]


class Scores(NamedTuple):
    """Logits and log-probabilities (inputs, targets); of a number, both are the number."""

    logits_NM: Tensor
    log_probabilities_NM: Tensor


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of one input in the logits of a head; ``kind`` decides what probabilities are.

    ``output_names`` names the logits of one position; None: words of a translation.
    """

    head: str
    targets: tuple[Target, ...]
    kind: str = SingleLabelSet.problem_type
    output_names: OutputNames | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the targets."""
        return tuple(target.name for target in self.targets)

    @property
    def are_numbers(self) -> bool:
        """Whether targets are predicted numbers, which have no probability."""
        return NORMALISERS[self.kind] is _number

    def with_best(self, outputs: Sequence[Outputs]) -> "Targets":
        """Targets, and the five highest logits of each output; of a translation: its words."""
        if self.output_names is None:
            return self
        targets: list[Target] = []
        for target in self.targets:
            ((position, own),) = target.places
            numbers = {own: None}
            for each in outputs:
                logits_V = by_output(each.by_head[self.head]).float()[position]
                numbers |= dict.fromkeys(logits_V.topk(min(BEST, len(logits_V))).indices.tolist())
            name = self.output_names.name
            targets += (Target(name(number), ((position, number),)) for number in numbers)
        return replace(self, targets=tuple(targets))

    def scores(self, outputs: Outputs, count: int) -> Scores:
        """Scores of ``count`` copies of the input."""
        logits_NPV = by_output(outputs.by_head[self.head]).float()
        logits_NPV = logits_NPV.reshape(count, -1, logits_NPV.shape[-1])
        numbers = range(len(self.targets))
        places = [place for target in self.targets for place in target.places]
        owners = [number for number in numbers for _ in self.targets[number].places]
        position_K, index_K = torch.tensor(places, device=logits_NPV.device).T
        owner_K = torch.tensor(owners, device=logits_NPV.device)

        def summed(values_NKV: Tensor) -> Tensor:
            at_NK1 = index_K[None, :, None].expand(count, -1, 1)
            values_NK = values_NKV.gather(-1, at_NK1)[..., 0]
            return values_NK.new_zeros(count, len(numbers)).index_add(1, owner_K, values_NK)

        normalised_NKV = NORMALISERS[self.kind](logits_NPV, position_K)
        return Scores(summed(logits_NPV[:, position_K]), summed(normalised_NKV))

    def probabilities(self, log_probabilities: np.ndarray) -> np.ndarray:
        """Probabilities of targets, or the numbers themselves."""
        return log_probabilities if self.are_numbers else np.exp(log_probabilities)


def find_targets(
    model: ModelRunner, rows: LabelledRows, name: str | None = None, token: int | None = None
) -> Targets:
    """Targets of an input: the label or token of this name, by default the most probable.

    A target is predicted at ``token``, or where ``explained_head`` says; each mask of a masked LM,
    and each word of a translation, is a target.
    """
    if len(model.facts.sides) > 1:
        if token is not None:
            raise BadInput("token: all words of a translation are explained")
        return _words_of_target(model, rows)
    with torch.no_grad():
        outputs = model.run([rows])
    head, names, positions = explained_head(model, rows, outputs, token)
    if name is not None and len(positions) > 1:
        raise BadInput(f"target: the text has {len(positions)} masks; name one by its token")
    targets = []
    for position in (each or 0 for each in positions):
        known_PV = by_output(outputs.by_head[head]).float()
        at_K = torch.tensor([position], device=known_PV.device)
        best_1KV = NORMALISERS[names.problem_type](known_PV[None], at_K)
        index = int(best_1KV[0, 0].argmax()) if name is None else names.index(name)
        targets.append(Target(names.name(index), ((position, index),)))
    return Targets(head, tuple(targets), names.problem_type, names)


def _words_of_target(model: ModelRunner, rows: LabelledRows) -> Targets:
    """Every word of a translation, and its end."""
    row, eos = rows["target"], require_tokenizer(model.tokenizer).target.eos
    ids = [*(int(token) for token in row.row.tokens[1:]), eos]
    labels = row.queries
    targets = (
        Target(word, tuple((at, ids[at]) for at in group))
        for word, group in zip(labels.words, labels.groups, strict=True)
        if group
    )
    return Targets(NextTokenHead.name, tuple(targets))
