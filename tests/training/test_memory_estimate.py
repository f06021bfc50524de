"""Weights, gradients and moments of the estimate are those of torch, to the byte."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from regard.core.device import uninitialised
from regard.core.errors import BadInput
from regard.models.facts import change
from regard.models.heads import NextTokenHead
from regard.models.papers import bert, gpt2, t5
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.sum import Sum
from regard.training.memory_estimate import (
    GIB,
    MemoryEstimate,
    StepShape,
    check_fit,
    estimate_memory,
    estimate_seconds,
)
from regard.training.parallel import check_processes, decided_sharing
from regard.training.recipe.tables import DistributedConfig, OptimiserConfig

FACTS = {
    "BERT-large": Sum(MaskedLM()).fit(bert.LARGE),
    "GPT-2 XL": gpt2.XL.with_heads(NextTokenHead()),
    "T5-3B": t5.SIZES["3b"],
}
PARAMETERS = {"BERT-large": 335_174_458, "GPT-2 XL": 1_557_611_200, "T5-3B": 2_851_598_336}
STEP = StepShape(4_096, 4_096, 32_000, 8 * 512**2)


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("ranks", [1, 64])
def test_it_counts_what_torch_allocates(name, ranks):
    with uninitialised("meta"):
        model = FACTS[name].build()
    parameters = [*model.parameters()]
    assert sum(p.numel() for p in parameters) == PARAMETERS[name]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    optimiser = torch.optim.AdamW(parameters, foreach=False)
    optimiser.step()
    moments = [
        state[key] for state in optimiser.state.values() for key in ("exp_avg", "exp_avg_sq")
    ]
    config = DistributedConfig(kind="fsdp" if ranks > 1 else "ddp")
    estimate = estimate_memory(model, STEP, config, ranks=ranks)
    assert ranks * estimate.weights == bytes_of(parameters)
    assert ranks * estimate.gradients == bytes_of([p.grad for p in parameters])
    assert ranks * estimate.moments == bytes_of(moments)


MEASURED = {(16, 256): 79.95, (8, 512): 86.11, (4, 1_024): 98.58}  # GiB of T5-3B on an H200


@pytest.mark.parametrize(("rows", "length"), MEASURED)
def test_attention_with_a_learned_bias_has_tables_of_all_pairs(rows, length):
    """T5-3B, 4,096 tokens on each side; it drops states within the feed-forward layer only.

    Cross-attention of T5 has no bias.
    """
    with uninitialised("meta"):
        model = change(FACTS["T5-3B"], dropout=0.0).build()
    plain, quarter_gib = DistributedConfig(kind="ddp"), 1 << 28
    step = replace(STEP, pairs=rows * length**2)
    estimate = estimate_memory(model, step, plain)
    without = estimate_memory(model, replace(step, pairs=0), plain)
    assert estimate.activations - without.activations == 48 * quarter_gib * length / 512
    assert estimate.total / GIB == pytest.approx(MEASURED[rows, length], rel=0.01)


def test_recomputed_blocks_keep_the_tables_of_one():
    """T5-3B, 8 rows of 512 tokens on each side, took 43.79 GiB on an H200."""
    with uninitialised("meta"):
        model = change(FACTS["T5-3B"], dropout=0.0).build()
    recomputed, quarter_gib = DistributedConfig(kind="ddp", checkpoint_blocks=True), 1 << 28
    estimate = estimate_memory(model, STEP, recomputed)
    without = estimate_memory(model, replace(STEP, pairs=0), recomputed)
    assert estimate.activations - without.activations == quarter_gib
    assert estimate.total / GIB == pytest.approx(43.79, rel=0.05)


def test_masks_of_dropout_are_counted():
    """A byte for each element: of the states after both sublayers, and within the feed-forward."""
    with uninitialised("meta"):
        still, dropping, inner = (
            change(FACTS["BERT-large"], dropout=rate, inner_dropout=inside).build()
            for rate, inside in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.1))
        )
    kept = [
        estimate_memory(model, STEP, DistributedConfig(kind="ddp")).activations
        for model in (still, dropping, inner)
    ]
    assert kept[1] - kept[0] == 24 * STEP.tokens * 2 * 1_024
    assert kept[2] - kept[0] == 24 * STEP.tokens * 4_096


def bytes_of(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def test_the_peak_is_before_or_after_the_backward_pass():
    parts = MemoryEstimate(10, 2, 10, 1, 20, activations=5, logits=1)
    assert parts.total == 10 + 20 + 10 + 1
    assert replace(parts, activations=50).total == 10 + 20 + (2 + 50 + 1) + 1


def test_what_does_not_fit_is_refused():
    gib = 1 << 30
    parts = MemoryEstimate(30 * gib, 0, 30 * gib, 0, 20 * gib, 0, 0)
    with pytest.raises(BadInput, match=r"needs about 80.0 GiB .*, 73.6 are usable; try fewer$"):
        check_fit(parts, "h100-80g", {"fewer": True, "more": False})
    check_fit(parts, "h200-141g", {})


def test_small_parts_are_shown_in_mib():
    parts = MemoryEstimate(3 << 29, 5 << 20, 0, 0, 0, 0, 0)
    assert parts.lines()[:3] == [
        *(("weights", "1.50 GiB"), ("gathered", "5.00 MiB"), ("gradients", "0.00 MiB"))
    ]


@pytest.mark.parametrize("count", [1, 4, 6, 10])
def test_copies_that_processes_cannot_divide_are_refused(count):
    config = DistributedConfig(kind="hsdp", replicas=4)
    check_processes(config, 12)
    expected = f"need 8 processes, or more in steps of 4; there are {count}: start as many"
    with pytest.raises(BadInput, match=expected):
        check_processes(config, count)


def test_auto_divides_weights_that_take_half_of_a_gpu():
    """Training and dry runs ask the same function, with the memory of their GPU."""
    model, auto = torch.nn.Linear(999, 1), DistributedConfig(reshard=False)
    half, adam = 2 * 16 * 1_000, OptimiserConfig(rate=0.1)
    kinds = {
        (count, memory): decided_sharing(auto, model, adam, count, memory).kind
        for count in (1, 2)
        for memory in (None, half, half + 1)
    }
    assert [key for key, kind in kinds.items() if kind == "fsdp"] == [(2, half)]
    assert decided_sharing(DistributedConfig(exact=True), model, adam, 2, half).kind == "ddp"


@pytest.mark.parametrize("kind", get_args(OptimiserConfig.model_fields["kind"].annotation))
def test_auto_never_divides_what_fsdp_refuses(kind):
    auto, half = DistributedConfig(), 2 * 16 * 1_000
    optimiser = OptimiserConfig(rate=0.1, kind=kind)
    chosen = decided_sharing(auto, torch.nn.Linear(999, 1), optimiser, 2, half).kind
    assert chosen == ("ddp" if kind in ("adafactor", "relative-adamw") else "fsdp")
    scaled = torch.nn.ParameterDict({"w": torch.zeros(999), "scale": torch.zeros(())})
    assert decided_sharing(auto, scaled, optimiser, 2, half).kind == "ddp"


def test_the_time_of_a_step_follows_from_the_mfu_that_it_names():
    plain, divided = DistributedConfig(kind="ddp"), DistributedConfig(kind="fsdp")
    seconds, assumed = estimate_seconds(784e12, "h200-141g", plain)
    assert seconds == pytest.approx(1 / 0.52)
    assert assumed.startswith("52% MFU of 784 TFLOP/s (as GPT-2 on one H200")
    seconds, assumed = estimate_seconds(784e12, "h200-141g", divided)
    assert seconds == pytest.approx(1 / 0.43) and "43% MFU" in assumed
    recomputed = plain.model_copy(update={"checkpoint_blocks": True})
    assert estimate_seconds(784e12, "a100-80g", recomputed)[0] == pytest.approx(989 / 312 / 0.43)
    assert estimate_seconds(1e12, "v100-32g", plain) is None
