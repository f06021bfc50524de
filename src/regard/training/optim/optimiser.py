"""Optimisers, and clipping of gradients.

Groups of layers may have learning rates of their own and be unfrozen one after another:
discriminative fine-tuning and gradual unfreezing (Howard & Ruder, 2018, arXiv:1801.06146, sections
3.2 and 3.3).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.ground.capture import CapturedGraph, capture
from regard.ground.errors import BadInput
from regard.models.trunk import ScalarMix
from regard.training.optim.layer_groups import freeze, layer_groups
from regard.training.recipe.tables import OptimiserConfig

Groups = list[dict[str, Any]]


def _adam(groups: Groups, facts: OptimiserConfig, kind: Any = torch.optim.Adam) -> Any:
    return kind(groups, lr=facts.rate, betas=facts.betas, eps=facts.eps, fused=True)


def _sgd(groups: Groups, facts: OptimiserConfig) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=facts.rate, fused=True)


KINDS: dict[str, Callable[[Groups, OptimiserConfig], torch.optim.Optimizer]] = {
    "adam": _adam,
    "adamw": partial(_adam, kind=torch.optim.AdamW),
    "sgd": _sgd,
    "nt-asgd": _sgd,
}


class ModelOptimiser:
    """The fused optimiser of a recipe over the groups of layers that are not frozen.

    A group has ``layer_decay`` times the learning rate of the one above it. With
    ``unfreeze_every``, only the highest group is trained at first, and one more after every so many
    steps or each epoch; frozen groups have neither moments nor weight decay. ``lazy``: their
    gradients are not computed. The gradient of ``mix_penalty`` is added to those of the losses of a
    step.
    """

    def __init__(self, model: nn.Module, facts: OptimiserConfig, *, lazy: bool = True):
        freeze(model, facts.freeze)
        self.facts, self.lazy = facts, lazy
        self.mixtures = mixture_weights(model, facts)
        self.parameters = tuple(model.parameters())  # finding them takes a walk of all modules
        self.frozen = _groups(model, facts)
        self.stages = len(self.frozen)
        self.optimiser = KINDS[facts.kind](self.frozen.pop(), facts)
        for group in (group for groups in self.frozen for group in groups):
            for parameter in group["params"]:
                parameter.requires_grad_(not lazy)
        self.unfreeze(step=1)

    def unfreeze(self, step: int, epoch: int = 0) -> None:
        """Unfreeze the groups that are trained from this step of this epoch on."""
        due = self.facts.levels_learning(step, epoch)
        while self.frozen and (due is None or self.stages - len(self.frozen) < due):
            for group in self.frozen.pop():
                self.optimiser.add_param_group(group)
                for parameter in group["params"]:
                    parameter.requires_grad_(True)

    def step(self, factor: float) -> Tensor:
        """Update the weights at ``factor`` times the learning rate.

        Returns the norm of the gradient of unfrozen weights before clipping.
        """
        for group in self.optimiser.param_groups:
            self.set_rate(group, self.facts.rate * factor * group["share"])
        return self.clip_and_step()

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        """Set the learning rate of a group."""
        group["lr"] = rate

    def clip_and_step(self) -> Tensor:
        """Clip the gradient and update the weights."""
        trained = {id(p) for group in self.optimiser.param_groups for p in group["params"]}
        learning = [p for p in self.parameters if id(p) in trained and p.grad is not None]
        for weights in self.mixtures:
            if id(weights) in trained and weights.grad is not None:
                weights.grad.add_(weights.detach(), alpha=2 * self.facts.mix_penalty)
        norm = nn.utils.clip_grad_norm_(learning, self.facts.clip or float("inf"))
        self.optimiser.step()
        return norm

    def zero_grad(self) -> None:
        """Reset the gradient."""
        for parameter in self.parameters:
            parameter.grad = None


class GraphedOptimiser(ModelOptimiser):
    """The same as one CUDA graph, which resets gradients in place.

    Moments exist after the first step of a group, so that the second step is captured. Where the
    capture fails, steps stay eager.
    """

    def __init__(self, model: nn.Module, facts: OptimiserConfig):
        super().__init__(model, facts, lazy=False)
        self.device = next(model.parameters()).device
        self.groups, self.steps = 0, 0  # groups that learn, and steps since there are so many
        self.graph: CapturedGraph | None = None
        self.norm = torch.zeros((), device=self.device)

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        """Set the learning rate of a group in the tensor that the graph reads."""
        if not isinstance(group["lr"], Tensor):
            group["lr"] = torch.zeros((), device=self.device)
        group["lr"].fill_(rate)

    def clip_and_step(self) -> Tensor:
        """Replay the graph."""
        groups = len(self.optimiser.param_groups)
        if self.groups != groups:
            self.groups, self.steps, self.graph = groups, 0, None
        self.steps += 1
        if self.steps == 2:
            self._capture()
        if self.graph is None:
            return self._step()
        self.graph.replay()
        return self.norm

    def zero_grad(self) -> None:
        """The graph resets the gradient."""

    def _step(self) -> Tensor:
        norm = super().clip_and_step()
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])
        return norm

    def _capture(self) -> None:
        for group in self.optimiser.param_groups:
            group["capturable"] = True  # torch requires the flag of fused steps too
        try:
            captured = capture(self._step, self.device, "the optimiser")
        finally:
            for group in self.optimiser.param_groups:
                group["capturable"] = False
        if captured is not None:
            self.graph, self.norm = captured


def mixture_weights(model: nn.Module, facts: OptimiserConfig) -> list[nn.Parameter]:
    """The weights that ``mix_penalty`` is for, if it is not 0; a model without any is refused."""
    if not facts.mix_penalty:
        return []
    mixtures = [part.logits for part in model.modules() if isinstance(part, ScalarMix)]
    if not mixtures:
        raise BadInput("optimiser.mix_penalty: the model mixes no layers (model.features, mix)")
    return mixtures


def _groups(model: nn.Module, facts: OptimiserConfig) -> list[Groups]:
    """For each group of layers, the lowest first: matrices, and vectors without weight decay.

    Without layer-wise rates and unfreezing, all layers are one group.
    """
    alike = facts.layer_decay == 1 and not facts.unfreeze_every
    layers = [list(model.parameters())] if alike else layer_groups(model)
    by_layer = []
    for depth, group in zip(reversed(range(len(layers))), layers, strict=True):
        share = facts.layer_decay**depth
        learning = [p for p in group if p.requires_grad]
        parts = [
            ([p for p in learning if p.ndim >= 2], facts.decay),  # matrices
            ([p for p in learning if p.ndim < 2], 0.0),  # biases and norms
        ]
        groups = [{"params": p, "weight_decay": decay, "share": share} for p, decay in parts if p]
        by_layer += [groups] if groups else []
    return by_layer
