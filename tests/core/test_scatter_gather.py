"""Rows moved to other places and back: values and gradients, compiled or not."""

import pytest
import torch

from regard.core.layout import gather_rows, scatter_rows

SLOTS = torch.tensor([4, 0, 3])


def plainly(x):
    table = torch.zeros(6, 2, dtype=x.dtype)
    return table.index_add(0, SLOTS, x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
@pytest.mark.parametrize(
    "backend",
    [
        None,
        "aot_eager",
        pytest.param("inductor", marks=[pytest.mark.native("compiler"), pytest.mark.slow]),
    ],
)
def test_each_is_the_gradient_of_the_other(backend):
    def both(x):
        wide = scatter_rows(x, SLOTS, 6) * torch.arange(12).view(6, 2)
        return wide, gather_rows(torch.tanh(wide), SLOTS)

    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    wide, back = (torch.compile(both, backend=backend) if backend else both)(x)
    expected = plainly(x) * torch.arange(12).view(6, 2)
    torch.testing.assert_close((wide, back), (expected, torch.tanh(expected)[SLOTS]))
    (found,) = torch.autograd.grad((wide.sum() + (back**2).sum()), x)
    (wanted,) = torch.autograd.grad(expected.sum() + (torch.tanh(expected)[SLOTS] ** 2).sum(), x)
    assert found.any()
    torch.testing.assert_close(found, wanted)


def test_gradients_have_gradients():
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: scatter_rows(x, SLOTS, 6) ** 2, x)
    y = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda y: gather_rows(y, SLOTS) ** 3, y)
