"""AdamW relative to the size of weights, against its formula in plain numbers."""

from functools import partial

import numpy as np
import pytest
import torch

from regard.training.optimiser import ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig
from regard.training.relative_optimisers import RelativeAdamW

STEPS, RATE, FIRST, SECOND, EPS = 6, 0.02, 0.8, 0.95, 1e-3
SHAPES = {"matrix": (5, 7), "vector": (6,), "number": (), "batch": (2, 3, 4)}


def drawn(shape, seed, scale=1.0):
    return (scale * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def expected(weight, gradients, decay):
    """The weight after steps -rate · max(0.001, RMS(w)) · m̂ / (√v̂ + ε), by decoupled decay."""
    weight, m, v = weight.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(gradients, start=1):
        m = FIRST * m + (1 - FIRST) * gradient
        v = SECOND * v + (1 - SECOND) * gradient.astype(np.float64) ** 2
        adam = m / (1 - FIRST**step) / (np.sqrt(v / (1 - SECOND**step)) + EPS)
        size = max(1e-3, np.sqrt((weight**2).mean()))
        weight = weight * (1 - RATE * decay) - RATE * size * adam
    return weight


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e-4, 0.0])
def test_updates_are_those_of_the_formula(scale, decay):
    """Several weights at once, of which each has a size, and zeros move by 0.001 of the rate."""
    starts = [drawn(shape, 1, scale) for shape in SHAPES.values()]
    steps = [[drawn(shape, 2 + n, 10.0) for n in range(STEPS)] for shape in SHAPES.values()]
    weights = [torch.nn.Parameter(torch.tensor(start)) for start in starts]
    settings = {"lr": RATE, "betas": (FIRST, SECOND), "eps": EPS, "weight_decay": decay}
    optimiser = RelativeAdamW([{"params": weights[:2]}, {"params": weights[2:]}], **settings)
    for number in range(STEPS):
        for weight, gradients in zip(weights, steps, strict=True):
            weight.grad = torch.tensor(gradients[number])
        optimiser.step()
    for weight, start, gradients in zip(weights, starts, steps, strict=True):
        result, end = weight.detach().numpy(), expected(start, gradients, decay)
        assert np.abs(end - start).max() > RATE * max(1e-3, scale) / 10
        np.testing.assert_allclose(result, end, rtol=2e-5, atol=1e-8)


def test_weights_without_a_gradient_stay_and_later_groups_begin_with_their_first_step():
    model = torch.nn.ModuleDict({name: torch.nn.Linear(3, 2) for name in ("low", "high")})
    before = model["low"].weight.detach().clone()
    optimiser = RelativeAdamW(model["high"].parameters(), lr=RATE, betas=(FIRST, SECOND), eps=EPS)
    gradient = np.ones((2, 3), np.float32)

    def step():
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        optimiser.step()

    step()
    assert torch.equal(model["low"].weight, before)
    optimiser.add_param_group({"params": list(model["low"].parameters())})
    step()
    end = expected(before.numpy(), [gradient], 0.0)
    np.testing.assert_allclose(model["low"].weight.detach().numpy(), end, rtol=1e-6)
    model["low"].weight.grad = None
    optimiser.step()
    np.testing.assert_allclose(model["low"].weight.detach().numpy(), end, rtol=1e-6)


def test_a_recipe_has_its_rate_decay_and_clipping():
    """Gradients are clipped before, and vectors do not decay."""
    settings = {"betas": (FIRST, SECOND), "eps": EPS, "decay": 0.3, "clip": 1.0}
    facts = OptimiserConfig(kind="relative-adamw", rate=RATE, **settings)
    model = torch.nn.Linear(3, 2)
    starts = [weight.detach().numpy().copy() for weight in model.parameters()]
    for weight in model.parameters():
        weight.grad = torch.full_like(weight, 2.0)
    norm = ModelOptimiser(model, facts).step(1.0)
    assert norm.item() == pytest.approx(2 * np.sqrt(8))
    clipped = partial(np.full, fill_value=1 / np.sqrt(8), dtype=np.float32)
    for weight, start, decay in zip(model.parameters(), starts, (0.3, 0.0), strict=True):
        end = expected(start, [clipped(start.shape)], decay)
        np.testing.assert_allclose(weight.detach().numpy(), end, rtol=1e-5, atol=1e-7)
