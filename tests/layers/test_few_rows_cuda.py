"""Linear layers for few rows, and attention that writes its keys, on CUDA against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.activation import ACTIVATIONS
from regard.layers.block import RMSNorm
from regard.layers.kernels import decode_step, few_rows
from regard.layers.kernels.few_rows import Tiling, can_start_early, linear
from regard.layers.rotary import Rotation, turn
from triton_device import DEVICE, HALVES, INTERPRETED, each_half, on_device

pytestmark = on_device

SMALL = [(64, 40), (33, 70), (100, 7)]
SIZES = [*SMALL, (768, 2304), (3072, 768), (1600, 1600), (768, 50_257)]
NEAR = {torch.bfloat16: 4e-3, torch.float16: 5e-4}  # half a unit in the last place, and a bit
each_count = pytest.mark.parametrize("rows", [1, 2, 7, 16])


def layer_and_norm(inputs: int, outputs: int, dtype: torch.dtype, bias: bool = True):
    torch.manual_seed(inputs + outputs)
    layer, norm = nn.Linear(inputs, outputs, bias=bias), nn.LayerNorm(inputs)
    nn.init.normal_(norm.weight, 1.0, 0.3)
    nn.init.normal_(norm.bias)
    return layer.to(DEVICE, dtype), norm.to(DEVICE, dtype)


def exact(x_RD: Tensor, layer: nn.Linear, norm=None, activation=None, residual_RF=None) -> Tensor:
    """In single precision, but for the result of the norm."""
    if norm is not None:
        sizes, single = norm.normalized_shape, (norm.weight.float(), norm.bias.float())
        x_RD = F.layer_norm(x_RD.float(), sizes, *single, norm.eps).to(x_RD.dtype)
    bias_F = None if layer.bias is None else layer.bias.float()
    y_RF = F.linear(x_RD.double(), layer.weight.double()).float()
    y_RF = y_RF if bias_F is None else y_RF + bias_F
    y_RF = y_RF if activation is None else activation(y_RF)
    return y_RF if residual_RF is None else y_RF + residual_RF.float()


def near(found: Tensor, wanted: Tensor) -> None:
    assert found.isfinite().all() and found.shape == wanted.shape
    assert (found.float() - wanted).norm() <= NEAR[found.dtype] * wanted.norm()


@each_half
@each_count
@pytest.mark.parametrize("inputs,outputs", SMALL if INTERPRETED else SIZES)
@torch.inference_mode()
def test_a_linear_layer(inputs, outputs, rows, dtype):
    layer, norm = layer_and_norm(inputs, outputs, dtype)
    assert few_rows.fits(layer)
    x_RD = (3 * torch.randn(rows, inputs, device=DEVICE) + 1).to(dtype)
    residual_RF = torch.randn(rows, outputs, device=DEVICE).to(dtype)
    near(linear(x_RD, layer), exact(x_RD, layer))
    near(linear(x_RD, layer, norm=norm), exact(x_RD, layer, norm))
    found = linear(x_RD, layer, residual_RF=residual_RF)
    near(found, exact(x_RD, layer, residual_RF=residual_RF))


@each_half
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", ACTIVATIONS)
@torch.inference_mode()
def test_all_at_once_with_every_activation(name, rows, dtype):
    layer, norm = layer_and_norm(96, 80, dtype, bias=name != "relu")
    nn.init.normal_(layer.weight, std=0.5)
    x_RD = torch.randn(rows, 96, device=DEVICE).to(dtype)
    residual_RF = torch.randn(rows, 80, device=DEVICE).to(dtype)
    around = {"norm": norm, "activation": ACTIVATIONS[name], "residual_RF": residual_RF}
    near(linear(x_RD, layer, **around), exact(x_RD, layer, **around))


@each_half
@each_count
@torch.inference_mode()
def test_rms_norm_and_gate(rows, dtype):
    layer, _ = layer_and_norm(96, 80, dtype, bias=False)
    norm = RMSNorm(96).to(DEVICE, dtype)
    nn.init.normal_(norm.weight, 1.0, 0.3)
    x_RD = (2 * torch.randn(rows, 96, device=DEVICE) + 1).to(dtype)
    single = x_RD.float() * torch.rsqrt(x_RD.float().square().mean(-1, keepdim=True) + norm.eps)
    near(linear(x_RD, layer, norm=norm), exact((single * norm.weight.float()).to(dtype), layer))
    both_RD = torch.randn(rows, 192, device=DEVICE).to(dtype)
    gate_RD, up_RD = both_RD.float().chunk(2, -1)
    residual_RF = torch.randn(rows, 80, device=DEVICE).to(dtype)
    found = linear(both_RD, layer, gate=F.silu, residual_RF=residual_RF)
    near(found, exact((F.silu(gate_RD) * up_RD).to(dtype), layer, residual_RF=residual_RF))


@each_count
@torch.inference_mode()
def test_rows_do_not_depend_on_each_other(rows):
    layer, norm = layer_and_norm(200, 300, HALVES[0])
    x_RD = torch.randn(16, 200, device=DEVICE).to(HALVES[0])
    together = linear(x_RD, layer, norm=norm)
    if rows > 1:
        assert torch.equal(linear(x_RD[:rows], layer, norm=norm), together[:rows])
    others = x_RD.clone()
    others[rows:] = torch.nan
    assert torch.equal(linear(others, layer, norm=norm)[:rows], together[:rows])


@pytest.mark.parametrize("rows", [1, 4])
@torch.inference_mode()
def test_kernels_that_start_early_wait_for_what_they_read(rows):
    if not can_start_early(torch.device(DEVICE)):
        pytest.skip("from Hopper on")
    layer, norm = layer_and_norm(256, 256, torch.bfloat16)
    results = []
    for early in (False, True):
        x_RD = torch.linspace(-2, 2, rows * 256, device=DEVICE).view(rows, 256).bfloat16()
        tiling = Tiling(16, early=early)
        for _ in range(50):  # each reads what the one before has written
            x_RD = linear(x_RD, layer, norm=norm, residual_RF=x_RD, tiling=tiling)
        results.append(x_RD)
    assert torch.equal(*results)


@each_half
@pytest.mark.parametrize("value", [64, 20])
def test_writing_and_attending_in_one_launch(value, dtype):
    rows, heads, size, capacity = 4, 3, 64, 300
    shapes = [(rows, heads, each) for each in (size, size, value)]
    q, k, v = (torch.randn(shape, device=DEVICE).to(dtype) for shape in shapes)
    past = [torch.randn(rows, capacity, *x.shape[1:], device=DEVICE).to(dtype) for x in (k, v)]
    past[0][:, 128:] *= 2  # later blocks of keys have higher scores, too
    lengths_R = torch.tensor([1, 128, 129, 300], dtype=torch.int32, device=DEVICE)
    own_R = torch.arange(rows, dtype=torch.int32, device=DEVICE)
    owners_RS = own_R[:, None].repeat(1, capacity)
    owners_RS[3, :100] = 2  # of another row, and written long ago
    positions_R = lengths_R.long() - 1
    wanted_past = [x.clone() for x in past]
    decode_step.write(*wanted_past, k, v, positions_R)
    wanted = decode_step.plain(q.float(), *wanted_past, owners_RS, lengths_R, 0.125)
    found = decode_step.write_and_attend(q, k, v, *past, positions_R, owners_RS, lengths_R, 0.125)
    for row in range(rows):  # the mean of many values is small
        near(found[row], wanted[row])
    assert all(map(torch.equal, past, wanted_past))


@each_half
@pytest.mark.parametrize("kv", [6, 2, 1])
@pytest.mark.parametrize("left", [None, 4, 150])
@pytest.mark.parametrize("turned", [0, 32, 64])
def test_attending_with_groups_windows_and_rotary_positions(turned, left, kv, dtype):
    rows, heads, size, capacity = 3, 6, 64, 200
    q = torch.randn(rows, heads, size, device=DEVICE).to(dtype)
    k, v = (torch.randn(rows, kv, size, device=DEVICE).to(dtype) for _ in range(2))
    past = [torch.randn(rows, capacity, kv, size, device=DEVICE).to(dtype) for _ in range(2)]
    lengths_R = torch.tensor([1, 131, 200], dtype=torch.int32, device=DEVICE)
    own_R = torch.arange(rows, dtype=torch.int32, device=DEVICE)
    owners_RS, positions_R = own_R[:, None].repeat(1, capacity), lengths_R.long() - 1
    every_S = torch.arange(capacity, device=DEVICE)
    angles = Rotation(turned).angles(every_S) if turned else None
    wanted_past, turned_q, turned_k = [x.clone() for x in past], q, k
    if angles is not None:
        at = [table[positions_R] for table in angles]
        turned_q, turned_k = turn(q, *at), turn(k, *at)
    decode_step.write(*wanted_past, turned_k, v, positions_R)
    wanted = decode_step.plain(turned_q.float(), *wanted_past, owners_RS, lengths_R, 0.125, left)
    found = decode_step.write_and_attend(
        q, k, v, *past, positions_R, owners_RS, lengths_R, 0.125, left, angles
    )
    for row in range(rows):
        near(found[row], wanted[row])
    for found_past, expected in zip(past, wanted_past, strict=True):
        near(found_past, expected.float())
