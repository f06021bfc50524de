"""How far back gradients reach: the gradient of the final state by distance from the last token.

In a recurrent network the gradient passes through every state in between and shrinks at each
(Bengio et al., 1994); with attention it reaches each token directly. The final state of a
classifier is the pooled one, that of a language model the state of the last token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import Ids, pack
from regard.ground.layout import Layout
from regard.ground.tape import Tape
from regard.inside.views.line_chart import (
    PAGE_COLOURS,
    PRINT_COLOURS,
    ChartColours,
    ChartLine,
    draw_chart,
)
from regard.inside.views.markup import HTMLPage, report_page
from regard.parts.recurrent.bridge import last_state

INPUT = "trunk.embed.output"
ROWS, TOKENS = 32, 16_384  # texts, and tokens of all their copies, per batch


@dataclass(frozen=True)
class GradientNorms:
    """``norms[n]``: the mean gradient norm for the token n positions before the last one."""

    name: str
    norms: np.ndarray

    @property
    def line(self) -> ChartLine:
        """For a logarithmic chart, which cannot show 0."""
        return ChartLine(
            self.name, [(n, float(norm)) for n, norm in enumerate(self.norms) if norm > 0]
        )


def gradient_norms(model: nn.Module, texts: Sequence[Ids]) -> np.ndarray:
    """The Frobenius norm of ∂ final / ∂ x_i by the distance of i from the end, mean over texts.

    The model is a classifier or a language model; x_i is the embedding of token i.
    """
    longest = max(map(len, texts), default=0)
    sums, counts = np.zeros(longest), np.zeros(longest)
    with torch.no_grad():
        size = _forward(model, texts[:1]).final_BD.shape[1] if longest else 0
    for start in range(0, len(texts), ROWS):
        for squares_L in _squares(model, texts[start : start + ROWS], size):
            sums[: len(squares_L)] += squares_L.sqrt().flip(0).cpu().numpy()
            counts[: len(squares_L)] += 1
    return sums / np.maximum(counts, 1)


class _Forward(NamedTuple):
    """The embeddings of a batch, its final states and its layout."""

    x_TD: Tensor
    final_BD: Tensor
    layout: Layout


def _forward(model: Any, texts: Sequence[Ids]) -> _Forward:
    batch = pack(texts).to(next(model.parameters()).device)
    tape = Tape(INPUT, edits={INPUT: lambda _, x_TD: x_TD.detach().requires_grad_()})
    encoded = model.encode(batch, tape=tape)
    pooled_BD = model.pooled(encoded)
    final_BD = last_state(encoded) if pooled_BD is None else pooled_BD
    return _Forward(tape.records[INPUT], final_BD, batch.layout)


def _squares(model: nn.Module, texts: Sequence[Ids], size: int) -> list[Tensor]:
    """‖∂ final / ∂ x_i‖² for every token of every text, summed over the dimensions of the state.

    Rows of a batch are independent, so one backward pass over several copies of a text gives the
    gradients of as many dimensions of its final state.
    """
    copies = min(size, max(1, TOKENS // max(1, sum(map(len, texts)))))
    sums: list[Tensor] = []
    for first in range(0, size, copies):
        dimensions = range(first, min(first + copies, size))
        # cuDNN computes gradients of RNNs only in training mode.
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            run = _forward(model, [ids for ids in texts for _ in dimensions])
            dimension_B = torch.tensor([*dimensions] * len(texts), device=run.x_TD.device)
            total = run.final_BD.gather(1, dimension_B[:, None]).sum()
            (gradient_TD,) = torch.autograd.grad(total, run.x_TD)
        rows = run.layout.split(gradient_TD.double().square().sum(1))
        starts = range(0, len(rows), len(dimensions))
        part = [torch.stack(rows[at : at + len(dimensions)]).sum(0) for at in starts]
        sums = [a + b for a, b in zip(sums, part, strict=True)] if sums else part
    return sums


@dataclass(frozen=True)
class GradientReach(HTMLPage):
    """Charts of gradient norms by title, and a table."""

    title: str
    charts: Mapping[str, Sequence[GradientNorms]]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

    def svg(self, chart: str, colours: ChartColours = PRINT_COLOURS) -> str:
        """Gradient norm over distance, on a logarithmic scale."""
        lines = [norms.line for norms in self.charts[chart]]
        last = max((x for line in lines for x, _ in line.points), default=1)
        step = max(1, round(last / 8))
        ticks = [(float(x), str(x)) for x in range(0, int(last) + 1, step)]
        across, up = "distance from the last token", "gradient norm of the final state"
        ticks = ticks if ticks[-1][0] == last else [*ticks, (float(last), "")]
        return draw_chart(f"{self.title}: {chart}", across, up, ticks, lines, colours, decades=True)

    def html(self) -> str:
        """One offline page with the table and all charts."""
        charts = [self.svg(chart, PAGE_COLOURS) for chart in self.charts]
        return report_page(self.title, self.columns, self.rows, charts, self.notes)
