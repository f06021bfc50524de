"""Rotary positions, gates and norms of whole batches on CUDA against torch."""

import pytest
import torch
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.layers.activation import ACTIVATIONS
from regard.layers.block import Mlp, Residual, RMSNorm
from regard.layers.kernels import elementwise
from regard.layers.rotary import Llama3Scaling, RotaryDot, Rotation, turn
from triton_device import DEVICE, each_half, on_device

pytestmark = on_device

NEAR = {torch.bfloat16: 4e-3, torch.float16: 5e-4}  # half a unit in the last place, and a bit
each_norm = pytest.mark.parametrize("kind", [nn.LayerNorm, RMSNorm])


def near(found: Tensor, wanted: Tensor) -> None:
    """All values are finite and within the rounding of the result."""
    assert found.isfinite().all() and found.shape == wanted.shape
    limit = NEAR[found.dtype]
    torch.testing.assert_close(found.float(), wanted.float(), rtol=2 * limit, atol=limit)


def random(*shape: int, dtype: torch.dtype) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape, device=DEVICE).to(dtype)


@each_half
@pytest.mark.parametrize("heads,size,turned", [(12, 64, 64), (3, 20, 20), (1, 24, 10), (5, 16, 2)])
@torch.inference_mode()
def test_positions_to_the_end_of_a_long_context(heads, size, turned, dtype):
    rotation = Rotation(turned, 160_000.0, Llama3Scaling(8.0, 1.0, 4.0, 2048))
    positions_T = torch.tensor([0, 1, 77, 1023, 8191, 131_071], device=DEVICE)
    x_THK = random(len(positions_T), heads, size, dtype=dtype)
    found = elementwise.turned(x_THK, positions_T, rotation.frequencies(x_THK.device))
    near(found, turn(x_THK.float(), *rotation.angles(positions_T)))
    assert torch.equal(found[..., turned:], x_THK[..., turned:])


@each_half
@torch.inference_mode()
def test_a_part_of_a_wider_tensor(dtype):
    layout = Layout.ragged([3, 1, 4], DEVICE)
    both_T2HK = random(8, 2, 3, 16, dtype=dtype)
    queries_THK = both_T2HK[:, 0]
    score = RotaryDot(Rotation(16))
    angles = score.rotation.angles(layout.positions_T)
    near(score.place(queries_THK, layout), turn(queries_THK.float(), *angles))


@each_half
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("rows,inner", [(1, 1), (7, 33), (40, 1152)])
@torch.inference_mode()
def test_a_gate(rows, inner, name, dtype):
    inner_TF = random(rows, 2 * inner, dtype=dtype)
    gate_TF, up_TF = inner_TF.float().chunk(2, -1)
    activation = ACTIVATIONS[name]
    near(elementwise.gated(inner_TF, activation), activation(gate_TF) * up_TF)


@each_half
@each_norm
@pytest.mark.parametrize("rows,width", [(1, 8), (5, 33), (9, 768), (2, 1600)])
@torch.inference_mode()
def test_a_norm(rows, width, kind, dtype):
    norm = kind(width).to(DEVICE)
    for parameter in norm.parameters():
        nn.init.normal_(parameter, 1.0, 0.3)
    x_TD = 3 * random(rows, width, dtype=dtype) + 1
    halved = kind(width).to(DEVICE, dtype)
    halved.load_state_dict(norm.state_dict())
    norm.load_state_dict(halved.state_dict())
    near(elementwise.normed(x_TD, halved), norm(x_TD.float()))


@each_half
@torch.inference_mode()
def test_a_layer_norm_without_a_bias(dtype):
    norm = nn.LayerNorm(24, bias=False).to(DEVICE, dtype)
    x_TD = random(4, 24, dtype=dtype)
    near(elementwise.normed(x_TD, norm), nn.functional.layer_norm(x_TD.float(), (24,)))


class Halved(nn.LayerNorm):
    """A norm of another kind, with the weights of one that the kernel computes."""

    def forward(self, x_TD: Tensor) -> Tensor:
        return super().forward(x_TD) / 2


@each_half
@pytest.mark.parametrize(
    "norm",
    [nn.Identity(), nn.LayerNorm(24, elementwise_affine=False), Halved(24), nn.RMSNorm(24)],
    ids=["none", "without weights", "of another class", "of torch"],
)
@torch.inference_mode()
def test_what_the_kernel_does_not_compute_is_left_to_the_norm(norm, dtype):
    """The first layer of ModernBERT has no norm before its attention."""
    residual, x_TD = Residual(24, post=False), 3 * random(4, 24, dtype=dtype) + 1
    residual.norm = norm
    residual = residual.to(DEVICE, dtype)
    near(residual.normed(x_TD), norm(x_TD).float())


@each_half
@torch.inference_mode()
def test_no_rows(dtype):
    none_THK = random(0, 2, 8, dtype=dtype)
    positions_T = torch.zeros(0, dtype=torch.long, device=DEVICE)
    frequencies_F = Rotation(8).frequencies(none_THK.device)
    assert elementwise.turned(none_THK, positions_T, frequencies_F).shape == (0, 2, 8)
    assert elementwise.gated(random(0, 8, dtype=dtype), nn.functional.silu).shape == (0, 4)
    norm = RMSNorm(8).to(DEVICE, dtype)
    assert elementwise.normed(random(0, 8, dtype=dtype), norm).shape == (0, 8)


def test_training_and_single_precision_have_torchs_operators(monkeypatch):
    """The kernels have no gradient."""
    for name in ("gated", "normed", "turned"):
        monkeypatch.setattr(
            elementwise, name, lambda *_: pytest.fail("a kernel without a gradient")
        )
    layout = Layout.ragged([2, 3], DEVICE)
    for dtype in (torch.float32, torch.float16):
        x_TD = random(5, 16, dtype=dtype)
        if dtype == torch.float16:
            x_TD.requires_grad_()
        mlp = Mlp(16, 8, activation="swish", gated=True, bias=False).to(DEVICE, dtype)
        residual = Residual(16, post=False).to(DEVICE, dtype)
        turned = RotaryDot(Rotation(8)).place(x_TD.view(5, 2, 8), layout)
        total = mlp(residual.normed(x_TD)).sum() + turned.sum()
        if dtype == torch.float16:
            total.backward()
            assert x_TD.grad.isfinite().all()
