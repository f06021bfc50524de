"""Adafactor against torch's, and against the paper's algorithm in plain numbers."""

import numpy as np
import pytest
import torch

from regard.training.relative_optimisers import SQUARE, Adafactor


def gradients(shape, steps, scale):
    draws = np.random.default_rng(1)
    return [draws.normal(size=shape).astype(np.float32) * scale for _ in range(steps)]


def trained(optimiser_class, start, of_steps, **options):
    weight = torch.nn.Parameter(torch.from_numpy(start.copy()))
    optimiser = optimiser_class([weight], **options)
    for gradient in of_steps:
        weight.grad = torch.from_numpy(gradient.copy())
        optimiser.step()
    return weight.detach()


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("size", [1.0, 1e-5, 0.0])
@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 4), (6,), (1, 1)])
def test_updates_are_those_of_torch(shape, size, decay):
    """Where gradients are large: torch takes row means of squares to be 1.2e-7 at least.

    Weights that start at or near zero, as biases do, move by steps relative to 1e-3.
    """
    start = (size * np.random.default_rng(0).normal(size=shape)).astype(np.float32)
    both = [
        trained(kind, start, gradients(shape, 6, 3.0), lr=0.02, weight_decay=decay)
        for kind in (Adafactor, torch.optim.Adafactor)
    ]
    step = 0.02 * max(1e-3, size)  # of the first update, about
    moved = (both[1] - torch.from_numpy(start)).abs().max()
    assert moved > step / 10
    torch.testing.assert_close(*both, rtol=0, atol=1e-4 * step + 1e-6 * size)


def test_updates_of_small_gradients_are_those_of_the_paper():
    """Algorithm 4 with relative steps; updates stay below the limit when gradients shrink."""
    start = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    of_steps = gradients((4, 6), 5, 1e-6)
    of_steps[-1] *= 0.1
    weight, rows, columns = start.astype(np.float64), np.zeros(4), np.zeros(6)
    for step, gradient in enumerate(of_steps, start=1):
        share, squares = step**-0.8, gradient.astype(np.float64) ** 2 + SQUARE
        rows = (1 - share) * rows + share * squares.sum(1)
        columns = (1 - share) * columns + share * squares.sum(0)
        update = gradient / np.sqrt(np.outer(rows, columns) / rows.sum())
        size = np.sqrt((update**2).mean())
        update /= max(1.0, size)
        weight -= min(0.01, step**-0.5) * max(1e-3, np.sqrt((weight**2).mean())) * update
    assert size < 0.5
    ours = trained(Adafactor, start, of_steps, lr=0.01)
    np.testing.assert_allclose(ours.numpy(), weight, rtol=1e-5, atol=1e-6)
