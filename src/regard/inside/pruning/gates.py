"""Learned gates of heads: hard concrete gates and a penalty on the gates that are open.

Voita et al. (2019, arXiv:1905.09418, section 6) prune heads by the gates of Louizos et al. (2018,
arXiv:1712.01312): a gate is a stretched sigmoid, clipped to [0, 1], so that it can be exactly 0.
Gates are learned on a model whose weights stay, or together with the weights, as in the paper.
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from regard.core.device import seed_generators
from regard.core.errors import BadInput
from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.heads.importance import LossBatch
from regard.layers.attention import HeadsModule
from regard.models.attention_site import AttentionSite
from regard.models.folders.loaded_model import LoadedModel
from regard.tasks.components import runner_of

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1  # temperature, and ends of the stretched sigmoid
START = 2.0  # log α of all gates before the first step: nearly open
RATE = 0.1  # learning rate of Adam


def sample_gates(log_alpha_H: Tensor, uniform_H: Tensor) -> Tensor:
    """Random gates from uniform numbers (Louizos et al., equation 10)."""
    noise_H = uniform_H.log() - (1 - uniform_H).log()
    return _stretch(torch.sigmoid((noise_H + log_alpha_H) / BETA))


def gate_values(log_alpha_H: Tensor) -> Tensor:
    """Gates without noise (Louizos et al., equation 13); one of 0 removes its head."""
    return _stretch(torch.sigmoid(log_alpha_H))


def open_probabilities(log_alpha_H: Tensor) -> Tensor:
    """Probability that a random gate is not 0 (Louizos et al., equation 12)."""
    return torch.sigmoid(log_alpha_H - BETA * math.log(-GAMMA / ZETA))


def _stretch(sigmoid_H: Tensor) -> Tensor:
    return (sigmoid_H * (ZETA - GAMMA) + GAMMA).clamp(0, 1)


def learn_gates(
    model: ModelRunner,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    *,
    penalty: float,
    epochs: int,
    seed: int = 0,
    weights: Sequence[Tensor] = (),
    weights_rate: float = 0.0,
) -> dict[str, np.ndarray]:
    """Values log α (layers, heads) of each site, learned by Adam; NaN: no such head.

    The loss is the mean loss of a batch, plus ``penalty`` times the expected number of open gates.
    ``weights`` of the model are learned as well, at the rate ``weights_rate``.
    """
    if not penalty > 0:
        raise BadInput(f"penalty must be above 0, not {penalty:g}")
    device, noise = next(model.module.parameters()).device, torch.Generator().manual_seed(seed)
    log_alphas = {
        f"{site.tape_path.format(layer=layer)}.head_outputs": torch.full(
            (heads,), START, device=device, requires_grad=True
        )
        for site in sites
        for layer, heads in enumerate(site.heads)
    }
    learned = [*log_alphas.values(), *weights]
    groups: list[dict[str, object]] = [{"params": [*log_alphas.values()], "lr": RATE}]
    groups += [{"params": weights, "lr": weights_rate}] if weights else []
    optimiser = torch.optim.Adam(groups)
    for epoch in range(epochs):
        order = np.random.default_rng((seed, epoch)).permutation(len(batches))
        for rows, loss in (batches[number] for number in order):
            edits = {name: _gated(value_H, noise) for name, value_H in log_alphas.items()}
            value = loss(model.run(rows, Tape(edits=edits))) / len(rows)
            is_open = torch.cat([open_probabilities(each_H) for each_H in log_alphas.values()])
            total = value + penalty * is_open.sum()
            gradients = torch.autograd.grad(total, learned, allow_unused=True)
            for parameter, gradient in zip(learned, gradients, strict=True):
                parameter.grad = gradient
            optimiser.step()
    return {site.name: _by_layer(site, log_alphas) for site in sites}


def train_with_gates(
    model: LoadedModel,
    batches: Sequence[LossBatch],
    sites: Sequence[AttentionSite],
    *,
    rate: float,
    penalty: float,
    epochs: int,
    seed: int = 0,
) -> tuple[LoadedModel, dict[str, np.ndarray]]:
    """Copy of a model, trained together with gates of its heads, and log α of ``learn_gates``.

    The copy has its gates in its weights: a head whose gate is closed adds nothing, and can be
    removed without a change of the outputs. Training uses the dropout of the model.
    """
    if not rate > 0:
        raise BadInput(f"the learning rate of the weights must be above 0, not {rate:g}")
    trained = replace(model, module=deepcopy(model.module), notes=_with_history(model.notes))
    weights = [weight for weight in trained.module.parameters() if weight.requires_grad]
    devices = sorted({weight.device.index or 0 for weight in weights if weight.is_cuda})
    with torch.random.fork_rng(devices):
        seed_generators(seed)
        trained.module.train()
        log_alphas = learn_gates(
            runner_of(trained),
            batches,
            sites,
            penalty=penalty,
            epochs=epochs,
            seed=seed,
            weights=weights,
            weights_rate=rate,
        )
    for weight in weights:
        weight.grad = None
    trained.module.eval()
    multiply_heads(trained, sites, log_alphas)
    return trained, log_alphas


def _with_history(notes: dict[str, object]) -> dict[str, object]:
    """Notes of a model whose weights were trained further, together with gates."""
    before = f"{notes['weights']}, then " if "weights" in notes else ""
    return {**notes, "weights": f"{before}trained with gates"}


@torch.no_grad()
def multiply_heads(
    model: LoadedModel, sites: Sequence[AttentionSite], log_alphas: dict[str, np.ndarray]
) -> None:
    """Multiply the output weights of each head by its gate without noise."""
    for site in sites:
        for layer, heads in enumerate(site.heads):
            path = site.tape_path.format(layer=layer)
            attention = cast(HeadsModule, model.module.get_submodule(path))
            gates_H = gate_values(torch.from_numpy(log_alphas[site.name][layer, :heads]))
            weight = attention.o.weight
            weight *= gates_H.to(weight).repeat_interleave(attention.heads.value)


def _gated(log_alpha_H: Tensor, noise: torch.Generator) -> Edit:
    """Edit that multiplies the outputs of heads by random gates."""
    uniform_H = torch.rand(log_alpha_H.shape, generator=noise).clamp(1e-6, 1 - 1e-6)
    gates_H = sample_gates(log_alpha_H, uniform_H.to(log_alpha_H.device))
    return lambda name, outputs_THK: outputs_THK * gates_H[:, None].to(outputs_THK.dtype)


def _by_layer(site: AttentionSite, log_alphas: dict[str, Tensor]) -> np.ndarray:
    values_LH = np.full((site.layers, max(site.heads)), np.nan)
    for layer, heads in enumerate(site.heads):
        name = f"{site.tape_path.format(layer=layer)}.head_outputs"
        values_LH[layer, :heads] = log_alphas[name].detach().cpu().numpy()
    return values_LH


def least_steps() -> int:
    """Steps that a gate needs to close: Adam moves log α by about ``RATE`` at most in each."""
    return max(0, math.ceil((START - math.log(-GAMMA / ZETA)) / RATE))


def closed_share(log_alphas: dict[str, np.ndarray]) -> float:
    """Share of the heads whose gates are 0 without noise."""
    every = np.concatenate([values_LH[~np.isnan(values_LH)] for values_LH in log_alphas.values()])
    return float((gate_values(torch.from_numpy(every)) == 0).float().mean())
