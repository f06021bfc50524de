"""Linear layers in 8 bits: y = 2^e c (q · w) + b; the result of a row does not depend on its batch.

Each column of weights has a scale c. Each row of activations has a power of two: multiplying by it
is exact, before or after the product, and so are sums of integers.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import frexp, ldexp

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.errors import BadInput
from regard.ground.machine import has, instruction_set
from regard.parts.linear.packed import ABSENT, InferenceLinear

ZERO = 128  # the byte of the integer 0
STEPS = 128  # of a row from 0 to its power of two
FEW = 16  # rows up to which fbgemm is faster than oneDNN, in most shapes of a Transformer
EXACT = 1_024  # columns whose products, at most 128 · 127 each, add up to less than 2^24
# Within these bounds no intermediate float leaves its normal range. Other rows take the slow path.
LEAST, MOST = 2.0**-64, 2.0**64
LEAST_COLUMN = 2.0**-50
# Instruction sets on which these products are faster than torch's in fp32, also for encoders:
# BERT-base read 3,626 tokens a second in int8 and 1,290 in fp32 with amx (two cores of a Xeon,
# 2026-11-15, by bench/encoder_cpu.py). Without VNNI they are products of floats, or slow: Neoverse
# N1 gave 102 tokens a second in int8 and 356 in fp32.
FAST = ("amx", "avx512-vnni")


def powers(x_TD: Tensor) -> Tensor:
    """Smallest power of two above the entries of each row; NaN if one of them is not finite."""
    largest_T1 = x_TD.abs().amax(-1, keepdim=True).clamp_min_(LEAST)
    return largest_T1 / torch.frexp(largest_T1).mantissa


def integers(x_TD: Tensor, powers_T1: Tensor) -> Tensor:
    """Quantise rows to int8, rounded half to even after adding 128, as unsigned bytes are."""
    steps_T1 = powers_T1.reciprocal().mul_(STEPS)
    bytes_TD = torch.addcmul(_zeros(x_TD.shape[1]), x_TD, steps_T1).round_()
    return bytes_TD.sub_(ZERO).clamp_max_(127).char()


@lru_cache
def _zeros(width: int) -> Tensor:
    return torch.full((width,), float(ZERO))


class Product(ABC):
    """Matrix product with packed weights, exact for integers (checked by ``is_exact``)."""

    name: str
    needs: str | None = None  # instructions without which it is not exact, or slow
    has_one_row: bool = False  # ``one_row`` is faster for a single row

    @abstractmethod
    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        """Pack int8 weights, with the scale of each column of the result."""

    @abstractmethod
    def __call__(self, x_TD: Tensor, powers_T1: Tensor) -> Tensor:
        """Sums of integers times scale_F / STEPS, in float32, without the powers of rows."""

    def one_row(self, x_1D: Tensor, exponent: int) -> Tensor:
        """Product of a single row, with its power."""
        raise NotImplementedError


class Fbgemm(Product):
    """Product with the least overhead: it quantises activations itself. Exact with VNNI."""

    name = "fbgemm"
    needs = "vnni"
    has_one_row = True

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        zeros_F = torch.zeros(len(scale_F), dtype=torch.long)
        with _fbgemm_packs():
            make = torch._make_per_channel_quantized_tensor
            columns = make(weight_FD, scale_F.double(), zeros_F, 0)
            self.packed = torch.ops.quantized.linear_prepack(columns, None)
        self.multiply = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32

    def __call__(self, x_TD: Tensor, powers_T1: Tensor) -> Tensor:
        return self.multiply(x_TD / powers_T1, 1 / STEPS, ZERO, self.packed)

    def one_row(self, x_1D: Tensor, exponent: int) -> Tensor:
        return self.multiply(x_1D, ldexp(1 / STEPS, exponent), ZERO, self.packed)


class OneDnn(Product):
    """Product that is fastest with many rows, by AMX; a thousand times slower without AMX."""

    name = "oneDNN"
    needs = "amx"

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        rows = 2 * FEW  # the packing suits other numbers of rows too
        self.packed = torch.ops.onednn.qlinear_prepack(weight_FD, [rows, weight_FD.shape[1]])
        self.scale_F, self.zeros_F = scale_F, torch.zeros(len(scale_F), dtype=torch.int32)
        self.multiply = torch.ops.onednn.qlinear_pointwise.default

    def __call__(self, x_TD: Tensor, powers_T1: Tensor) -> Tensor:
        rows_TD = integers(x_TD, powers_T1)
        weights = (self.packed, self.scale_F, self.zeros_F)
        after: tuple = ("none", [], "")
        return self.multiply(rows_TD, 1 / STEPS, 0, *weights, None, 1.0, 0, torch.float32, *after)


class Floats(Product):
    """Product for any machine: integers as float32, whose sums are exact over ``EXACT`` columns."""

    name = "torch, as floats"

    def __init__(self, weight_FD: Tensor, scale_F: Tensor):
        self.weights = [part_FD.float() for part_FD in weight_FD.split(EXACT, 1)]
        self.scale_F = scale_F / STEPS

    def __call__(self, x_TD: Tensor, powers_T1: Tensor) -> Tensor:
        parts = integers(x_TD, powers_T1).float().split(EXACT, 1)
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
        if len(x) == 1 and self.few.has_one_row:
            largest = x.abs().max().item()
            if LEAST <= largest <= MOST:
                _, exponent = frexp(largest)
                y = self.few.one_row(x, exponent)
                return y if self.bias_F is None else y.add_(self.bias_F)
        powers_T1 = powers(x)
        y = (self.few if len(x) <= FEW else self.many)(x, powers_T1)
        if self.bias_F is None:
            return y.mul_(powers_T1)
        return torch.addcmul(self.bias_F, y, powers_T1, out=y)


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
    halves = torch.arange(-255, 256, 2) / (2 * STEPS)
    x_TD = torch.rand(FEW + 1, D, generator=draw) * 2 - 1
    x_TD[0], x_TD[1] = 1 - 2**-7, -1
    x_TD[2, : len(halves)] = halves
    x_TD[3, : len(halves)] = halves.nextafter(torch.tensor(1.0))
    powers_T1 = torch.ones(len(x_TD), 1)
    sums_TF = integers(x_TD, powers_T1).long() @ weight_FD.T.long()
    expected_TF = sums_TF.float() * (scale_F / STEPS)
    try:
        multiply = product(weight_FD, scale_F)
        alone_TF = torch.cat([multiply(x_TD[i : i + 1], powers_T1[:1]) for i in range(len(x_TD))])
        return all(torch.equal(y, expected_TF) for y in (alone_TF, multiply(x_TD, powers_T1)))
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
