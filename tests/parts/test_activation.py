"""GELU of compiled steps on a GPU: its values, its gradients, and where it is used."""

import pytest
import torch
import torch.nn.functional as F

from regard.parts import activation
from regard.parts.activation import gelu, gelu_tanh


def exact_tanh(x):
    return F.gelu(x, approximate="tanh")


FORMS = {"exact": (gelu, F.gelu), "by tanh": (gelu_tanh, exact_tanh)}
forms = pytest.mark.parametrize(("ours", "torch_gelu"), FORMS.values(), ids=FORMS)


def values_and_gradients(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    y.backward(torch.linspace(-2, 2, len(x), device=x.device).bfloat16().to(x.dtype))
    return y.detach(), x.grad


@pytest.fixture
def short_form(monkeypatch):
    monkeypatch.setattr(activation, "_bound_by_arithmetic", lambda x: True)


@forms
def test_values_and_gradients_are_as_exact_as_those_of_torch(ours, torch_gelu, short_form):
    x = torch.linspace(-8, 8, 16_001)
    systems = (ours, x), (torch_gelu, x), (torch_gelu, x.double())
    for value, of_torch, expected in zip(
        *(values_and_gradients(*system) for system in systems), strict=True
    ):
        assert value.dtype == torch.float32
        assert (value - expected).abs().max() < 3 * (of_torch - expected).abs().max()


def test_the_tail_is_not_lost_in_a_difference(short_form):
    x = torch.linspace(-6, -3, 301)
    expected = F.gelu(x.double())
    assert ((gelu(x) - expected) / expected).abs().max() < 0.02
    assert gelu(torch.tensor([-60.0])) == 0 and gelu(torch.tensor([60.0])) == 60


@forms
def test_half_precision_is_rounded_once(ours, torch_gelu, short_form):
    x = torch.randn(10_000, generator=torch.Generator().manual_seed(1)).bfloat16()
    value, gradient = values_and_gradients(ours, x)
    expected, expected_gradient = values_and_gradients(torch_gelu, x.double())
    assert value.dtype == gradient.dtype == torch.bfloat16
    torch.testing.assert_close(value.double(), expected, rtol=1 / 256, atol=1e-6)
    torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1 / 128, atol=1e-6)


@forms
def test_a_compiler_traces_it(ours, torch_gelu, short_form):
    x = torch.linspace(-5, 5, 101)
    traced = torch.compile(ours, backend="aot_eager", fullgraph=True)
    for value, expected in zip(
        values_and_gradients(traced, x), values_and_gradients(ours, x), strict=True
    ):
        torch.testing.assert_close(value, expected)


@forms
def test_eager_steps_have_that_of_torch(ours, torch_gelu):
    x = torch.randn(100).bfloat16()
    assert torch.equal(ours(x), torch_gelu(x))


@pytest.mark.gpu
@forms
def test_compiled_steps_on_a_gpu_have_the_short_form(ours, torch_gelu):
    from torch._inductor.utils import run_and_get_code

    x = torch.randn(10_000, device="cuda").bfloat16()
    found, code = run_and_get_code(values_and_gradients, torch.compile(ours, fullgraph=True), x)
    source = "".join(code)
    assert "erf(" not in source and "tanh(" not in source
    for value, expected in zip(found, values_and_gradients(torch_gelu, x.double()), strict=True):
        torch.testing.assert_close(value.double(), expected, rtol=1 / 128, atol=1e-5)
