"""Linear probes: multinomial logistic regression on the states of a layer, or on a mix of layers.

Features have mean 0 and variance 1 on the training set. The loss is convex and starts at zero
weights, so that a probe depends on its data alone; the strength of L2 is chosen on the development
set, from the strongest on, each continuing from the weights of the one before.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

L2 = (1e-1, 1e-2, 1e-3, 1e-4)  # factors of half the squared norm of the weights
STEPS = 50  # of L-BFGS, at each strength
UNKNOWN = -1  # number of a label that does not occur in training


class Split(NamedTuple):
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


def fit_probe(train: Split, dev: Split, test: Split) -> ProbeFit:
    """Train a probe on the states of one layer, or on a scalar mix of several.

    A mix is Σ s_l h_l with s = softmax(w), of which w is learned (Peters et al., 2018, eq. 1; the
    factor γ is part of the weights of the probe).
    """
    scales = [(of_layer.mean(0), of_layer.std(0)) for of_layer in train.layers]
    inputs = [[_standardised(*pair) for pair in zip(each.layers, scales, strict=True)]
              for each in (train, dev, test)]  # fmt: skip
    gold = torch.from_numpy(train.labels)
    classes, width = int(train.labels.max()) + 1, inputs[0][0].shape[1]
    probe = _Probe(len(train.layers), width, classes)
    best: tuple[float, float, np.ndarray, tuple[float, ...]] | None = None
    for strength in L2:
        _minimise(probe, lambda: probe.loss(inputs[0], gold, strength))  # noqa: B023
        correct_dev, correct = (
            probe.predict(of_set) == labels
            for of_set, labels in zip(inputs[1:], (dev.labels, test.labels), strict=True)
        )
        accuracy = float(correct_dev.mean())
        if best is None or accuracy > best[0]:
            best = accuracy, strength, correct, probe.mixture
    assert best is not None
    accuracy, strength, correct, mixture = best
    return ProbeFit(correct, accuracy, strength, mixture)


def _standardised(states_ND: np.ndarray, scale: tuple[np.ndarray, np.ndarray]) -> Tensor:
    mean_D, std_D = scale
    return torch.from_numpy((states_ND - mean_D) / np.where(std_D > 1e-6, std_D, 1)).float()


class _Probe:
    """Weights of a probe and of its mix of layers."""

    def __init__(self, layers: int, width: int, classes: int):
        self.weight_CD = torch.zeros(classes, width, requires_grad=True)
        self.bias_C = torch.zeros(classes, requires_grad=True)
        self.mix_L = torch.zeros(layers, requires_grad=layers > 1)

    @property
    def parameters(self) -> list[Tensor]:
        weights = (self.weight_CD, self.bias_C, self.mix_L)
        return [each for each in weights if each.requires_grad]

    @property
    def mixture(self) -> tuple[float, ...]:
        return tuple(self.mix_L.detach().softmax(0).tolist())

    def logits(self, layers: Sequence[Tensor]) -> Tensor:
        if len(layers) == 1:
            return torch.addmm(self.bias_C, layers[0], self.weight_CD.T)
        shares_L = self.mix_L.softmax(0)
        parts = (share * of_layer for share, of_layer in zip(shares_L, layers, strict=True))
        return torch.addmm(self.bias_C, torch.stack([*parts]).sum(0), self.weight_CD.T)

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
