"""How far back a text still counts: the final state's gradient by distance from the end.

A recurrent reader's last state hears of a word through every state in between, and a gradient that
goes back through them shrinks at each (Bengio et al., 1994); attention hears of each word directly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import Ids, pack
from regard.ground.tape import Tape
from regard.inside.chart import OF_PAGE, PRINTED, Colours, Line, chart
from regard.inside.template import figures

FROM, TO = "reader.embed.output", "pooled"
ROWS = 32


@dataclass(frozen=True)
class Influence:
    """``norms[n]``: how much the token n places before the last one moves the final state."""

    name: str
    norms: np.ndarray

    @property
    def line(self) -> Line:
        """For a drawing by powers of ten, where there is no place for 0."""
        return Line(self.name, [(n, float(norm)) for n, norm in enumerate(self.norms) if norm > 0])


def influence(model: nn.Module, texts: Sequence[Ids]) -> np.ndarray:
    """Means over texts of ‖∂ final / ∂ x_i‖ (of all numbers of that matrix) by distance of i.

    The model is a classifier; x_i is what it reads of token i, the final state what it judges by.
    """
    longest = max(map(len, texts), default=0)
    sums, counts = np.zeros(longest), np.zeros(longest)
    device = next(model.parameters()).device
    for start in range(0, len(texts), ROWS):
        read = pack(texts[start : start + ROWS]).to(device)
        tape = Tape(FROM, TO, edits={FROM: lambda _, x_TD: x_TD.detach().requires_grad_()})
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN: no way back
            model(read.tokens_T, read.layout, tape=tape)
            norms_T = _norms(tape.kept[TO], tape.kept[FROM])
        for row in read.layout.split(norms_T):
            sums[: len(row)] += row.flip(0).cpu().numpy()
            counts[: len(row)] += 1
    return sums / np.maximum(counts, 1)


def _norms(final_BD: Tensor, x_TD: Tensor) -> Tensor:
    """Rows know nothing of each other, so the gradient of a sum over them is each one's own."""
    squares_T = torch.zeros(len(x_TD), dtype=torch.float64, device=x_TD.device)
    for number in range(final_BD.shape[1]):
        (gradient_TD,) = torch.autograd.grad(final_BD[:, number].sum(), x_TD, retain_graph=True)
        squares_T += gradient_TD.double().square().sum(1)
    return squares_T.sqrt()


@dataclass(frozen=True)
class Recency:
    """Pictures of influence, each under its title, and a table beside them."""

    title: str
    pictures: Mapping[str, Sequence[Influence]]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

    def svg(self, picture: str, colours: Colours = PRINTED) -> str:
        """Gradient norm over distance, by powers of ten."""
        lines = [one.line for one in self.pictures[picture]]
        last = max((x for line in lines for x, _ in line.points), default=1)
        step = max(1, round(last / 8))
        ticks = [(float(x), str(x)) for x in range(0, int(last) + 1, step)]
        across, up = "tokens between it and the end", "gradient norm of the final state"
        ticks = ticks if ticks[-1][0] == last else [*ticks, (float(last), "")]
        return chart(f"{self.title}: {picture}", across, up, ticks, lines, colours, decades=True)

    def html(self) -> str:
        """Everything as one page; it needs nothing but a browser."""
        pictures = [self.svg(picture, OF_PAGE) for picture in self.pictures]
        return figures(self.title, self.columns, self.rows, pictures, self.notes)
