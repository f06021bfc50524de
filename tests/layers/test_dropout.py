"""Dropout on a CPU: the rate, an unbiased mean, new masks at each call, the same for one seed."""

import pytest
import torch

from regard.layers.dropout import GRAINS, Dropout, draw_mask


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_dropped_share_is_the_rate_and_the_mean_stays(rate):
    torch.manual_seed(1)
    x = torch.ones(1000, 997)
    y = Dropout(rate)(x)
    assert abs(float((y == 0).float().mean()) - rate) < 0.003
    assert abs(float(y.mean()) - 1) < 0.01
    assert len(y.unique()) == 2


def test_neighbours_are_independent():
    torch.manual_seed(1)
    kept = draw_mask(torch.empty(400_000), GRAINS // 2)
    for distance in (1, 2, 3, 4, 8):  # the four of one draw, and those of the next
        together = (kept[:-distance] & kept[distance:]).float().mean()
        assert abs(float(together) - 0.25) < 0.005


def test_the_seed_decides():
    layer, x = Dropout(0.3), torch.ones(5, 7)
    torch.manual_seed(3)
    one, another = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), one) and not torch.equal(one, another)


def test_gradients_are_dropped_alike():
    x = torch.ones(11, 3, requires_grad=True)
    y = Dropout(0.5)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_half_precision_has_no_bias():
    torch.manual_seed(1)
    x = torch.randn(1000, 2000).bfloat16()
    y = Dropout(0.1)(x)
    share = (y.double() * x.double()).sum() / (x.double() ** 2).sum()
    assert abs(float(share) - 1) < 8e-4  # 1 / 0.9 itself, in that precision, is 1.6e-3 too small


def test_nothing_is_dropped_in_inference_or_at_rate_0():
    x = torch.randn(4, 4)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert Dropout(0.2)(torch.ones(0, 4)).shape == (0, 4)


def test_all_may_be_dropped():
    assert not Dropout(1.0)(torch.ones(3, 3)).any()
    assert (Dropout(0.999999)(torch.ones(300, 300)) > 0).sum() < 10


def test_half_precision_stays_half():
    assert Dropout(0.2)(torch.ones(3, 5, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own, as is:
@pytest.mark.filterwarnings("ignore::UserWarning:torch._inductor")
def test_compiled_on_cuda():
    x = torch.ones(1000, 1000, device="cuda", requires_grad=True)
    layer = torch.compile(Dropout(0.3))
    one, another = layer(x), layer(x)
    one.sum().backward()
    assert torch.equal(x.grad, one) and not torch.equal(one, another)
    kept = one > 0
    assert abs(float(kept.float().mean()) - 0.7) < 0.003
    together = (kept[:, :-1] & kept[:, 1:]).float().mean()
    assert abs(float(together) - 0.49) < 0.005
