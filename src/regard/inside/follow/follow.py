"""Follow a model: run it on one input with a tape, and make the steps of the run."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import ImageRow
from regard.core.errors import BadInput
from regard.core.tape import Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.follow.check import relative_difference
from regard.inside.follow.computation import Computation
from regard.inside.follow.kinds import STEPS
from regard.inside.follow.plan import StepPlan
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledImage, LabelledRows

# Ends of the names of values with an axis of rows, which has size 1.
BY_ROW = ("scores", "mask", "weights", "bias", "patches", "prefix")


class Weights(Mapping[str, np.ndarray]):
    """Weights of a module in float64, by their names in its state dict."""

    def __init__(self, module: nn.Module):
        self.tensors = module.state_dict()

    def __getitem__(self, name: str) -> np.ndarray:
        return self.tensors[name].double().cpu().numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def follow(model: ModelRunner, rows: LabelledRows) -> Computation:
    """Steps and values of a model on one input."""
    if any(parameter.itemsize < 4 for parameter in model.module.parameters()):
        raise BadInput("follow needs weights in float32: load without precision")
    weights = Weights(model.module)
    plan = StepPlan(weights.tensors.keys(), STEPS)
    plan.follow(model.facts)
    tape = Tape("*")
    with torch.inference_mode():
        outputs, plain = model.run([rows], tape), model.run([rows])
    recorded = {name: _of_one_row(name, value) for name, value in tape.records.items()}
    inputs = dict(_inputs(rows))
    missing = [step.name for step in plan.steps if step.output not in recorded]
    if missing:
        raise BadInput(f"follow: the run has no value for {', '.join(missing[:4])}")
    return Computation(
        model.loaded.paper.name,
        tuple(plan.steps),
        inputs | recorded,
        weights,
        {side: row.keys.subwords for side, row in rows.items()},
        _difference(outputs, plain),
    )


def _inputs(rows: LabelledRows) -> Iterator[tuple[str, np.ndarray]]:
    """Ids, or pixels, and segments of each side."""
    for side, labelled in rows.items():
        if isinstance(labelled, LabelledImage):
            image: ImageRow = labelled.row
            yield f"{side}.ids", np.asarray(image.read(), np.float64)
        else:
            yield f"{side}.ids", np.asarray(labelled.row.tokens)
            yield f"{side}.segments", np.asarray(labelled.row.segments)


def _of_one_row(name: str, value: Tensor) -> np.ndarray:
    """Value without the axis of rows, if it has one."""
    array: np.ndarray = value.detach().cpu().numpy()
    by_row = name.endswith(BY_ROW) and array.ndim > 2
    array = array[0] if by_row else array
    return array.astype(np.float32) if array.dtype == bool else array


def _difference(outputs: Outputs, plain: Outputs) -> float:
    """Largest relative difference of the outputs of two runs."""
    pairs = [(outputs.by_head[name], plain.by_head[name]) for name in plain.by_head]
    pairs.append((outputs.encoded.states_TD, plain.encoded.states_TD))
    arrays = ((one.double().cpu().numpy(), other.double().cpu().numpy()) for one, other in pairs)
    return max(relative_difference(one, other) for one, other in arrays)
