"""The probe takes the faster precision of a real step, and says so."""

import time

import pytest
import torch

from regard.training.precision import choose

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("fp32", "bf16", "chosen"),
    [(0.004, 0.001, "bf16"), (0.001, 0.004, "fp32"), (0.01, 0.0098, "fp32")],
)
def test_the_clearly_faster_one_is_chosen(fp32, bf16, chosen):
    seconds = {"fp32": fp32, "bf16": bf16}
    found = choose("auto", CPU, lambda precision: time.sleep(seconds[precision.kind]))
    assert found.kind == chosen
    assert "probed: fp32" in found.why


def test_what_is_asked_is_not_probed():
    def never(precision):
        raise AssertionError

    assert choose("bf16", CPU, never).kind == "bf16"


def test_only_matrix_products_change():
    found = choose("bf16", CPU, lambda _: None)
    with found.context(CPU):
        product = torch.randn(2, 3) @ torch.randn(3, 2)
    assert product.dtype == torch.bfloat16
    with choose("fp32", CPU, lambda _: None).context(CPU):
        assert (torch.randn(2, 3) @ torch.randn(3, 2)).dtype == torch.float32
