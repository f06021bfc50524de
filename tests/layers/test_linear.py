"""Linear layers made for inference: 8 bits to the last bit, float32 and bfloat16 to rounding."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard.core.batch import SourceTarget, pack
from regard.core.errors import BadInput
from regard.generation import Beam, Greedy
from regard.layers.linear import int8, packed
from regard.layers.linear.convert import LAYERS, convert, describe_products
from regard.layers.linear.int8 import FEW, Fbgemm, Floats, Int8Linear, OneDnn, Product, is_exact
from regard.layers.linear.packed import HalfLinear, PackedLinear
from regard.models.facts import change
from regard.models.papers.transformer import BASE

EXACT = [one for one in (Fbgemm, OneDnn, Floats) if is_exact(one)]
pytestmark = pytest.mark.skipif(not EXACT, reason="no exact product of 8-bit integers here")
BF16 = pytest.param("bf16", marks=pytest.mark.native("bf16"))

single = np.float32
sizes = st.sampled_from([1, 2, 3, 5, 16, 31, 63, 64, 100, 130])
seeds = st.integers(0, 1_000)


def by_hand(x: Tensor, linear: nn.Linear) -> np.ndarray:
    """The definition, with integers that are integers."""
    rows, weight = x.numpy(), linear.weight.detach().numpy()
    column = np.maximum(abs(weight).max(1) / single(127), single(2.0**-50))
    integers = np.rint(weight / column[:, None]).astype(np.int64)
    largest = abs(rows).max(1, keepdims=True)
    scale = np.maximum(largest * (single(1) / single(127)), single(2.0**-70))
    scale = torch.tensor(scale).bfloat16().float().numpy()
    steps = np.rint(rows / scale + single(128)).astype(np.int64) - 128
    assert abs(steps).max(initial=0) <= 127
    out = (steps @ integers.T).astype(single) * column * scale
    return out if linear.bias is None else out + linear.bias.detach().numpy()


def drawn(rows: int, inputs: int, seed: int) -> Tensor:
    """Rows of very different sizes, with zeros and with halves of a step among them."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=draw)
    x[:, ::3] = (x[:, ::3] * 64).round() / 256
    x *= 2.0 ** torch.randint(-70, 90, (rows, 1), generator=draw)
    x[torch.rand(rows, generator=draw) < 0.1] = 0
    return x


def layer(inputs: int, outputs: int, seed: int = 0, *, bias: bool = True) -> nn.Linear:
    torch.manual_seed(seed)
    linear = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        linear.weight.mul_(2.0 ** torch.randint(-9, 9, (outputs, 1)))
        linear.weight[0] = 0
    return linear


def with_product(linear: nn.Linear, product: type[Product]) -> Int8Linear:
    made = Int8Linear(linear)
    made.few = made.many = product(*int8.quantised(linear.weight.detach()))
    return made


@given(st.integers(1, 40), sizes, sizes, seeds, st.booleans())
def test_int8_is_its_definition(rows, inputs, outputs, seed, bias):
    linear, x = layer(inputs, outputs, seed, bias=bias), drawn(rows, inputs, seed)
    assert np.array_equal(Int8Linear(linear)(x).numpy(), by_hand(x, linear))


@pytest.mark.parametrize("product", EXACT, ids=lambda one: one.name)
@pytest.mark.parametrize("rows", [1, 2, FEW, FEW + 1, 70])
def test_all_products_give_the_same_bits(product, rows):
    for inputs, outputs in ((512, 96), (2_048, 33), (7, 5)):
        linear, x = layer(inputs, outputs), drawn(rows, inputs, rows)
        assert np.array_equal(with_product(linear, product)(x).numpy(), by_hand(x, linear))


@pytest.mark.parametrize("inputs", [512, 2_048, 75])
def test_sums_do_not_saturate(inputs):
    linear = nn.Linear(inputs, 6)
    nn.init.constant_(linear.weight, 0.5)
    nn.init.constant_(linear.weight[3:].detach(), -0.5)
    x = torch.full((20, inputs), 0.9999)
    x[10:] = -1 / 3
    assert np.array_equal(Int8Linear(linear)(x).numpy(), by_hand(x, linear))
    torch.testing.assert_close(Int8Linear(linear)(x), linear(x).detach(), rtol=0.01, atol=0.01)


