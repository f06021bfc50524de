"""Optimisers, clipping and the moving average of weights.

Levels of a model may learn at unlike rates, and begin to learn one after another: discriminative
rates and gradual unfreezing (Howard & Ruder, 2018, arXiv:1801.06146, sections 3.2 and 3.3).
"""

from typing import Any

import torch
from torch import Tensor, nn

from regard.training.optim.layer_groups import freeze, layer_groups
from regard.training.recipe.tables import OptimiserConfig

Groups = list[dict[str, Any]]


class ModelOptimiser:
    """Adam or AdamW in one fused kernel, over the levels of a model that are awake.

    A level learns at ``layer_decay`` times the rate of the one above it. With ``unfreeze_every``,
    only the highest is awake at first, and one more after every so many steps; others have neither
    moments nor decay. ``lazy``: no gradients of sleeping levels are computed.
    """

    def __init__(self, model: nn.Module, facts: OptimiserConfig, *, lazy: bool = True):
        freeze(model, facts.freeze)
        self.model, self.facts, self.lazy = model, facts, lazy
        self.asleep = _groups(model, facts)
        self.stages = len(self.asleep)
        kind = torch.optim.AdamW if facts.kind == "adamw" else torch.optim.Adam
        first = self.asleep.pop()
        settings: dict[str, Any] = {"betas": facts.betas, "eps": facts.eps, "fused": True}
        self.optimiser = kind(first, lr=facts.rate, **settings)
        for group in (group for level in self.asleep for group in level):
            for parameter in group["params"]:
                parameter.requires_grad_(not lazy)
        self.wake(step=1)

    def wake(self, step: int) -> None:
        """Let all levels learn whose time has come."""
        every = self.facts.unfreeze_every
        due = min(self.stages, 1 + (step - 1) // every) if every else self.stages
        while self.stages - len(self.asleep) < due:
            for group in self.asleep.pop():
                self.optimiser.add_param_group(group)
                for parameter in group["params"]:
                    parameter.requires_grad_(True)

    def apply(self, factor: float) -> Tensor:
        """Change the weights at so much of the recipe's rate; the gradient's norm before clipping.

        Only gradients of what learns are measured and shortened.
        """
        for group in self.optimiser.param_groups:
            self.set_rate(group, self.facts.rate * factor * group["share"])
        return self.change()

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        """The rate of one group."""
        group["lr"] = rate

    def change(self) -> Tensor:
        """Shorten the gradient and follow it."""
        awake = {id(p) for group in self.optimiser.param_groups for p in group["params"]}
        learning = [p for p in self.model.parameters() if id(p) in awake and p.grad is not None]
        norm = nn.utils.clip_grad_norm_(learning, self.facts.clip or float("inf"))
        self.optimiser.step()
        return norm

    def forget(self) -> None:
        """Drop the gradient."""
        self.model.zero_grad()


class GraphedOptimiser(ModelOptimiser):
    """The same as one CUDA graph, gradients zeroed where they are.

    Moments exist after the first step of a level, so that the second step captures.
    """

    def __init__(self, model: nn.Module, facts: OptimiserConfig):
        super().__init__(model, facts, lazy=False)
        self.device = next(model.parameters()).device
        self.seen = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.norm = torch.zeros((), device=self.device)

    def set_rate(self, group: dict[str, Any], rate: float) -> None:
        """The rate of one group, where the graph reads it."""
        if not isinstance(group["lr"], Tensor):
            group["lr"] = torch.zeros((), device=self.device)
        group["lr"].fill_(rate)

    def change(self) -> Tensor:
        """Replay what was captured."""
        awake = len(self.optimiser.param_groups)
        if self.seen != awake:
            self.seen, self.graph = awake, None
            return self._change()
        if self.graph is None:
            self.graph, self.norm = self._capture()
        self.graph.replay()
        return self.norm

    def forget(self) -> None:
        """Nothing is left of the gradient."""

    def _change(self) -> Tensor:
        norm = super().change()
        torch._foreach_zero_([p.grad for p in self.model.parameters() if p.grad is not None])
        return norm

    def _capture(self) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        for group in self.optimiser.param_groups:
            group["capturable"] = True  # fused steps are; torch wants to hear it
        with torch.cuda.graph(graph):
            norm = self._change()
        for group in self.optimiser.param_groups:
            group["capturable"] = False
        return graph, norm


def _groups(model: nn.Module, facts: OptimiserConfig) -> list[Groups]:
    """For each level that learns, the lowest first: its matrices, and its vectors, without decay.

    Levels that are treated alike are one.
    """
    alike = facts.layer_decay == 1 and not facts.unfreeze_every
    of_levels = [list(model.parameters())] if alike else layer_groups(model)
    found = []
    for depth, level in zip(reversed(range(len(of_levels))), of_levels, strict=True):
        share = facts.layer_decay**depth
        learning = [p for p in level if p.requires_grad]
        parts = [
            ([p for p in learning if p.ndim >= 2], facts.decay),  # matrices
            ([p for p in learning if p.ndim < 2], 0.0),  # biases and norms
        ]
        groups = [{"params": p, "weight_decay": decay, "share": share} for p, decay in parts if p]
        found += [groups] if groups else []
    return found


class MovingAverage:
    """Exponential moving average of weights: average ← decay·average + (1 - decay)·weights.

    Early on the decay is smaller, (1 + step) / (10 + step), so that the start is soon forgotten.
    """

    def __init__(self, weights: dict[str, Tensor], decay: float):
        self.decay = decay
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}

    @torch.no_grad()
    def update(self, weights: dict[str, Tensor], step: int) -> None:
        """Take in the weights after a step."""
        decay = min(self.decay, (1 + step) / (10 + step))
        averages = [self.weights[name] for name in weights]
        torch._foreach_lerp_(averages, list(weights.values()), 1 - decay)
