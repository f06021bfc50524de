"""Batch norm of rows: that of torch over the rows that have tokens, and no others."""

import torch
from torch import nn

from regard.core.layout import Layout
from regard.layers.batch_norm import RowBatchNorm

LENGTHS = [3, 0, 1, 2, 0, 4]
REAL = [0, 2, 3, 5]


def both(width=5):
    torch.manual_seed(1)
    ours, theirs = RowBatchNorm(width), nn.BatchNorm1d(width)
    for one in (ours, theirs):
        nn.init.constant_(one.weight, 1.5)
        nn.init.constant_(one.bias, 0.3)
    return ours, theirs


def test_it_is_that_of_torch_over_rows_with_tokens():
    ours, theirs = both()
    layout = Layout.ragged(LENGTHS)
    for _ in range(3):
        x_BD = torch.randn(len(LENGTHS), 5, requires_grad=True)
        expected, found = theirs(x_BD[REAL]), ours(x_BD, layout)[REAL]
        torch.testing.assert_close(found, expected)
        weights_BD = torch.randn(len(REAL), 5)
        gradients = [
            torch.autograd.grad((y * weights_BD).sum(), x_BD)[0] for y in (found, expected)
        ]
        torch.testing.assert_close(*gradients)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    x_BD = torch.randn(len(LENGTHS), 5)
    torch.testing.assert_close(ours.eval()(x_BD, layout), theirs.eval()(x_BD))


def test_frozen_it_has_the_running_means_and_leaves_them():
    ours, _ = both()
    x_BD, layout = torch.randn(3, 5), Layout.ragged([1, 1, 1])
    expected = ours.eval()(x_BD, layout)
    ours.train().requires_grad_(False)
    torch.testing.assert_close(ours(x_BD, layout), expected)
    assert not ours.running_mean.any() and (ours.running_var == 1).all()


def test_one_row_and_half_precision():
    ours, _ = both()
    x_BD = torch.randn(1, 5)
    assert torch.equal(ours(x_BD, Layout.ragged([2])), ours.bias.expand(1, 5))
    halved = ours.eval().bfloat16()(x_BD.bfloat16(), Layout.ragged([2]))
    assert halved.dtype == torch.bfloat16 and halved.isfinite().all()