@given(st.integers(2, 130), sizes, seeds, st.data())
def test_a_row_is_the_same_in_any_batch(rows, inputs, seed, data):
    made, x = Int8Linear(layer(inputs, 70, seed)), drawn(rows, inputs, seed)
    whole = made(x)
    first = data.draw(st.integers(0, rows - 1))
    last = data.draw(st.integers(first + 1, rows))
    assert torch.equal(made(x[first:last]), whole[first:last])
    assert torch.equal(made(x[first : first + 1]), whole[first : first + 1])


def test_a_row_is_the_same_in_batches_of_every_size():
    made = Int8Linear(layer(512, 64))
    x = torch.randn(130, 512)
    alone = torch.cat([made(x[i : i + 1]) for i in range(130)])
    for rows in range(1, 131):
        assert torch.equal(made(x[:rows]), alone[:rows])


def test_threads_that_share_the_work_change_nothing():
    made = Int8Linear(layer(64, 4_000))
    x = torch.randn(40, 64)
    alone = torch.cat([made(x[i : i + 1]) for i in range(40)])
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.equal(made(x), alone)
    finally:
        torch.set_num_threads(before)


@given(st.integers(1, 20), sizes, seeds)
def test_the_error_is_that_of_rounding(rows, inputs, seed):
    """Half a step for each weight and entry; the largest entry of a row is 127 steps."""
    linear, x = layer(inputs, 9, seed), drawn(rows, inputs, seed)
    weight, bias = linear.weight.detach().double(), linear.bias.detach().double()
    largest = x.double().abs().amax(1, keepdim=True)
    off_x = ((largest / 127).clamp_min(2.0**-70) / 2 * (1 + 2**-8)).expand_as(x)
    off_w = (weight.abs().amax(1, keepdim=True) / 127).clamp_min(2.0**-50) / 2 * 1.001
    off_w = off_w.expand_as(weight)
    wanted = x.double() @ weight.T + bias
    bound = off_x @ (weight.abs() + off_w).T + x.double().abs() @ off_w.T
    bound += 1e-5 * (wanted.abs() + bias.abs())
    assert ((Int8Linear(linear)(x) - wanted).abs() <= bound).all()


@pytest.mark.parametrize("rows", [1, 3, 30])
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_that_are_not_finite_give_nan(rows, broken, bias):
    made, x = Int8Linear(layer(64, 32, bias=bias)), torch.randn(rows, 64)
    whole = made(x)
    x[-1, 5] = broken
    assert made(x)[-1].isnan().all()
    assert torch.equal(made(x)[:-1], whole[:-1])


@pytest.mark.parametrize("rows", [1, 2, 30])
def test_zero_tiny_and_huge_rows(rows):
    linear = nn.Linear(64, 32)
    made, x = Int8Linear(linear), torch.randn(rows, 64)
    for size in (0.0, 1e-45, 1e-38, 1e-30):
        assert torch.equal(made(x * size), linear.bias.detach().expand(rows, 32))
    made.bias_F = None
    for size in (1e-12, 1e12, 1e30):
        near = made(x * size) / size
        torch.testing.assert_close(near, F.linear(x, linear.weight).detach(), atol=0.06, rtol=0)


@pytest.mark.parametrize("kind", ["int8", "fp32", BF16])
def test_any_shape_and_stride_of_input(kind):
    made = LAYERS[kind](nn.Linear(24, 10))
    x = torch.randn(24, 40)
    close = torch.testing.assert_close if kind != "int8" else _equal
    close(made(x.T), made(x.T.contiguous()))
    close(made(x.T[::3]), made(x.T[::3].contiguous()))
    close(made(x.T[:1]), made(x.T[:1].contiguous()))
    close(made(x.T.reshape(5, 8, 24)), made(x.T).reshape(5, 8, 10))
    close(made(x[:, 0]), made(x.T[:1])[0])
    assert made(x.T[:0]).shape == (0, 10)


