"""Base class of objectives: examples → batch → one forward pass → loss of one head."""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import Batch, Ids, Limits, PackedTokens, as_row, pack_texts
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.losses import smoothed_cross_entropy
from regard.models.trunk_with_heads import Outputs

Item = TypeVar("Item", bound=tuple)
Target = TypeVar("Target")


class Objective(Generic[Item, Target]):
    """Training objective of one head: collates examples and computes their loss.

    By default an example is (row of tokens, target). The loss of a step is the sum over the targets
    of all its batches, divided by the sum of their weights.
    """

    head: ClassVar[str]  # name of the head in the outputs of the model
    per_token: ClassVar[bool] = False  # each token has a target; otherwise each row

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the losses that a call returns, each a mean over its own targets: heads."""
        return (self.head,)

    @property
    def fingerprint(self) -> str:
        """Hash of the models that the objective runs beside the trained model; empty: none."""
        return ""

    @property
    def chunked(self) -> bool:
        """Whether a batch is encoded in several forward passes, whose shapes are free."""
        return False

    @property
    def eager(self) -> bool:
        """Whether steps are neither compiled nor captured, since their shapes are free."""
        return self.chunked

    @property
    def teachers(self) -> tuple[nn.Module, ...]:
        """Models without gradients that run beside the trained model."""
        return ()

    def to(self, device: torch.device | str) -> None:
        """Move the models that the objective runs beside the trained model to a device."""

    def length(self, example: Item) -> tuple[int, ...]:
        """The number of tokens of each row of an example."""
        return (len(as_row(example[0]).tokens),)

    def weight(self, example: Item) -> float | np.ndarray:
        """The weight of the targets of an example in the mean over a step."""
        return self.weight_of([example[1]])

    def weight_of(self, targets: Sequence[Target]) -> float:
        """The weight of the targets of several examples; default: 1 each."""
        return len(targets)

    def read(self, rows: Sequence[Any], limits: Limits = None) -> PackedTokens:
        """Pack rows of tokens into inputs of a model; with ``limits``, of fixed shape."""
        return pack_texts(rows, limits)

    def gather(self, examples: Sequence[Item]) -> Sequence[Item]:
        """Convert single examples to the form that ``collate`` reads; default: unchanged."""
        return examples

    def collate(self, examples: Sequence[Item], limits: Limits = None) -> Batch:
        """Make a batch of examples; with ``limits``, of fixed shape."""
        rows, targets = zip(*examples, strict=True) if examples else ((), ())
        return self.with_targets(self.read(rows, limits), targets, limits)

    def with_targets(
        self, inputs: PackedTokens, targets: Sequence[Target], limits: Limits = None
    ) -> Batch:
        """Make a batch of packed inputs and the targets of each example."""
        packed = {self.head: self.pack_targets(targets, inputs, limits)}
        return Batch(inputs, packed, self.weight_of(targets))

    def pack_targets(
        self, targets: Sequence[Target], inputs: PackedTokens, limits: Limits
    ) -> Tensor:
        """Pack the targets of all examples into one tensor."""
        raise NotImplementedError

    def target_count(self, inputs: PackedTokens) -> int:
        """The number of targets that fit into a batch."""
        return inputs.layout.tokens if self.per_token else inputs.layout.rows

    def __call__(
        self, model: nn.Module, batch: Batch, tape: NullTape = NULL_TAPE
    ) -> tuple[Tensor, ...]:
        """Run the model: (loss, negative log-likelihood), both summed over the batch."""
        return self.loss(model(batch.inputs, positions=batch.positions, tape=tape), batch)

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """(loss, negative log-likelihood) from the outputs of the model, summed over the batch."""
        raise NotImplementedError


class PairObjective(Objective[tuple[Ids, Ids], Ids]):
    """Base class of objectives of pairs (source, target): cross-entropy of the target with EOS.

    Lengths and weights follow from the sizes (source, target) of examples, as files list them.
    """

    smoothing: float  # label smoothing

    def lengths(self, sizes_NS: np.ndarray) -> np.ndarray:
        """The number of tokens of each row of examples of these sizes."""
        raise NotImplementedError

    def weights(self, sizes_NS: np.ndarray) -> np.ndarray:
        """The number of targets of examples of these sizes."""
        return sizes_NS[:, 1] + 1

    def length(self, example: tuple[Ids, Ids]) -> tuple[int, ...]:
        return tuple(self.lengths(_sizes(example))[0].tolist())

    def weight(self, example: tuple[Ids, Ids]) -> int:
        return int(self.weights(_sizes(example))[0])

    def loss(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        logits, targets = outputs.by_head[self.head], batch.targets[self.head]
        return smoothed_cross_entropy(logits, targets, self.smoothing)


def _sizes(example: tuple[Ids, Ids]) -> np.ndarray:
    return np.array([[len(ids) for ids in example]])


def padded(targets: Tensor, size: int, padding: float) -> Tensor:
    """Pad targets to ``size`` with a value that losses ignore."""
    packed = torch.full((size, *targets.shape[1:]), padding, dtype=targets.dtype)
    packed[: len(targets)] = targets
    return packed
