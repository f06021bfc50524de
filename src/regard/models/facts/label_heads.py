"""Facts of heads of labels that are more than one linear layer."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from regard.ground.errors import BadInput
from regard.models.build.heads import NormedHeadModule, SeveralHeadsModule
from regard.models.facts.checks import at_least, share
from regard.models.facts.heads import AnyHead, LabelHead
from regard.models.facts.trunk import Trunk


@dataclass(frozen=True)
class DistilledLabelHead(AnyHead):
    """Labels of whole rows by two linear layers, over the class and the distillation token, whose
    logits are averaged (Touvron et al., 2020, section 4).

    The second one learns from a teacher: see ``LabelDistillation``.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    averages: ClassVar[bool] = True
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, "outputs", self.outputs)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> SeveralHeadsModule:
        """Over the states of both tokens, side by side."""
        if width != 2 * trunk.width:
            raise BadInput("pool: a distilled label head reads two tokens, the pool FirstTokens(2)")
        return SeveralHeadsModule(trunk.width, self.outputs, 2)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """Both layers."""
        return (width or trunk.width) * self.outputs


@dataclass(frozen=True)
class NormedLabelHead(AnyHead):
    """Labels, or numbers, of whole rows by two linear layers, with ReLU between them.

    Batch norm and dropout fall on the input of each (Howard & Ruder, 2018, section 3.3);
    ``rates`` are those of dropout, ``hidden`` is the size between the layers.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    reads_layout: ClassVar[bool] = True
    eager: ClassVar[bool] = True
    outputs: int
    hidden: int = 50
    rates: tuple[float, float] = (0.4, 0.1)

    def __post_init__(self) -> None:
        for name in ("outputs", "hidden"):
            at_least(1, name, getattr(self, name))
        if len(self.rates) != 2:
            raise BadInput(f"rates: {self.rates} are not those of two layers")
        for rate in self.rates:
            share("rates", rate)

    def build(
        self, trunk: Trunk, tokens: nn.Embedding, width: int | None = None
    ) -> NormedHeadModule:
        """Of the width of what it reads."""
        return NormedHeadModule(width or trunk.width, self.hidden, self.outputs, self.rates)

    def products(self, trunk: Trunk, width: int | None = None) -> int:
        """Both layers."""
        return self.hidden * ((width or trunk.width) + self.outputs)
