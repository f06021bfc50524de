"""Averages of weights: moving, and triggered by the development set; SGD; both survive a resume."""

import math
from itertools import islice

import numpy as np
import pytest
import torch

from regard.core.errors import BadInput
from regard.training.loop import train
from regard.training.loop.events import DevEvent, ReportEvent
from regard.training.loop.trainable import MovingAverage, TriggeredAverage
from regard.training.optimiser import SCHEDULES, ModelOptimiser
from regard.training.recipe import read
from regard.training.recipe.tables import OptimiserConfig
from regard.weights.files import read_tensors
from small_rnn import prepared, write_streams

SETTINGS = (
    *("optimiser.kind=nt-asgd", "optimiser.rate=20", "optimiser.nonmonotone=1"),
    *("train.steps=24", "train.evaluate_every=2", "train.checkpoint_every=6"),
    "objective.causal-lm.mean_length=12",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_streams(tmp_path_factory.mktemp("animals"))


def test_before_the_trigger_the_average_is_the_weights_and_then_their_mean():
    draw = np.random.default_rng(1)
    steps = [torch.from_numpy(draw.normal(size=3)) for _ in range(9)]
    average = TriggeredAverage({"w": steps[0]}, interval=2)
    for number, weights in enumerate(steps[1:5], start=1):
        average.update({"w": weights}, number)
        assert torch.equal(average.weights["w"], weights)
    average.since = 4
    for number, weights in enumerate(steps[5:], start=5):
        average.update({"w": weights}, number)
    assert torch.allclose(average.weights["w"], torch.stack(steps[5:]).mean(0))


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_initial_weights_are_forgotten_soon(decay):
    """What is left of them: 2/11 · 3/12 · 4/13 ⋯, until the decay of the recipe is reached."""
    average, left = MovingAverage({"w": torch.ones(1, dtype=torch.float64)}, decay), []
    for step in range(1, 21):
        average.update({"w": torch.zeros(1, dtype=torch.float64)}, step)
        left.append(float(average.weights["w"]))
    before = [
        math.factorial(10) * math.factorial(n + 1) / math.factorial(n + 10) for n in range(21)
    ]
    reached = 7 if decay == 0.5 else 20  # 9/18 is the factor of step 8
    after = [before[reached] * decay**n for n in range(1, 21 - reached)]
    assert left == pytest.approx(before[1 : reached + 1] + after, rel=1e-9)


@pytest.mark.parametrize(
    ("values", "triggers"),
    [
        ([3.0], False),
        ([3.0, 2.0], False),  # none is more than two before it
        ([3.0, 2.0, 2.0], False),
        ([1.0, 3.0, 2.0, 2.0], False),  # 2 is better than 1
        ([1.0, 3.0, 2.0, 0.5], True),
        ([1.0, 2.0, 3.0, 4.0, 5.0], False),
    ],
)
def test_the_trigger_is_non_monotonic(values, triggers):
    average = TriggeredAverage({"w": torch.zeros(1)}, interval=2)
    average.judge(values, 40)
    assert average.since == (40 if triggers else 0)
    average.judge([*values, -9.0], 50)
    assert average.since == 40 or not triggers


def test_sgd_follows_the_gradient():
    model = torch.nn.Linear(3, 1, bias=False)
    before = model.weight.detach().clone()
    optimiser = ModelOptimiser(model, OptimiserConfig(kind="sgd", rate=0.5, decay=0.1))
    model(torch.tensor([[1.0, 2.0, 3.0]])).sum().backward()
    optimiser.step(0.5)
    gradient = torch.tensor([[1.0, 2.0, 3.0]]) + 0.1 * before
    assert torch.allclose(model.weight, before - 0.25 * gradient)


def test_settings_that_nothing_reads_are_refused(corpus):
    for settings, message in (
        (["optimiser.kind=sgd", "optimiser.eps=1e-9"], "eps cannot be used with kind 'sgd'"),
        (["optimiser.nonmonotone=3"], "nonmonotone cannot be used with kind 'adamw'"),
        (["optimiser.kind=nt-asgd", "train.ema=0.9"], "train.ema, train.average cannot be used"),
    ):
        with pytest.raises(BadInput, match=message):
            read(corpus / "lstm.toml", settings)


def test_averaged_weights_are_evaluated_kept_and_resumed(corpus, tmp_path):
    straight = prepared(corpus, tmp_path / "a", *SETTINGS)
    events = list(train(straight.job))
    progress = events[-1].progress
    assert 0 < progress.averaged_since < 24 and len(progress.dev_values) == 12
    first = prepared(corpus, tmp_path / "b", *SETTINGS)
    for event in train(first.job):  # as if the process died between two checkpoints
        if isinstance(event, ReportEvent) and event.progress.step == 20:
            break
    second = prepared(corpus, tmp_path / "b", *SETTINGS, resume=True)
    rest = list(train(second.job, resume=True))
    after = [event.verdict for event in events if isinstance(event, DevEvent)][-2:]
    assert [event.verdict for event in rest if isinstance(event, DevEvent)][-2:] == after
    last = "checkpoints/step-00000024/{}.safetensors"
    for name in ("model", "average", "carried"):
        one, other = (read_tensors(tmp_path / run / last.format(name)) for run in "ab")
        assert one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)
    averages, weights = (
        read_tensors(tmp_path / "a" / last.format(name)) for name in ("average", "model")
    )
    assert any(not torch.equal(averages[name], weights[name]) for name in weights)
    described = straight.finish(progress)
    if progress.best_step > progress.averaged_since:
        assert described.startswith("average since step")


def test_the_learning_rate_is_in_proportion_to_the_length_of_parts(corpus, tmp_path):
    run = prepared(corpus, tmp_path, *SETTINGS)
    sampler = run.job.sampler
    batches = sampler.batches()
    lengths = [next(batches)[1].lengths for _ in range(12)]
    assert len({int(one[0, 0]) for one in lengths}) > 3
    assert all((one == one[0]).all() and 5 <= one[0, 0] <= 32 for one in lengths)
    length = float(lengths[0].mean())
    assert sampler.rate_share(length) == lengths[0][0, 0] / 12
    assert prepared(corpus, tmp_path / "fixed").job.sampler.rate_share(length) == 1.0


def test_reports_have_the_learning_rate_of_the_step(corpus, tmp_path):
    """That of the schedule, times the share of short parts."""
    run = prepared(corpus, tmp_path, *SETTINGS, "train.steps=6", "train.report_every=1")
    reports = [event for event in train(run.job) if isinstance(event, ReportEvent)]
    batches = islice(run.job.sampler.batches(), 6)
    lengths = [batch.lengths[0, 0] for _, batch in batches]
    config = run.job.recipe.optimiser
    factor = SCHEDULES[config.schedule](config.warmup_steps(6), 6)
    rates = [20 * factor(step) * length / 12 for step, length in enumerate(lengths, 1)]
    assert [event.rate for event in reports] == pytest.approx(rates)
    assert len(set(rates)) > 3
