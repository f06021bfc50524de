"""No padding: the rows that enter every matrix product are real tokens, or on CUDA the budget."""

import pytest
import torch
from torch.ops import aten
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.batch import BatchLimits, PackedTokens, SourceTarget, pack
from regard.layers.kernels.bucketed import CALL
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.facts import change
from regard.models.papers.transformer import BASE

DEPTH, WIDTH, INNER, VOCAB = 2, 16, 24, 12
FACTS = change(BASE, width=WIDTH, heads=2, inner=INNER, depth=DEPTH, vocab=VOCAB)
SOURCE_LENGTHS, TARGET_LENGTHS = [19, 1, 11, 0, 3, 7], [2, 13, 23, 1, 1, 3]
# Every product of one forward pass: (rows, in, out) by what feeds them.
OF_SOURCE = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, INNER), (INNER, WIDTH)]  # an encoder layer
FOR_CROSS = [(WIDTH, 2 * WIDTH)]  # a decoder layer's keys and values
OF_TARGET = [*OF_SOURCE, (WIDTH, WIDTH), (WIDTH, WIDTH)]  # the rest of a decoder layer


class Products(TorchDispatchMode):
    """Notes the sizes (m, k, n) of matrix products, and the pairs torch's attention computes."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, ...]] = []
        self.attention_pairs: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (aten.mm.default, aten.addmm.default):
            one, other = args[-2:]
            self.sizes.append((*one.shape, other.shape[1]))
        if func is aten.bmm.default and all(one.numel() for one in args):
            raise AssertionError("a product over padded rows")
        if "scaled_dot_product" in str(func) and "backward" not in str(func):
            q, k = args[:2]
            self.attention_pairs.append(q.shape[0] * q.shape[2] * k.shape[2])
        return func(*args, **kwargs or {})


def batch(limits: BatchLimits | None = None) -> tuple[PackedTokens, PackedTokens]:
    source, target = (
        pack([[1] * length for length in lengths], limits)
        for lengths in (SOURCE_LENGTHS, TARGET_LENGTHS)
    )
    return source, target


def forward(
    model: EncoderDecoderModule, source: PackedTokens, target: PackedTokens
) -> torch.Tensor:
    return model(SourceTarget(source, target)).by_head["next_token"]


def expected(source: int, target: int) -> list[tuple[int, ...]]:
    """The products of a forward pass over so many tokens on either side."""
    of_source = DEPTH * [*OF_SOURCE, *FOR_CROSS]
    of_target = [*DEPTH * OF_TARGET, (WIDTH, VOCAB)]
    sizes = [(source, *size) for size in of_source] + [(target, *size) for size in of_target]
    return sorted(sizes)


def test_on_a_cpu_only_real_tokens_are_multiplied():
    source, target = sum(SOURCE_LENGTHS), sum(TARGET_LENGTHS)
    model = FACTS.build()
    with Products() as products:
        out = forward(model, *batch())
    assert sorted(products.sizes) == expected(source, target)
    with Products() as products:
        out.sum().backward()
    assert len(products.sizes) == 2 * len(expected(source, target))
    for rows, inner, _ in products.sizes:  # either the tokens' rows, or a sum over tokens
        assert {rows, inner} & {source, target}


@torch.no_grad()
def test_attention_is_never_padded_to_the_longest_row():
    model = FACTS.build().eval()
    sentences = [60, 60, 59, 30, 5, 5, 1, 1, 1, 1]
    packed = pack([[1] * length for length in sentences])
    with Products() as products:
        model.encode(packed)
    pairs = sum(products.attention_pairs) / DEPTH
    calls = len(products.attention_pairs) / DEPTH
    real = sum(length**2 for length in sentences)
    assert real <= pairs <= real + calls * CALL < len(sentences) * max(sentences) ** 2 / 2


@pytest.mark.gpu
def test_on_cuda_the_budget_is_multiplied():
    limits = BatchLimits(tokens=96, rows=6, longest=32)
    model = FACTS.build().cuda().bfloat16()
    source, target = (side.to("cuda") for side in batch(limits))
    with Products() as products:
        out = forward(model, source, target)
    assert sorted(products.sizes) == expected(limits.tokens, limits.tokens)
    with Products() as products:
        out.float().sum().backward()
    assert all(limits.tokens in (rows, inner) for rows, inner, _ in products.sizes)
