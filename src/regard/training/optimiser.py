"""Optimisers, and clipping of gradients.

Groups of layers may have learning rates of their own and be unfrozen one after another:
discriminative fine-tuning and gradual unfreezing (Howard & Ruder, 2018, arXiv:1801.06146, sections
3.2 and 3.3).

Learning-rate schedules have a linear warm-up, and are factors on the peak rate.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from regard.core.capture import CapturedGraph, capture
from regard.core.errors import BadInput, did_you_mean
from regard.models.features import ScalarMix
from regard.training.recipe.tables import OptimiserConfig
from regard.training.relative_optimisers import Adafactor, RelativeAdamW

Schedule = Callable[[int], float]
"""The factor at a step, counted from 1."""
Builder = Callable[[int, int], Schedule]
"""From the steps of the warm-up, and all steps, to a schedule."""

RATIO = 32  # of the highest rate to the lowest, where the lowest is not 0
FROZEN = re.compile(r"(\w+\.)*?frozen\.")  # a model that gives features
EMBEDDING = re.compile(r"(\w+\.)*?embed\.")
BLOCK = re.compile(r"(?P<side>(\w+\.)*?)(layers\.)?(blocks|layers)\.(?P<number>\d+)\.")
Groups = list[dict[str, Any]]


def after_warmup(decay: Builder) -> Builder:
    """A schedule with a linear warm-up from 0 to the peak, then this decay."""

    @wraps(decay)
    def build(warmup: int, steps: int) -> Schedule:
        after = decay(warmup, steps)
        return lambda step: step / warmup if step < warmup else after(step)

    return build


@after_warmup
def inverse_sqrt(warmup: int, steps: int) -> Schedule:
    """Decay by √(warmup / step) (Vaswani et al., 2017, eq. 3, with its peak at 1)."""
    return lambda step: math.sqrt(max(warmup, 1) / max(step, 1))


@after_warmup
def linear(warmup: int, steps: int) -> Schedule:
    """Linear decay, which reaches 0 after the last step (as in transformers)."""
    return lambda step: 1 - _decayed(step, warmup, steps)


@after_warmup
def cosine(warmup: int, steps: int) -> Schedule:
    """Cosine decay (Loshchilov & Hutter, 2017, eq. 5), which reaches 0 after the last step."""
    return lambda step: 0.5 * (1 + math.cos(math.pi * _decayed(step, warmup, steps)))


def _decayed(step: int, warmup: int, steps: int) -> float:
    """The share of the decay that is over before a step: 0 in the first step after the warm-up."""
    return min(1.0, max(0, step - 1 - warmup) / max(1, steps - warmup))


def slanted(warmup: int, steps: int) -> Schedule:
    """Slanted triangular rate: a short increase and a long decay (Howard & Ruder, 2018, eq. 3).

    The rate of the last step is 1 / ``RATIO`` of the peak.
    """

    @after_warmup
    def triangle(warmup: int, steps: int) -> Schedule:
        return lambda step: max(0.0, (steps - step) / max(1, steps - warmup))

    share = triangle(warmup, steps)
    return lambda step: (1 + share(step) * (RATIO - 1)) / RATIO


@after_warmup
def constant(warmup: int, steps: int) -> Schedule:
    """Constant learning rate after the warm-up."""
    return lambda step: 1.0


SCHEDULES: dict[str, Builder] = {
    "inverse-sqrt": inverse_sqrt,
    "linear": linear,
    "cosine": cosine,
    "slanted": slanted,
    "constant": constant,
}


def layer_groups(model: nn.Module) -> list[list[nn.Parameter]]:
    """Parameters of a model by group, the lowest first.

    All embeddings are the lowest group. Every block is a group, target blocks above source blocks;
    other parameters of a side belong to its last block. Pooling and heads are the highest group. A
    frozen model that gives features is in no group.
    """
    named = [
        (name, parameter) for name, parameter in model.named_parameters() if not FROZEN.match(name)
    ]
    blocks = dict.fromkeys(block for name, _ in named if (block := _block(name)) is not None)
    numbers = {block: number for number, block in enumerate(blocks, start=1)}
    last = {side: number for (side, _), number in numbers.items() if side}
    levels: list[list[nn.Parameter]] = [[] for _ in range(len(numbers) + 2)]
    for name, parameter in named:
        if EMBEDDING.match(name):
            level = 0
        elif (block := _block(name)) is not None:
            level = numbers[block]
        else:
            sides = (number for side, number in last.items() if name.startswith(side))
            level = next(sides, len(levels) - 1)
        levels[level].append(parameter)
    return [level for level in levels if level]


def freeze(model: nn.Module, names: Iterable[str]) -> None:
    """Freeze all parameters whose dotted names contain one of ``names`` as whole parts."""
    every = list(model.named_parameters(remove_duplicate=False))
    for name in names:
        chosen = [parameter for full, parameter in every if f".{name}." in f".{full}."]
        if not chosen:
            wrong = did_you_mean(name, _parts(full for full, _ in every))
            raise BadInput(f"optimiser.freeze: no weights are called {name!r}{wrong}")
        for parameter in chosen:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise BadInput("optimiser.freeze: all weights are frozen, so there is nothing to train")


def _block(name: str) -> tuple[str, str] | None:
    match = BLOCK.match(name)
    return None if match is None else (match["side"], match["number"])


def _parts(names: Iterable[str]) -> list[str]:
    """The parts of parameter names, blocks with their numbers."""
    steps = {step for name in names for step in re.findall(r"[a-z_]+(?:\.\d+)?", name)}
    return sorted(steps - {"weight", "bias"})


def _adam(groups: Groups, facts: OptimiserConfig, kind: type[Adam] = Adam) -> Optimizer:
    return kind(groups, lr=facts.rate, betas=facts.betas, eps=facts.eps, fused=True)


def _relative_adamw(groups: Groups, facts: OptimiserConfig) -> Optimizer:
    return RelativeAdamW(groups, lr=facts.rate, betas=facts.betas, eps=facts.eps)


def _adafactor(groups: Groups, facts: OptimiserConfig) -> Optimizer:
    return Adafactor(groups, lr=facts.rate)


def _sgd(groups: Groups, facts: OptimiserConfig) -> Optimizer:
    weights = {type(weight) for group in groups for weight in group["params"]}
    whole = weights <= {nn.Parameter}  # torch has no fused step of divided weights
    return torch.optim.SGD(groups, lr=facts.rate, fused=whole)


KINDS: dict[str, Callable[[Groups, OptimiserConfig], torch.optim.Optimizer]] = {
    "adam": _adam,
    "adamw": partial(_adam, kind=torch.optim.AdamW),
    "relative-adamw": _relative_adamw,
    "adafactor": _adafactor,
    "sgd": _sgd,
    "nt-asgd": _sgd,
}


class ModelOptimiser:
    """The optimiser of a recipe over the groups of layers that are not frozen.

    A group has ``layer_decay`` times the learning rate of the one above it. With
    ``unfreeze_every``, only the highest group is trained at first, and one more after each interval
    of steps, or each epoch; frozen groups have neither moments nor weight decay. If ``lazy``,
    gradients of frozen groups are not computed. The gradient of ``mix_penalty`` is added to the
    gradient of a step.
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
    """An optimiser step as one CUDA graph, which resets gradients in place.

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
        if not isinstance(group["lr"], Tensor):
            group["lr"] = torch.zeros((), device=self.device)
        group["lr"].fill_(rate)

    def clip_and_step(self) -> Tensor:
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
        """Do nothing: the graph resets the gradient."""

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
    """Weights that ``mix_penalty`` regularises, if it is not 0; a model without any is refused."""
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
