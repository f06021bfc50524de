"""A convolution over packed tokens is torch's over each row alone."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings

from naive import LENGTHS
from regard.core.batch import BatchLimits, pack
from regard.core.layout import Layout
from regard.models.conv import ConvEncoderFacts, Convolution

WIDTH = 4


def one_row(part: Convolution, x_LD: torch.Tensor, size: int) -> torch.Tensor:
    weight = part.linear.weight.view(2 * WIDTH, size, WIDTH).transpose(1, 2)
    out = F.conv1d(x_LD.T[None], weight, part.linear.bias, padding=size // 2)[0].T
    return (x_LD + F.glu(out, dim=-1)) * math.sqrt(0.5)


@pytest.mark.parametrize("size", [1, 3, 5])
@settings(max_examples=15)
@given(lengths=LENGTHS)
def test_rows_do_not_mix(size, lengths):
    part, layout = (
        Convolution(ConvEncoderFacts(WIDTH, 1, size, dropout=0.0)),
        Layout.ragged(lengths),
    )
    x_TD = torch.randn(layout.tokens, WIDTH)
    found = layout.split(part(x_TD, layout))
    for row, x_LD in zip(found, layout.split(x_TD), strict=True):
        wanted = one_row(part, x_LD, size) if len(x_LD) else x_LD
        torch.testing.assert_close(row, wanted, rtol=1e-4, atol=1e-5)


def test_fixed_shapes_and_dead_places_mean_the_same():
    part, rows = Convolution(ConvEncoderFacts(WIDTH, 1, 3, dropout=0.0)), [[1, 2, 3], [4], [5, 6]]
    table = torch.randn(9, WIDTH)
    free, fixed = pack(rows), pack(rows, BatchLimits(tokens=16, rows=4, longest=5))
    wanted = part(table[free.tokens_T], free.layout)
    found = part(table[fixed.tokens_T], fixed.layout)
    torch.testing.assert_close(found[: len(wanted)], wanted)
    dead = Layout.rectangle(3, 3, lengths_B=torch.tensor([3, 1, 2]))
    x_TD = table[free.layout.pad(free.tokens_T).flatten()]
    for row, other in zip(dead.split(part(x_TD, dead)), free.layout.split(wanted), strict=True):
        torch.testing.assert_close(row, other)
