"""Rows through a module in batches: rows of similar length together, outputs in the order given.

On request, outputs do not depend on what else is in a batch, to the last bit: a matrix product of a
few rows depends on their number, so pools and heads read one row at a time then.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import BatchLimits, Ids, ImageRow, PackedTokens, TokenRow, as_row, pack_texts
from regard.core.cancellation import check_wanted
from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.data.batches.packing import inference_batches
from regard.inference.component import RECORDED
from regard.inference.inputs import InputLimits
from regard.layers.attention import EncoderOutput
from regard.layers.kernels.bucketed import fewest_tokens, rows_are_alone
from regard.models.encoder_decoder import ModelModule
from regard.models.heads import AnyHead
from regard.models.trunk_with_heads import ALL_TOKENS, Outputs, TrunkWithHeadsModule

TextOrPair = str | tuple[str, str]
Rows = Sequence[TokenRow] | Sequence[Ids] | Sequence[TokenRow | ImageRow]
ModelRow = TokenRow | ImageRow
T = TypeVar("T")


def device_of(module: nn.Module) -> torch.device:
    """The device of a module."""
    return next(module.parameters()).device


def row_batches(
    module: ModelModule, rows: Rows, limits: BatchLimits, tape: NullTape = NULL_TAPE
) -> Iterator[tuple[list[int], PackedTokens]]:
    """Batches with the indices of their rows; with a live ``tape`` in the given order."""
    check_segments(module, rows)
    lengths = np.array([row_length(row) for row in rows], dtype=np.int64)
    device = device_of(module)
    for together in inference_batches(
        lengths, RECORDED if tape.live else limits, sort=not tape.live
    ):
        for numbers in _without_short_rows(together, lengths, fewest_tokens(device)):
            check_wanted()
            yield numbers, pack_texts([rows[i] for i in numbers]).to(device)


@torch.no_grad()
def row_logits(
    module: TrunkWithHeadsModule,
    head: AnyHead | type[AnyHead],
    rows: Rows,
    limits: BatchLimits,
    tape: NullTape = NULL_TAPE,
    convert: Callable[[Tensor], Tensor] = lambda logits: logits,
) -> list[Tensor]:
    """Logits of each row: (outputs,), or (tokens, outputs) if the head reads tokens.

    ``convert`` is applied to the logits of a batch before they are split. ``tape`` belongs to a run
    of batches.
    """

    def split(batch: PackedTokens, tape: NullTape) -> Sequence[Tensor]:
        logits = convert(run_batch(module, batch, tape=tape).by_head[head.name])
        return logits.unbind() if head.per_row else batch.layout.split(logits)

    batches = row_batches(module, rows, limits, tape)
    return in_order((numbers, split(batch, tape.next_batch())) for numbers, batch in batches)


def run_batch(
    module: TrunkWithHeadsModule,
    batch: PackedTokens,
    *,
    positions: Mapping[str, Tensor] = ALL_TOKENS,
    tape: NullTape = NULL_TAPE,
) -> Outputs:
    """Outputs of a batch; of each row alone if only rows of equal lengths share a bucket."""
    joined = not module.queries and all(head.joins_rows for head in module.head_facts.values())
    split = rows_are_alone() and joined and not tape.live
    if not split:
        return module(batch, positions=positions, tape=tape)
    encoded = module.encode(batch)
    if not _has_rows_to_split(encoded):
        return module.read(encoded, positions)
    layout, start, parts = encoded.layout, 0, list[Outputs]()
    for states_TD in layout.split(encoded.states_TD):
        end = start + len(states_TD)
        inside = {
            name: at_N[(at_N >= start) & (at_N < end)] - start for name, at_N in positions.items()
        }
        row = EncoderOutput(states_TD, _layout_of_row(layout, start, end))
        parts.append(module.read(row, inside))
        start = end
    names = parts[0].by_head
    by_head = {name: torch.cat([part.by_head[name] for part in parts]) for name in names}
    pooled = [part.pooled_BD for part in parts if part.pooled_BD is not None]
    return Outputs(encoded, torch.cat(pooled) if pooled else None, by_head)


def _has_rows_to_split(encoded: EncoderOutput) -> bool:
    """Whether there are several packed rows on a CPU, and nothing but their states."""
    layout, on_cpu = encoded.layout, encoded.states_TD.device.type == "cpu"
    known = layout.lengths is not None and not layout.padded
    carried = encoded.ends is not None or encoded.undropped_TD is not None
    return on_cpu and known and layout.rows > 1 and not carried


def _layout_of_row(layout: Layout, start: int, end: int) -> Layout:
    """Layout of the row of the tokens from ``start`` to ``end``, in a batch of its own."""
    alone, tokens = Layout.ragged([end - start], layout.positions_T.device), slice(start, end)
    return replace(
        alone,
        segments_T=None if layout.segments_T is None else layout.segments_T[tokens],
        orders_T=None if layout.orders_T is None else layout.orders_T[tokens],
    )


def _without_short_rows(batch: list[int], lengths: np.ndarray, fewest: int) -> list[list[int]]:
    """The rows of a batch with the fewest tokens or more, and each of the others alone."""
    long = [number for number in batch if lengths[number] >= fewest]
    short = [[number] for number in batch if lengths[number] < fewest]
    return [long, *short] if long else short


def in_order(batches: Iterable[tuple[Sequence[int], Iterable[T]]]) -> list[T]:
    """Results of batches, sorted by the indices of their rows."""
    results = {
        number: result
        for numbers, of_batch in batches
        for number, result in zip(numbers, of_batch, strict=True)
    }
    return [results[number] for number in range(len(results))]


def reads_images(module: ModelModule) -> bool:
    """Whether the rows of a module are images."""
    return not module.encoder.embed.vocab


def read_files(module: ModelModule, rows: Sequence[ModelRow]) -> Sequence[ModelRow]:
    """Rows in memory, as image files are read as late as possible.

    A bad image, or a pair for a model of single texts, is a ``BadItem``.
    """
    if reads_images(module):
        return [ImageRow(partial(np.asarray, cast(ImageRow, row).read())) for row in rows]
    check_segments(module, rows)
    return rows


def check_segments(module: ModelModule, rows: Rows) -> None:
    """Refuse rows with more segments than the model distinguishes."""
    limits = InputLimits.of(module.encoder)
    if not limits.segments or not rows:
        return
    segments = np.concatenate([as_row(row).segments for row in rows])
    if np.max(segments, initial=0) < limits.segments:
        return
    for number, row in enumerate(rows, start=1):  # if an input has several rows, all are pairs
        limits.check_segments(as_row(row), number)


def check_finite(module: nn.Module, values: Tensor, name: str = "states") -> Tensor:
    """Outputs of a module; NaN or infinite ones are an error."""
    if not values.isfinite().all():
        raise broken(f"its {name} are NaN or infinite", module)
    return values


def finite_logits(module: nn.Module, logits: Tensor) -> Tensor:
    """Logits on the host in double precision; NaN or infinite ones are an error."""
    return check_finite(module, logits.double().cpu(), "logits")


def broken(fault: str, *models: nn.Module) -> BadInput:
    """Error of outputs that are not finite; names the first weight that is not finite."""
    for name, tensor in chain.from_iterable(map(_named_tensors, models)):
        dense = tensor.to_dense() if tensor.is_mkldnn else tensor
        if count := dense.numel() - int(dense.isfinite().sum()):
            numbers = f"{count:,} of {dense.numel():,} numbers"
            cause = f"the weight {name} is NaN or infinite ({numbers}): copy the folder again"
            break
    else:
        cause = "all weights are finite, so values overflow: use fp32"
    return BadInput(f"the model is broken: {fault}; {cause}")


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights and buffers, also those that layers for inference have packed."""
    for path, module in model.named_modules():
        own = (module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        for name, value in chain(*own, vars(module).items()):
            if isinstance(value, Tensor):
                yield f"{path}.{re.sub('_[A-Z]+$', '', name)}".lstrip("."), value


def row_length(row: ModelRow | Ids) -> int:
    """Number of tokens of a row."""
    return len(as_row(row).tokens)
