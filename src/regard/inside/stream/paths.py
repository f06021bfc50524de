"""Path patching: what one head reads from another (Wang et al., 2022, arXiv:2211.00593).

The corrupted run is repeated with the clean output of a sending head, while all other heads and
feed-forward layers keep their corrupted outputs; so the queries, keys and values of a receiving
head change by what it reads from the sender through residual connections and norms alone. A second
corrupted run uses them, and its logit shows the effect of this path.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.core.tape import Edit
from regard.inside.stream.contributions import stream_places
from regard.inside.stream.copies import CopiesRun, replaced, run_copies
from regard.inside.stream.grid_view import Grid
from regard.inside.stream.patching import HEADS, PatchEffects, TwoRuns

INPUTS = ("queries", "keys", "values")
"""Inputs of a head, into which a path may lead."""


def patch_paths(
    runs: TwoRuns, receiver: tuple[int, int], *, into: Sequence[str] = INPUTS
) -> PatchEffects:
    """Effect of the path from each head of earlier layers into the ``receiver`` (layer, head).

    Both are heads of self-attention, in the decoder of an encoder-decoder. ``into`` are the inputs
    of the receiver that change, by default all. Heads that share keys share the change of keys and
    values.
    """
    for name in into:
        if name not in INPUTS:
            raise BadInput(f"into: {shown(name)} is not one of {', '.join(INPUTS)}")
    facts = runs.model.facts
    side = facts.sides[-1]
    places = stream_places(facts, side)
    site = next(site for site in facts.attention_sites if site.side == side and site.within)
    last = check_whole("receiver: its layer", receiver[0], 1, site.layers - 1)
    head = check_whole("receiver: its head", receiver[1], 0, site.heads[last] - 1)
    held = [name for name, place in places.items() if place.layer is not None]
    senders = [f"{site.tape_path.format(layer=layer)}.{HEADS}" for layer in range(last)]
    masks = _masks({name: runs.clean_values[name] for name in senders}, held)
    count = len(masks[held[0]])
    inputs = [f"{site.tape_path.format(layer=last)}.{kind}" for kind in into]

    def send(chunk: slice) -> dict[str, Edit]:
        """Edits to the clean output of the sender, and to corrupted outputs of all others."""
        clean_values, others = runs.clean_values, runs.corrupted_values
        return {
            name: replaced(clean_values[name], masks[name][chunk], others[name]) for name in held
        }

    def read_inputs(run: CopiesRun) -> list[Tensor]:
        return [run.records[name].unflatten(0, (run.copies, -1)) for name in inputs]

    rows = runs.corrupted_rows
    parts = run_copies(runs.model, rows, count, send, read_inputs, *inputs)
    received = dict(zip(inputs, map(torch.cat, zip(*parts, strict=True)), strict=True))

    def receive(chunk: slice) -> dict[str, Edit]:
        """Edits to the inputs of the receiver."""
        place = head, site.heads[last]
        return {name: _of_head(value[chunk], *place) for name, value in received.items()}

    most = max(site.heads[:last])
    exists_LH = np.arange(most) < np.array(site.heads[:last])[:, None]
    effects_LH = np.zeros(exists_LH.shape)
    effects_LH[exists_LH] = runs.run_corrupted(count, receive)
    layers, heads = [f"layer {n}" for n in range(last)], [f"head {n}" for n in range(most)]
    grid = Grid(site.name, layers, heads, effects_LH, exists_LH)
    at = f"paths into layer {last}, head {head} ({', '.join(into)})"
    return PatchEffects(runs.title, at, runs.target, runs.clean, runs.corrupted, (grid,))


def _masks(senders: Mapping[str, Tensor], held: Sequence[str]) -> dict[str, Tensor]:
    """Masks (copies, tokens, heads) of the sender of each copy: all heads, layer by layer."""
    count = sum(value.shape[1] for value in senders.values())
    masks = {name: torch.zeros(count, 1, dtype=torch.bool) for name in held}
    start = 0
    for name, value in senders.items():
        tokens, heads = value.shape[:2]
        masks[name] = torch.zeros(count, tokens, heads, dtype=torch.bool)
        masks[name][start : start + heads] = torch.eye(heads, dtype=torch.bool)[:, None]
        start += heads
    return masks


def _of_head(values: Tensor, head: int, count: int) -> Edit:
    """Edit to the values (copies, tokens, heads, size) of one of ``count`` heads.

    Values of fewer heads are shared by groups of heads.
    """

    def edit(name: str, current: Tensor) -> Tensor:
        changed = current.clone()
        number = head * changed.shape[1] // count
        changed[:, number] = values.flatten(0, 1)[:, number]
        return changed

    return edit
