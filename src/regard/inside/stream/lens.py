"""Logit lens (nostalgebraist, 2020): what a model would predict from the states of each layer.

The states after a layer take the place of those after the last layer, so that they pass through
the final norm, the pool and the output head as the last states do. At the last layer the result is
the model's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.inside.logit_target import by_output, heads_with_logits
from regard.inside.stream.contributions import stream_places
from regard.inside.stream.copies import CopiesRun, fixed, run_copies
from regard.inside.stream.grid_view import Grid, GridView
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledRows
from regard.views.markup import escape_controls

WHOLE = ("output",)  # the position of a head that reads whole rows


@dataclass(frozen=True, eq=False)
class LogitLens(GridView):
    """Predictions from the states of each layer, by position.

    ``tops`` are the most probable outputs (tokens or labels), ``probabilities_LP`` their
    probabilities; ``final_LP`` are the probabilities of the last layer's prediction, and
    ``ranks_LP`` its ranks, from 1.
    """

    kind: ClassVar[str] = "logit_lens"
    title: str
    layers: tuple[str, ...]
    tokens: tuple[str, ...]
    tops: tuple[tuple[str, ...], ...]
    probabilities_LP: np.ndarray
    final_LP: np.ndarray
    ranks_LP: np.ndarray

    @property
    def caption(self) -> str:
        return "logit lens: probability of the last layer's prediction, by layer and position"

    @property
    def grids(self) -> Sequence[Grid]:
        return [Grid("lens", self.layers, self.tokens, self.final_LP)]

    @property
    def fields(self) -> dict[str, object]:
        labels = {"layers": self.layers, "tokens": self.tokens, "tops": self.tops}
        numbers = {"probabilities": self.probabilities_LP, "final": self.final_LP}
        return {**labels, **numbers, "ranks": self.ranks_LP.tolist()}

    @property
    def columns(self) -> list[str]:
        """Columns of the table: the layer, then each position with its token."""
        names = map(escape_controls, self.tokens)
        return ["layer", *(f"{place} {token}" for place, token in enumerate(names))]

    @property
    def cells(self) -> list[list[str]]:
        """Rows of the table: the most probable output, its probability, the rank of the last."""
        rows = zip(self.layers, self.tops, self.probabilities_LP, self.ranks_LP, strict=True)
        return [[layer, *map(_cell, *cells)] for layer, *cells in rows]

    def to_json(self) -> dict[str, object]:
        return {
            "layers": self.layers,
            "tokens": self.tokens,
            "top": self.tops,
            "probability": self.probabilities_LP.round(6).tolist(),
            "final_probability": self.final_LP.round(6).tolist(),
            "rank": self.ranks_LP.tolist(),
        }


def _cell(top: str, probability: float, rank: int) -> str:
    return f"{escape_controls(top)} {probability:.2f} #{rank}"


def logit_lens(model: ModelRunner, title: str, rows: LabelledRows) -> LogitLens:
    """Predictions from the embedding and from the states after each layer, for one input."""
    side = model.facts.sides[-1]
    stream_places(model.facts, side)
    if not model.module.reads_last_layer:
        raise BadInput("this model's heads read other layers than the last: it has no logit lens")
    depth = getattr(model.facts, side).stack.depth
    names = [f"{side}.embed.output", *(f"{side}.blocks.{layer}.output" for layer in range(depth))]
    tape = Tape(*names)
    with torch.inference_mode():
        outputs = model.run([rows], tape)
    head, named = next(iter(heads_with_logits(model, outputs).items()))
    final_PV = _logits(outputs, head, 1)[0]
    best_P = final_PV.argmax(-1)
    states = [tape.records[name] for name in names]

    def edits(chunk: slice) -> dict[str, Edit]:
        return {names[-1]: fixed(states[chunk])}

    def read(run: CopiesRun) -> Tensor:
        """Index and probability of the top, probability and rank of the last prediction."""
        logits_LPV = _logits(run.outputs, head, run.copies)
        p_LPV = logits_LPV.softmax(-1)
        top_LP, index_LP = p_LPV.max(-1)
        own_LP = p_LPV.gather(-1, best_P.expand(run.copies, -1)[..., None])[..., 0]
        rank_LP = 1 + (p_LPV > own_LP[..., None]).sum(-1)
        return torch.stack([index_LP, top_LP, own_LP, rank_LP]).cpu()

    index_LP, top_LP, own_LP, rank_LP = torch.cat(
        run_copies(model, rows, len(names), edits, read), dim=1
    ).numpy()
    tokens = rows[side].queries.subwords
    return LogitLens(
        title,
        ("embedding", *(f"layer {layer}" for layer in range(depth))),
        tokens if len(best_P) == len(tokens) else WHOLE,
        tuple(tuple(named.name(int(index)) for index in row) for row in index_LP),
        top_LP,
        own_LP,
        rank_LP.astype(int),
    )


def _logits(outputs: Outputs, head: str, copies: int) -> Tensor:
    """Logits (copies, positions, outputs) in double precision, which holds every index."""
    return by_output(outputs.by_head[head]).double().unflatten(0, (copies, -1))
