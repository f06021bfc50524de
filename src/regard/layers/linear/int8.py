"""Linear layers in 8 bits: y = s c (q · w) + b; the result of a row does not depend on its batch.

Each column of weights has a scale c, and each row of activations a scale s: its largest entry is
127 s. The scale of a row is rounded to bfloat16, so that the last bit of an entry, which may depend
on the batch in attention, does not change them all. Sums of integers are exact, and all products
multiply them by c, then by s, then add b.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import frexp, isfinite, ldexp, nan

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.machine import has, instruction_set
from regard.layers.linear.packed import ABSENT, InferenceLinear

ZERO = 128  # the byte of the integer 0
LARGEST = 127  # integer of weights and activations
FEW = 16  # rows up to which fbgemm is faster than oneDNN, in most shapes of a Transformer
EXACT = 1_024  # columns whose products, at most 127 · 127 each, add up to less than 2^24
LEAST = 2.0**-70  # scale of a row; smaller rows lose entries
LEAST_COLUMN = 2.0**-50
BF16 = 8  # bits of a mantissa of bfloat16
# Instruction sets on which these products are faster than torch's in fp32, also for encoders:
# BERT-base read 3,626 tokens a second in int8 and 1,290 in fp32 with amx (two cores of a Xeon,
# 2026-11-15, by bench/encoder_cpu.py). Without VNNI they are products of floats, or slow: Neoverse
# N1 gave 102 tokens a second in int8 and 356 in fp32.
FAST = ("amx", "avx512-vnni")

single = np.float32


def scales(x_TD: Tensor) -> Tensor:
    """Scale of each row: its largest entry / 127; NaN if one of them is not finite."""
    scale_T1 = x_TD.abs().amax(-1, keepdim=True).mul_(1 / LARGEST).clamp_min_(LEAST)
    return scale_T1.nan_to_num_(nan, nan).bfloat16().float()


def row_scale(x_1D: Tensor) -> Tensor:
    """Scale of a single row, computed from a number: less work than with tensors."""
    largest = x_1D.abs().max().item()
    if not isfinite(largest):
        return torch.scalar_tensor(nan)
    mantissa, exponent = frexp(max(float(single(largest) * single(1 / LARGEST)), LEAST))
    return torch.scalar_tensor(ldexp(round(ldexp(mantissa, BF16)), exponent - BF16))


def round_(steps_TD: Tensor) -> Tensor:
    """Round entries, in steps of the scale, half to even after adding 128, as fbgemm does."""
    return steps_TD.add_(ZERO).round_().sub_(ZERO)


class Product(ABC):
    """Matrix product with packed weights, exact for integers (checked by ``is_exact``)."""

    name: str
    needs: str | None = None  # instructions without which it is not exact, or slow

    @abstractmethod
    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        """Pack int8 weights, with the scale of each column of the result."""

    @abstractmethod
    def __call__(self, steps_TD: Tensor) -> Tensor:
        """Sums of integers, rounded from entries in steps, times the scales of columns.

        The entries may be overwritten.
        """


class Fbgemm(Product):
    """Product with the least overhead, which rounds entries itself. Exact with VNNI."""

    name = "fbgemm"
    needs = "vnni"

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        zeros_F = torch.zeros(len(scale_F), dtype=torch.long)
        with _fbgemm_packs():
            make = torch._make_per_channel_quantized_tensor
            columns = make(weight_FD, scale_F.double(), zeros_F, 0)
            self.packed = torch.ops.quantized.linear_prepack(columns, None)
        self.multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32

    def __call__(self, steps_TD: Tensor) -> Tensor:
        return self.multiply(steps_TD, 1.0, ZERO, self.packed)


class OneDnn(Product):
    """Product that is fastest with many rows, by AMX; a thousand times slower without AMX."""

    name = "oneDNN"
    needs = "amx"

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        rows = 2 * FEW  # the packing suits other numbers of rows too
        self.packed = torch.ops.onednn.qlinear_prepack(weight_FD, [rows, weight_FD.shape[1]])
        self.scale_F, self.zeros_F = scale_F, torch.zeros(len(scale_F), dtype=torch.int32)
        self.multiply = torch.ops.onednn.qlinear_pointwise.default

    def __call__(self, steps_TD: Tensor) -> Tensor:
        weights = (self.packed, self.scale_F, self.zeros_F)
        after: tuple = ("none", [], "")
        rows_TD = round_(steps_TD).char()
        return self.multiply(rows_TD, 1.0, 0, *weights, None, 1.0, 0, torch.float32, *after)


class Floats(Product):
    """Product for any machine: integers as float32, whose sums are exact over ``EXACT`` columns."""

    name = "torch, as floats"

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        self.weights = [part_FD.float() for part_FD in weight_FD.split(EXACT, 1)]
        self.scale_F = scale_F

    def __call__(self, steps_TD: Tensor) -> Tensor:
        parts = round_(steps_TD).split(EXACT, 1)
        total_TF, *products = map(F.linear, parts, self.weights)
        for product_TF in products:
            total_TF = total_TF.int() + product_TF.int()
        return total_TF.float() * self.scale_F


class Int8Linear(InferenceLinear):
    """``nn.Linear`` with 8-bit weights and activations; for inference only."""

    def __init__(self, linear: nn.Linear):
        super().__init__(linear)
        few, many = products()
        weights = quantised(linear.weight.detach())
        self.few = few(*weights)
        self.many = self.few if few is many else many(*weights)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 2:
            return self(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features)
        product = self.few if len(x) <= FEW else self.many
        scale = row_scale(x) if len(x) == 1 else scales(x)
        y = product(x / scale).mul_(scale)
        return y if self.bias_F is None else y.add_(self.bias_F)


def is_fast() -> bool:
    """Whether these products are faster than those in fp32 on this machine."""
    return instruction_set() in FAST


def quantised(weight_FD: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise weights to int8, with the scale of each column of the result."""
    scale_F = (weight_FD.abs().amax(1) / 127).clamp_min_(LEAST_COLUMN)
    return (weight_FD / scale_F[:, None]).round_().char(), scale_F


