"""Outputs of a batch, which on request do not depend on what else is in the batch, to the last bit.

A matrix product of a few rows depends on their number: pools and heads read one row at a time then.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from regard.ground.batch import PackedTokens
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.trunk_with_heads import ALL_TOKENS, Outputs, TrunkWithHeadsModule
from regard.parts.attention import EncoderOutput
from regard.parts.kernels.bucketed import rows_are_alone


def run_model(
    model: TrunkWithHeadsModule,
    batch: PackedTokens,
    *,
    positions: Mapping[str, Tensor] = ALL_TOKENS,
    tape: NullTape = NULL_TAPE,
) -> Outputs:
    """Outputs of a model; of each row alone if only rows of equal lengths share a bucket."""
    split = rows_are_alone() and not (tape.live or model.queries or any(model.layers_of.values()))
    if not split:
        return model(batch, positions=positions, tape=tape)
    encoded = model.encode(batch)
    if not _has_rows_to_split(encoded):
        return model.read(encoded, positions)
    layout, start, parts = encoded.layout, 0, list[Outputs]()
    for states_TD in layout.split(encoded.states_TD):
        end = start + len(states_TD)
        inside = {
            name: at_N[(at_N >= start) & (at_N < end)] - start for name, at_N in positions.items()
        }
        row = EncoderOutput(states_TD, _layout_of_row(layout, start, end))
        parts.append(model.read(row, inside))
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