def _equal(one: Tensor, other: Tensor) -> None:
    assert torch.equal(one, other)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 48), (16, 300), (7, 5)])
def test_float32_is_as_torch_has_it(inputs, outputs, bias):
    linear = nn.Linear(inputs, outputs, bias=bias)
    made = PackedLinear(linear)
    for rows in (1, 2, 3, 4, 7, 8, 9, 130):
        x = torch.randn(rows, inputs)
        torch.testing.assert_close(made(x), linear(x).detach())


def test_float32_needs_no_packing(monkeypatch):
    monkeypatch.setattr(packed, "can_pack", lambda _: False)
    linear, x = nn.Linear(8, 8), torch.randn(30, 8)
    assert torch.equal(PackedLinear(linear)(x), linear(x))
    assert describe_products("fp32").endswith("torch beyond")


@pytest.mark.native("bf16")
def test_bfloat16_is_near():
    linear, x = nn.Linear(64, 48), torch.randn(30, 64)
    y = HalfLinear(linear)(x)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, linear(x).detach(), atol=0.03, rtol=0.02)


@pytest.mark.parametrize("kind", [Int8Linear, PackedLinear])
def test_what_is_made_is_neither_saved_nor_copied(kind):
    made = nn.Sequential(kind(nn.Linear(3, 3)))
    with pytest.raises(TypeError, match="save the original model"):
        made.state_dict()
    for attempt in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="copy the original model"):
            attempt(made)


class Saturating(Floats):
    """As a machine without VNNI would do it: pairs of products in 16 bits."""

    name = "saturating"

    def __init__(self, weight_FD, scale_F):
        super().__init__(weight_FD, scale_F)
        self.weight_DF = F.pad(weight_FD, (0, weight_FD.shape[1] % 2)).T

    def __call__(self, steps_TD):
        bytes_TD = F.pad(int8.round_(steps_TD).int() + 128, (0, steps_TD.shape[1] % 2))
        products_TDF = bytes_TD[:, :, None] * self.weight_DF.int()
        pairs = products_TDF.unflatten(1, (-1, 2)).sum(2).clamp(-(2**15), 2**15 - 1).sum(1)
        return (pairs - 128 * self.weight_DF.int().sum(0)) * self.scale_F


class Absent(Floats):
    """As a torch would do it that lacks the operator."""

    name = "absent"

    def __init__(self, weight_FD, scale_F):
        self.packed = torch.ops.onednn.no_such_operator(weight_FD)


def test_a_product_that_is_not_exact_is_not_used(monkeypatch):
    assert is_exact(Floats)
    assert not is_exact(Saturating)
    assert not is_exact(Absent)
    monkeypatch.setattr(int8, "Fbgemm", Saturating)
    monkeypatch.setattr(int8, "OneDnn", Absent)
    assert int8.products.__wrapped__() == (Floats, Floats)
    monkeypatch.setattr(int8, "Floats", Absent)
    with pytest.raises(BadInput, match="no exact product of 8-bit integers"):
        int8.products.__wrapped__()


@pytest.mark.native("vnni")
def test_with_vnni_fbgemm_is_exact():
    assert is_exact(Fbgemm)
    assert int8.products.__wrapped__()[0] is Fbgemm


@pytest.mark.native("amx")
def test_with_amx_onednn_is_exact_too():
    assert is_exact(OneDnn)
    assert int8.products.__wrapped__() == (Fbgemm, OneDnn)


def test_without_vnni_sums_are_taken_in_floats(monkeypatch):
    monkeypatch.setenv("REGARD_HIDE", "avx512")
    assert not is_exact(Fbgemm)
    monkeypatch.setattr(int8, "OneDnn", Saturating)
    assert int8.products.__wrapped__() == (Floats, Floats)


