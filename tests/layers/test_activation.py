"""GELU by tanh, and the form of it that compiled steps on a GPU have."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.activation import ACTIVATIONS, gelu_by_sigmoid, gelu_tanh
from regard.models.formats.config_map import ACTIVATIONS as THEIRS


def of_torch(x):
    return F.gelu(x, approximate="tanh")


def values_and_gradients(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    y.backward(torch.linspace(-2, 2, len(x), device=x.device).bfloat16().to(x.dtype))
    return y.detach(), x.grad


def test_a_sigmoid_and_the_tanh_of_torch_are_exact():
    """To some roundings of numbers up to 8, which are 5e-7 each."""
    x = torch.linspace(-8, 8, 16_001)
    systems = (gelu_by_sigmoid, x), (of_torch, x), (of_torch, x.double())
    for value, peer, exact in zip(*(values_and_gradients(*one) for one in systems), strict=True):
        assert (value - exact).abs().max() < 2e-5 > (peer - exact).abs().max()


def test_far_from_zero_it_is_zero_or_its_input():
    assert gelu_by_sigmoid(torch.tensor([-60.0, 0.0, 60.0])).tolist() == [0, 0, 60]


def test_eager_steps_have_that_of_torch():
    x = torch.randn(100).bfloat16()
    assert torch.equal(gelu_tanh(x), of_torch(x))


def test_every_name_of_transformers_is_the_same_function():
    """Values and gradients, in float32 and, with its rounding, in bfloat16."""
    theirs = pytest.importorskip("transformers.activations").ACT2FN
    x = torch.linspace(-8, 8, 2_001)
    for name, ours in THEIRS.items():
        both = (values_and_gradients(f, x) for f in (theirs[name], ACTIVATIONS[ours]))
        for expected, value in zip(*both, strict=True):
            torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-5, msg=name)
        value, expected = ACTIVATIONS[ours](x.bfloat16()), theirs[name](x.double())
        torch.testing.assert_close(value.double(), expected, rtol=0.02, atol=0.03, msg=name)
    assert {"gelu_python", "gelu_fast", "gelu_accurate", "quick_gelu"} <= THEIRS.keys()


@pytest.mark.gpu
def test_compiled_steps_on_a_gpu_have_no_tanh():
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(10_000, device="cuda").bfloat16()
    compiled = torch.compile(gelu_tanh, fullgraph=True)
    results, code = run_and_get_code(values_and_gradients, compiled, x)
    assert "tanh(" not in "".join(code)
    for value, expected in zip(results, values_and_gradients(of_torch, x.double()), strict=True):
        assert value.dtype == torch.bfloat16
        torch.testing.assert_close(value.double(), expected, rtol=1 / 128, atol=1e-5)
