"""Linear probes: multinomial logistic regression on the states of a layer, or on a mix of layers.

Features have mean 0 and variance 1 on the training set. The loss is convex and starts at zero
weights, so that a probe depends on its data alone; the strength of L2 is chosen on the development
set, from the strongest on. The probe of a layer continues from the weights of the strength before.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

L2 = (1e-1, 1e-2, 1e-3, 1e-4)  # factors of half the squared norm of the weights
STEPS = 50  # of L-BFGS, at each strength
UNKNOWN = -1  # number of a label that does not occur in training


class ProbeSplit(NamedTuple):
    """Features of a set, (examples, width) for each layer of the probe, and numbers of labels."""

    layers: Sequence[np.ndarray]
    labels: np.ndarray


class ProbeFit(NamedTuple):
    """Trained probe: whether each test example is right, dev accuracy, and its strength of L2.

    ``mixture`` has the weight of each layer.
    """

    correct: np.ndarray
    dev_accuracy: float
    strength: float
    mixture: tuple[float, ...]


def number_labels(train: Sequence[str], *sets: Sequence[str]) -> list[np.ndarray]:
    """Numbers of the labels of the training set and of other sets, in order of their names."""
    numbers = {label: number for number, label in enumerate(sorted({*train}))}
    return [np.array([numbers.get(label, UNKNOWN) for label in each]) for each in (train, *sets)]


def fit_probe(train: ProbeSplit, dev: ProbeSplit, test: ProbeSplit) -> ProbeFit:
    """Train a probe on the states of one layer, or on a scalar mix of several.

    A mix is γ Σ s_l h_l with s = softmax(w), of which w is learned (Peters et al., 2018, eq. 1). In
    place of γ, each feature of the mix has variance 1 on the training set, so that L2 prefers no
    mix for its scale.
    """
    scales = [(of_layer.mean(0), of_layer.std(0)) for of_layer in train.layers]
    inputs = [
        [_standardised(*pair) for pair in zip(each.layers, scales, strict=True)]
        for each in (train, dev, test)
    ]
    gold = torch.from_numpy(train.labels)
    probe = _Probe(inputs[0], int(train.labels.max()) + 1)
    best: ProbeFit | None = None
    for strength in L2:
        probe.logits_L.data.zero_()
        _minimise(probe, partial(probe.loss, inputs[0], gold, strength))
        on_dev, on_test = probe.predict(inputs[1]), probe.predict(inputs[2])
        accuracy = float((on_dev == dev.labels).mean())
        if best is None or accuracy > best.dev_accuracy:
            best = ProbeFit(on_test == test.labels, accuracy, strength, probe.mixture)
    assert best is not None
    return best


def _standardised(states_ND: np.ndarray, scale: tuple[np.ndarray, np.ndarray]) -> Tensor:
    mean_D, std_D = scale
    return torch.from_numpy((states_ND - mean_D) / np.where(std_D > 1e-6, std_D, 1)).float()


class _Probe:
    """Weights of a probe and of its mix of layers."""

    def __init__(self, train: Sequence[Tensor], classes: int):
        count, width = train[0].shape
        self.weight_CD = torch.zeros(classes, width, requires_grad=True)
        self.bias_C = torch.zeros(classes, requires_grad=True)
        self.logits_L = torch.zeros(len(train), requires_grad=len(train) > 1)
        pairs = [(one * other).sum(0) / count for one in train for other in train]
        self.covariance_DLL = torch.stack(pairs, 1).view(width, len(train), len(train))

    @property
    def parameters(self) -> list[Tensor]:
        weights = (self.weight_CD, self.bias_C, self.logits_L)
        return [each for each in weights if each.requires_grad]

    @property
    def mixture(self) -> tuple[float, ...]:
        return tuple(self.logits_L.detach().softmax(0).tolist())

    def logits(self, layers: Sequence[Tensor]) -> Tensor:
        if len(layers) == 1:
            return torch.addmm(self.bias_C, layers[0], self.weight_CD.T)
        shares_L = self.logits_L.softmax(0)
        variance_D = (self.covariance_DLL @ shares_L @ shares_L).clamp(min=1e-6)
        parts = (share * of_layer for share, of_layer in zip(shares_L, layers, strict=True))
        mix_ND = torch.stack([*parts]).sum(0) / variance_D.sqrt()
        return torch.addmm(self.bias_C, mix_ND, self.weight_CD.T)

    def loss(self, layers: Sequence[Tensor], gold: Tensor, strength: float) -> Tensor:
        penalty = 0.5 * strength * self.weight_CD.square().sum()
        return torch.nn.functional.cross_entropy(self.logits(layers), gold) + penalty

    @torch.no_grad()
    def predict(self, layers: Sequence[Tensor]) -> np.ndarray:
        return self.logits(layers).argmax(1).numpy()


def _minimise(probe: _Probe, loss: Callable[[], Tensor]) -> None:
    optimiser = torch.optim.LBFGS(
        probe.parameters, max_iter=STEPS, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    with torch.enable_grad():
        optimiser.step(closure)
