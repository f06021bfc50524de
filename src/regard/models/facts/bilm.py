"""Facts of ELMo's stack: language models in both directions."""

from dataclasses import dataclass
from typing import ClassVar

from regard.models.build.bilm import BiLMModule
from regard.models.facts.checks import above_zero, at_least, share
from regard.models.facts.embedding import AnyEmbedding
from regard.models.facts.flops import Products
from regard.models.facts.stack import AnyStack
from regard.parts.recurrent.projected_lstm import ProjectedBiLSTM


@dataclass(frozen=True)
class BiLMStack(AnyStack):
    """N LSTM layers in each direction, whose states of ``cells`` are projected to ``width``.

    Both directions read the same word vectors, and the state of a word is [forward; backward]
    (Peters et al., 2018). Memory and projections are clipped to ±``cell_clip`` and
    ±``projection_clip``; None does not clip. ``residual``: from the second layer on. ``dropout``
    falls on the input of every layer and on the last states.
    """

    eager: ClassVar[bool] = True
    carries_state: ClassVar[bool] = True
    two_directions: ClassVar[bool] = True
    width: int
    cells: int
    depth: int = 2
    cell_clip: float | None = 3.0
    projection_clip: float | None = 3.0
    residual: bool = True
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "cells", "depth"):
            at_least(1, name, getattr(self, name))
        for name in ("cell_clip", "projection_clip"):
            above_zero(name, getattr(self, name))
        share("dropout", self.dropout)

    @property
    def output_width(self) -> int:
        return 2 * self.width

    @property
    def state_widths(self) -> tuple[int, ...]:
        """The word vector stands for both directions."""
        return (self.output_width,) * (1 + self.depth)

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> BiLMModule:
        """The layers over that embedding."""
        clips = {"cell_clip": self.cell_clip, "projection_clip": self.projection_clip}
        layers = [
            ProjectedBiLSTM(self.width, self.width, self.cells, **clips) for _ in range(self.depth)
        ]
        vectors = embed.build(self.input_width, 0.0)
        return BiLMModule(vectors, layers, residual=self.residual, dropout=self.dropout)

    def products(self, source: AnyStack | None = None) -> Products:
        """Gates and projections, in both directions."""
        layer = 2 * self.width * 4 * self.cells + self.cells * self.width
        return Products(2 * self.depth * layer)
