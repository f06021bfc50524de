"""The probe takes the faster precision of a real step, says so, and leaves nothing behind."""

import warnings

import pytest
import torch

from regard.ground.errors import BadInput
from regard.training import precision as precisions
from regard.training.precision import Precision, checked_precision, choose

CPU = torch.device("cpu")


@pytest.fixture
def bf16(monkeypatch):
    """A machine that says it has bf16."""
    monkeypatch.setattr(precisions, "has_bf16", lambda device: True)


class Step:
    """A step that takes as long as told, by a clock of its own; it counts what was run."""

    def __init__(self, monkeypatch, **seconds):
        self.seconds, self.now, self.ran = seconds, 0.0, []
        monkeypatch.setattr(precisions, "perf_counter", lambda: self.now)

    def __call__(self, precision):
        self.ran.append(precision.kind)
        self.now += self.seconds[precision.kind]


def never(precision):
    raise AssertionError("a step was run")


@pytest.mark.parametrize(
    ("fp32", "bf16_takes", "chosen"),
    [(0.004, 0.001, "bf16"), (0.001, 0.004, "fp32"), (0.01, 0.0098, "fp32")],
)
def test_the_clearly_faster_one_is_chosen(bf16, monkeypatch, fp32, bf16_takes, chosen):
    found = choose("auto", CPU, Step(monkeypatch, fp32=fp32, bf16=bf16_takes))
    assert found.kind == chosen
    assert "probed: fp32" in found.why


@pytest.mark.parametrize(("fp32", "bf16_takes", "rounds"), [(1.3, 82.6, 1), (5.0, 1.0, 2)])
def test_few_rounds_are_enough_when_the_order_is_clear(bf16, monkeypatch, fp32, bf16_takes, rounds):
    step = Step(monkeypatch, fp32=fp32, bf16=bf16_takes)
    assert choose("auto", CPU, step).kind == ("fp32" if fp32 < bf16_takes else "bf16")
    assert step.ran == ["fp32", "bf16"] * rounds


def test_a_slow_first_step_does_not_decide(bf16, monkeypatch):
    class Starting(Step):
        """The first step also starts workers."""

        def __call__(self, precision):
            self.now += 0 if self.ran else 60
            super().__call__(precision)

    assert choose("auto", CPU, Starting(monkeypatch, fp32=1.0, bf16=2.0)).kind == "fp32"


def test_when_it_is_not_clear_there_are_several_rounds(bf16, monkeypatch):
    step = Step(monkeypatch, fp32=1.0, bf16=0.7)
    assert choose("auto", CPU, step).kind == "bf16"
    assert step.ran == ["fp32", "bf16"] * precisions.ROUNDS


@pytest.mark.parametrize(("fp32", "rounds"), [(7.0, 0.5), (1.5, 2)])
def test_the_probe_takes_a_part_of_the_budget(bf16, monkeypatch, fp32, rounds):
    step = Step(monkeypatch, fp32=fp32, bf16=0.9 * fp32)
    found = choose("auto", CPU, step, budget_seconds=60)
    assert found.kind == "fp32" and step.now <= max(60 * precisions.PART, fp32)
    assert step.ran == (["fp32", "bf16"] * 2)[: int(2 * rounds)]
    assert rounds >= 1 or "no time to try bf16" in found.why


def test_without_bf16_support_it_is_not_tried(monkeypatch):
    monkeypatch.setattr(precisions, "has_bf16", lambda device: False)
    found = choose("auto", CPU, never)
    assert (found.kind, found.why) == ("fp32", "the CPU has no bf16")


def test_bf16_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(precisions, "has_bf16", lambda device: False)
    checked = lambda: checked_precision("bf16", CPU, "as asked")  # noqa: E731
    for refused in (lambda: choose("bf16", CPU, never), checked):
        with pytest.raises(BadInput, match=r"bf16 \(as asked\): the CPU has no .*precision=fp32"):
            refused()
    assert choose("fp32", CPU, never).kind == "fp32"


def test_the_probe_is_silent_and_leaves_no_trace(bf16):
    """What torch does where a product in bf16 fails: it warns, and gives oneDNN up for good."""

    def fails(precision):
        torch.rand(3)
        if precision.kind == "bf16":
            warnings.warn("mkldnn_matmul failed, switching to BLAS gemm", stacklevel=1)
            torch.backends.mkldnn.enabled = False

    before, draws = torch.backends.mkldnn.enabled, torch.get_rng_state()
    try:
        found = choose("auto", CPU, fails)  # pytest makes an error of every warning
        assert torch.backends.mkldnn.enabled == before
    finally:
        torch.backends.mkldnn.enabled = before
    assert torch.equal(torch.get_rng_state(), draws)
    assert found.kind == "fp32" and "bf16 fails here" in found.why


def test_a_step_that_fails_in_bf16_runs_in_fp32(bf16):
    def fails(precision):
        if precision.kind == "bf16":
            raise RuntimeError("could not create a primitive")

    assert choose("auto", CPU, fails).kind == "fp32"

    def broken(precision):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        choose("auto", CPU, broken)


def test_a_given_precision_is_not_probed(bf16):
    assert choose("bf16", CPU, never).kind == "bf16"


@pytest.mark.native("bf16")
def test_only_matrix_products_change():
    found = choose("bf16", CPU, never)
    with found.context(CPU):
        product = torch.randn(2, 3) @ torch.randn(3, 2)
    assert product.dtype == torch.bfloat16
    with choose("fp32", CPU, never).context(CPU):
        assert (torch.randn(2, 3) @ torch.randn(3, 2)).dtype == torch.float32


@pytest.mark.parametrize("kind", ["fp32", "bf16"])
def test_products_in_tf32_beside_bf16_alone(kind):
    matmul = torch.backends.cuda.matmul
    assert not matmul.allow_tf32
    with pytest.raises(RuntimeError), Precision(kind, "as asked").tf32_beside_bf16():
        assert matmul.allow_tf32 is (kind == "bf16")
        raise RuntimeError
    assert not matmul.allow_tf32


def test_what_was_allowed_stays_so():
    matmul = torch.backends.cuda.matmul
    with Precision("bf16", "as asked").tf32_beside_bf16():
        with Precision("fp32", "as asked").tf32_beside_bf16():
            assert matmul.allow_tf32
        assert matmul.allow_tf32