@pytest.mark.parametrize("columns", [1, 1_024, 1_025, 4_096])
def test_sums_in_floats_are_those_of_integers(columns):
    weight_FD = torch.randint(-127, 128, (9, columns)).char()
    weight_FD[0], weight_FD[1] = 127, -127
    integers_TD = torch.randint(-127, 128, (5, columns)).float()
    integers_TD[0], integers_TD[1] = -127, 127
    sums_TF = integers_TD.long() @ weight_FD.T.long()
    found_TF = Floats(weight_FD, torch.ones(9))(integers_TD)
    assert torch.equal(found_TF, sums_TF.float())


def test_without_amx_onednn_is_not_used(monkeypatch):
    """Its product is a plain loop there: 64 rows by 512 x 512 took 760 ms instead of 0.6."""
    monkeypatch.setenv("REGARD_HIDE", "bf16")
    assert OneDnn not in int8.products.__wrapped__()


def test_the_choice_is_reported(monkeypatch):
    assert describe_products("int8").startswith("int8: ")
    assert describe_products("fp32").startswith("fp32: torch up to 8 rows")
    with pytest.raises(BadInput, match="int8, fp32, bf16 or auto, not 'int4'"):
        describe_products("int4")
    monkeypatch.setattr(packed, "can_pack", lambda _: False)
    with pytest.raises(BadInput, match="no fast products in bf16"):
        describe_products("bf16")


def test_an_engine_is_for_the_cpu():
    with pytest.raises(BadInput, match="the model is on meta"):
        convert(nn.Linear(3, 3, device="meta"), "int8")


def test_a_layer_in_two_places_stays_one_and_a_lone_layer_is_swapped():
    shared = nn.Linear(3, 3)
    made: Any = convert(nn.ModuleList([shared, nn.ModuleList([shared])]), "int8")
    assert isinstance(made[0], Int8Linear)
    assert made[0] is made[1][0]
    assert isinstance(convert(shared, "fp32"), PackedLinear)


FACTS = change(BASE, width=32, heads=2, inner=64, depth=2, vocab=90)


@pytest.mark.parametrize(
    ("kind", "near"), [("int8", 0.05), ("fp32", 1e-5), pytest.param("bf16", 0.05, marks=BF16.marks)]
)
@torch.inference_mode()
def test_a_whole_transformer(kind, near):
    model = FACTS.build().eval()
    made: Any = convert(model, kind)
    assert not any(isinstance(one, nn.Linear) for one in made.modules())
    assert isinstance(model.head, nn.Linear)
    assert made.target.embed.token.weight is model.source.embed.token.weight
    assert not made.training
    source, target = (pack([[5, 6, 7] * n, [8] * n, [9]]) for n in (4, 3))
    wanted, found, again = (
        one(SourceTarget(source, target)).by_head["next_token"] for one in (model, made, model)
    )
    assert (found - wanted).norm() / wanted.norm() < near
    assert torch.equal(again, wanted)


@pytest.mark.parametrize("search", [Greedy(), Beam(4)], ids=str)
def test_translations_in_8_bits_do_not_depend_on_the_batch(small_run, search):
    """But for floats between two values of 8 bits: these are few, and one changes a score little.

    Sums of floats end in other bits in another batch, and then such a float is rounded to the other
    side.
    """
    translator = regard.load(small_run / "run" / "model", "cpu").translator
    made = translator.with_module(convert(translator.module, "int8"))
    texts = (small_run / "train.src").read_text().splitlines()[:20]
    found = [made.with_limits(rows).translate(texts, search) for rows in (1, 7, 20)]
    full = translator.translate(texts, search)
    pairs = [
        (one.score, other.score)
        for (one, *_), (other, *_) in zip(full, found[0], strict=True)
        if one.text == other.text
    ]
    assert len(pairs) > 0.8 * len(texts)
    of_rounding = max(abs(one - other) for one, other in pairs)
    differences = []
    for others in found[1:]:
        for (one, *_), (other, *_) in zip(found[0], others, strict=True):
            assert one.text == other.text
            differences.append(abs(one.score - other.score))
    assert sum(difference > 1e-4 for difference in differences) <= len(differences) / 10
    assert max(differences) < of_rounding / 2