@lru_cache
def products() -> tuple[type[Product], type[Product]]:
    """Product classes for few rows and for many, among those that are exact on this machine."""
    exact = [product for product in (Fbgemm, OneDnn, Floats) if is_exact(product)]
    if not exact:
        raise BadInput("int8: this torch on this machine has no exact product of 8-bit integers")
    return exact[0], OneDnn if OneDnn in exact else exact[0]


def is_exact(product: type[Product]) -> bool:
    """Whether an int8 product runs on this machine and is exact even for extreme values.

    Without VNNI, instructions add two products in 16 bits, which overflow: 2 · 255 · 127 > 32,767.
    """
    if product.needs is not None and not has(product.needs):
        return False
    draw = torch.Generator().manual_seed(0)
    D = 1_043  # sums beyond 24 bits, and no round number
    weight_FD = torch.randint(-127, 128, (24, D), generator=draw).char()
    weight_FD[:8], weight_FD[8:16] = 127, -127
    scale_F = torch.rand(24, generator=draw)
    halves = torch.arange(-253, 254, 2) / 2
    steps_TD = (torch.rand(FEW + 1, D, generator=draw) * 2 - 1) * LARGEST
    steps_TD[0], steps_TD[1] = LARGEST, -LARGEST
    steps_TD[2, : len(halves)] = halves
    steps_TD[3, : len(halves)] = halves.nextafter(torch.tensor(128.0))
    sums_TF = round_(steps_TD.clone()).long() @ weight_FD.T.long()
    expected_TF = sums_TF.float() * scale_F
    try:
        multiply = product(weight_FD, scale_F)
        alone_TF = torch.cat([multiply(row_D[None].clone()) for row_D in steps_TD])
        return all(torch.equal(y, expected_TF) for y in (alone_TF, multiply(steps_TD)))
    except ABSENT:
        return False


@contextmanager
def _fbgemm_packs() -> Iterator[None]:
    """Pack weights for fbgemm, without torch's deprecation warnings of quantised tensors."""
    before = torch.backends.quantized.engine
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.backends.quantized.engine = "fbgemm"
        try:
            yield
        finally:
            torch.backends.quantized.engine = before
