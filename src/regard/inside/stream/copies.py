"""Runs of several copies of one input, each of which is edited in its own way."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledRows

TOKENS = 4_096  # of all copies in one forward pass
Value = TypeVar("Value")


class CopiesRun(NamedTuple):
    """Outputs of a run of several copies of an input, and the values that its tape recorded."""

    outputs: Outputs
    records: Mapping[str, Tensor]
    copies: int


def run_copies(
    model: ModelRunner,
    rows: LabelledRows,
    count: int,
    edits: Callable[[slice], Mapping[str, Edit]],
    read: Callable[[CopiesRun], Value],
    *patterns: str,
) -> list[Value]:
    """Run ``count`` copies of an input, as many at once as ``TOKENS`` allow.

    ``edits`` returns the edits of a slice of the copies, ``read`` what is kept of a run; the tape
    of each run records ``patterns``.
    """
    tokens = max(len(row.keys.subwords) for row in rows.values())
    step = max(1, TOKENS // tokens)
    values = []
    for start in range(0, count, step):
        copies = min(step, count - start)
        tape = Tape(*patterns, edits=edits(slice(start, start + copies)))
        with torch.inference_mode():
            outputs = model.run([rows] * copies, tape)
            values.append(read(CopiesRun(outputs, tape.records, copies)))
    return values


def replaced(value: Tensor, masks: Tensor, otherwise: Tensor | None = None) -> Edit:
    """Edit of the values of several copies: ``value`` of one input where a mask is true.

    ``value`` is (tokens, …), ``masks`` is (copies, tokens) or, of heads, (copies, tokens, heads).
    Where a mask is false, a copy has the value ``otherwise``, or by default its own.
    """

    def edit(name: str, current: Tensor) -> Tensor:
        own = current.unflatten(0, (len(masks), -1))
        rest = own if otherwise is None else otherwise
        where = masks.to(current.device)[(..., *[None] * (own.dim() - masks.dim()))]
        return torch.where(where, value, rest).to(current.dtype).expand_as(own).flatten(0, 1)

    return edit


def fixed(values: Sequence[Tensor]) -> Edit:
    """Edit that replaces the values of several copies, (tokens, …) each."""
    return lambda name, current: torch.cat([*values]).to(current.dtype)
