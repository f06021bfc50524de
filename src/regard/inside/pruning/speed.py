"""Time of two models on the same work, measured in turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

from regard.inside.pruning.remove_heads import count_heads
from regard.models.folders.loaded_model import LoadedModel
from regard.models.paper import count_parameters
from regard.tasks.components import runner_of
from regard.text.segmentation import LabelledRows


@dataclass(frozen=True)
class SizeAndTime:
    """Parameters of a model, its heads, and the median time of a run in seconds."""

    parameters: int
    heads: int
    seconds: float


def forward_passes(
    model: LoadedModel, inputs: Sequence[Sequence[LabelledRows]]
) -> Callable[[], None]:
    """Forward passes of a model over batches of inputs, to be timed."""
    inspected = runner_of(model)

    def run() -> None:
        with torch.inference_mode():
            for rows in inputs:
                inspected.run(rows)
        if (device := next(model.module.parameters()).device).type == "cuda":
            torch.cuda.synchronize(device)

    return run


def compare_speed(
    models: Sequence[LoadedModel], run: Callable[[LoadedModel], Callable[[], object]], rounds: int
) -> list[SizeAndTime]:
    """Sizes of models, and the median time of each over ``rounds`` turns, after a first one.

    ``run`` prepares the work of a model, which is timed.
    """
    runs = [run(model) for model in models]
    seconds: list[list[float]] = [[] for _ in models]
    for turn in range(rounds + 1):
        for own, times in zip(runs, seconds, strict=True):
            start = perf_counter()
            own()
            times += [perf_counter() - start] if turn else []
    return [
        SizeAndTime(count_parameters(model.module), count_heads(model.facts), median(times))
        for model, times in zip(models, seconds, strict=True)
    ]
