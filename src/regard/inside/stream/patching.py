"""Activation patching: run an input with values of another, and see what is restored.

A model reads a clean and a corrupted input of equal length. The corrupted run is repeated with the
clean value of one place. Its effect is the share of the difference between both logits that it
restores: 0 as in the corrupted run, 1 as in the clean one (Vig et al., 2020, arXiv:2004.12265;
Meng et al., 2022, arXiv:2202.05262).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.checks import check_whole
from regard.core.errors import BadInput, shown
from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.logit_target import LogitTarget, choose_target
from regard.inside.record import VALUES
from regard.inside.stream.copies import CopiesRun, replaced, run_copies
from regard.inside.stream.grid_view import Grid, GridView
from regard.text.segmentation import LabelledRows

HEADS = "head_outputs"
OUTPUTS = "*output*"  # pattern of all values that can be patched
PLACES = ("states", "attention_outputs", "cross_outputs", "mlp_outputs", HEADS)
"""Values that are patched, by their names in a record."""


@dataclass(frozen=True, eq=False)
class PatchEffects(GridView):
    """Effects of patching by place: 0 as the corrupted run, 1 as the clean run.

    ``clean`` and ``corrupted`` are the logit (or the difference of two) of both runs. ``maps`` has
    one map for each side of the model, layer by position, or for each attention, layer by head.
    """

    kind: ClassVar[str] = "patching"
    title: str
    at: str
    target: LogitTarget
    clean: float
    corrupted: float
    maps: tuple[Grid, ...]

    @property
    def caption(self) -> str:
        ends = f"{self.clean:.3f} clean, {self.corrupted:.3f} corrupted"
        return f"{self.at} patched; {self.target}: {ends}; effect 1: as clean, 0: as corrupted"

    @property
    def grids(self) -> Sequence[Grid]:
        return self.maps

    def to_json(self) -> dict[str, object]:
        maps = [
            {
                "map": grid.name,
                "rows": list(grid.rows),
                "columns": list(grid.columns),
                "effects": grid.values_LC.round(6).tolist(),
            }
            for grid in self.maps
        ]
        return {
            "at": self.at,
            "target": self.target.name,
            "against": self.target.against_name or None,
            "position": self.target.position,
            "clean": round(self.clean, 6),
            "corrupted": round(self.corrupted, 6),
            "maps": maps,
        }


@dataclass(frozen=True, eq=False)
class TwoRuns:
    """A clean and a corrupted run of a model: values on the tape, and a logit of each."""

    title: str
    model: ModelRunner
    clean_rows: LabelledRows
    corrupted_rows: LabelledRows
    target: LogitTarget
    clean: float
    corrupted: float
    clean_values: Mapping[str, Tensor]
    corrupted_values: Mapping[str, Tensor]

    @classmethod
    def of(
        cls,
        model: ModelRunner,
        title: str,
        clean: LabelledRows,
        corrupted: LabelledRows,
        target: str | int | None = None,
        against: str | int | None = None,
        token: int | None = None,
    ) -> "TwoRuns":
        """Run both inputs, which must have equally many tokens.

        ``target``, ``against`` and ``token`` choose the logit, see ``choose_target``.
        """
        _check_lengths(clean, corrupted)
        tapes = Tape(OUTPUTS), Tape(OUTPUTS)
        with torch.inference_mode():
            one, other = model.run([clean], tapes[0]), model.run([corrupted], tapes[1])
            chosen = choose_target(model, clean, one, target, against, token)
            ends = chosen.of(one).item(), chosen.of(other).item()
        if ends[0] == ends[1]:
            raise BadInput(f"the {chosen} is {ends[0]:.3f} on both inputs: choose another target")
        values = (tape.records for tape in tapes)
        return cls(title, model, clean, corrupted, chosen, *ends, *values)

    def effects(self, masks: Mapping[str, Tensor]) -> np.ndarray:
        """Effect of each copy: the corrupted run with clean values where its masks are true.

        Masks are (copies, tokens) or, of values of heads, (copies, tokens, heads).
        """
        count = len(next(iter(masks.values())))

        def edits(chunk: slice) -> dict[str, Edit]:
            clean = self.clean_values
            return {name: replaced(clean[name], mask[chunk]) for name, mask in masks.items()}

        return self.run_corrupted(count, edits)

    def run_corrupted(self, count: int, edits: Callable[[slice], Mapping[str, Edit]]) -> np.ndarray:
        """Effects of edits of ``count`` copies of the corrupted input; see ``run_copies``."""
        logits = run_copies(self.model, self.corrupted_rows, count, edits, self._logits)
        metric_N = torch.cat(logits).double().cpu().numpy()
        return (metric_N - self.corrupted) / (self.clean - self.corrupted)

    def _logits(self, run: CopiesRun) -> Tensor:
        return self.target.of(run.outputs, run.copies)

    def positions(self, side: str) -> list[str]:
        """Names of the positions of a side: the token, or both tokens where they differ."""
        rows = self.clean_rows[side], self.corrupted_rows[side]
        pairs = zip(*(row.keys.subwords for row in rows), strict=True)
        return [one if one == other else f"{one}/{other}" for one, other in pairs]


def _check_lengths(clean: LabelledRows, corrupted: LabelledRows) -> None:
    for side in clean:
        tokens = [rows[side].keys.subwords for rows in (clean, corrupted)]
        if len(tokens[0]) != len(tokens[1]):
            one, other = (f"{len(each)} ({' '.join(each)})" for each in tokens)
            raise BadInput(
                f"clean and corrupted input must have the same number of tokens, not {one} and "
                f"{other}: exchange words for words of as many tokens"
            )


class Places(NamedTuple):
    """Places of one side or one attention: a row of a map for each layer that the tape has."""

    group: str
    side: str
    names: Mapping[str, str]  # of the rows, and on the tape


def _places(model: ModelRunner, at: str) -> list[Places]:
    """All places of a kind of value."""
    if at == HEADS:
        sites = [site for site in model.facts.attention_sites if site.query_side == site.side]
        return [
            Places(
                site.name,
                site.side,
                {
                    f"layer {layer}": f"{site.tape_path.format(layer=layer)}.{HEADS}"
                    for layer in range(site.layers)
                },
            )
            for site in sites
        ]
    places = []
    for side in model.facts.sides:
        blocks = range(getattr(model.facts, side).stack.depth)
        first = {"embedding": f"{side}.embed.output"} if at == "states" else {}
        layers = {
            f"layer {layer}": VALUES[at].format(block=f"{side}.blocks.{layer}") for layer in blocks
        }
        places.append(Places(side, side, {**first, **layers}))
    return places


def patch(runs: TwoRuns, at: str = "states", *, layer: int | None = None) -> PatchEffects:
    """Effect of the clean value of each place in the corrupted run.

    ``at`` is one of ``PLACES``. Values of tokens are patched position by position, values of heads
    head by head at all positions or, with ``layer``, by head and position in that layer.
    """
    if at not in PLACES:
        raise BadInput(f"at: {shown(at)} is not one of {', '.join(PLACES)}")
    if layer is not None and at != HEADS:
        raise BadInput(f"layer: only {HEADS} have a map of one layer, {at} have not")
    grids = []
    for places in _places(runs.model, at):
        known = {row: name for row, name in places.names.items() if name in runs.clean_values}
        if known and layer is not None:
            grids.append(_heads_by_position(runs, places._replace(names=known), layer))
        elif known:
            draw = _by_head if at == HEADS else _by_position
            grids.append(draw(runs, places._replace(names=known)))
    if not grids:
        raise BadInput(f"at: this model has no {at}; it has states")
    return PatchEffects(runs.title, at, runs.target, runs.clean, runs.corrupted, tuple(grids))


def _by_position(runs: TwoRuns, places: Places) -> Grid:
    """Effects of the values of tokens, layer by position."""
    columns = runs.positions(places.side)
    masks_LL = torch.eye(len(columns), dtype=torch.bool)
    effects = [runs.effects({name: masks_LL}) for name in places.names.values()]
    return Grid(places.group, [*places.names], columns, np.stack(effects))


def _by_head(runs: TwoRuns, places: Places) -> Grid:
    """Effects of the values of heads at all positions, layer by head."""
    effects = []
    for name in places.names.values():
        tokens, heads = runs.clean_values[name].shape[:2]
        masks_HLH = torch.eye(heads, dtype=torch.bool)[:, None].expand(-1, tokens, -1)
        effects.append(runs.effects({name: masks_HLH}))
    most = max(map(len, effects))
    values_LH = np.stack([np.pad(each, (0, most - len(each))) for each in effects])
    exists_LH = np.arange(most) < np.array([*map(len, effects)])[:, None]
    columns = [f"head {head}" for head in range(most)]
    return Grid(places.group, [*places.names], columns, values_LH, exists_LH)


def _heads_by_position(runs: TwoRuns, places: Places, layer: int) -> Grid:
    """Effects of the values of the heads of one layer, head by position."""
    count = len(places.names)
    number = check_whole("layer", layer, -count, count - 1) % count
    name = [*places.names.values()][number]
    tokens, heads = runs.clean_values[name].shape[:2]
    each = torch.eye(heads * tokens, dtype=torch.bool)
    masks = each.unflatten(1, (heads, tokens)).transpose(1, 2)  # copies, tokens, heads
    effects_HL = runs.effects({name: masks}).reshape(heads, tokens)
    rows = [f"head {head}" for head in range(heads)]
    columns = runs.positions(places.side)
    return Grid(f"{places.group}, layer {number}", rows, columns, effects_HL)
