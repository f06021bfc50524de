"""How far back a text still counts: the final state's gradient by distance from the end.

A recurrent reader's last state hears of a word through every state in between, and a gradient that
goes back through them shrinks at each (Bengio et al., 1994); attention hears of each word directly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.ground.batch import Ids, pack
from regard.ground.layout import Layout
from regard.ground.tape import Tape
from regard.inside.chart import OF_PAGE, PRINTED, Colours, Line, chart
from regard.inside.template import figures

FROM, TO = "trunk.embed.output", "pool.output"
ROWS, TOKENS = 32, 16_384  # texts, and tokens of all their copies, read at once


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
    with torch.no_grad():
        size = _read(model, texts[:1]).final_BD.shape[1] if longest else 0
    for start in range(0, len(texts), ROWS):
        for squares_L in _squares(model, texts[start : start + ROWS], size):
            sums[: len(squares_L)] += squares_L.sqrt().flip(0).cpu().numpy()
            counts[: len(squares_L)] += 1
    return sums / np.maximum(counts, 1)


class _Read(NamedTuple):
    """What was read of every token, the final states it led to, and how tokens lie in rows."""

    x_TD: Tensor
    final_BD: Tensor
    layout: Layout


def _read(model: nn.Module, texts: Sequence[Ids]) -> _Read:
    read = pack(texts).to(next(model.parameters()).device)
    tape = Tape(FROM, TO, edits={FROM: lambda _, x_TD: x_TD.detach().requires_grad_()})
    model(read, tape=tape)
    return _Read(tape.kept[FROM], tape.kept[TO], read.layout)


def _squares(model: nn.Module, texts: Sequence[Ids], size: int) -> list[Tensor]:
    """For every token of every text ‖∂ final / ∂ x_i‖², summed over the numbers of that state.

    Rows know nothing of each other, so one way back can ask each copy of a text about a number of
    its own, and answers for as many numbers as there are copies.
    """
    copies = min(size, max(1, TOKENS // max(1, sum(map(len, texts)))))
    sums: list[Tensor] = []
    for first in range(0, size, copies):
        numbers = range(first, min(first + copies, size))
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN: no way back
            read = _read(model, [ids for ids in texts for _ in numbers])
            asked_B = torch.tensor([*numbers] * len(texts), device=read.x_TD.device)
            asked = read.final_BD.gather(1, asked_B[:, None]).sum()
            (gradient_TD,) = torch.autograd.grad(asked, read.x_TD)
        rows = read.layout.split(gradient_TD.double().square().sum(1))
        each = range(0, len(rows), len(numbers))
        found = [torch.stack(rows[at : at + len(numbers)]).sum(0) for at in each]
        sums = [one + other for one, other in zip(sums, found, strict=True)] if sums else found
    return sums


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
