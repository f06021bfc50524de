"""Convolutional encoders (Gehring et al., 2016)."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.errors import BadFact
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.attention import EncoderOutput
from regard.layers.dropout import Dropout
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, share
from regard.models.macs import MACs
from regard.models.trunk import AnyStack, StackModule


@dataclass(frozen=True)
class ConvEncoderFacts(AnyStack):
    """A convolutional encoder: ``depth`` gated layers, each over windows of ``kernel`` tokens."""

    width: int
    depth: int
    kernel: int = 3
    dropout: float = 0.1

    def __post_init__(self) -> None:
        at_least(1, self, "width", "depth", "kernel")
        share(self, "dropout")
        if self.kernel % 2 == 0:
            raise BadFact("kernel", f"must be odd, to be centred on a token, not {self.kernel}")

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "ConvEncoderModule":
        return ConvEncoderModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        return MACs(self.depth * self.kernel * self.width * 2 * self.width)


class ConvEncoderModule(StackModule):
    """Convolutional encoder: an embedding and convolutional layers."""

    capturable = True

    def __init__(self, facts: ConvEncoderFacts, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(facts.input_width, facts.dropout)
        self.layers = nn.ModuleList(Convolution(facts) for _ in range(facts.depth))

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE
    ) -> EncoderOutput:
        """A state for every token."""
        x_TD = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        for number, layer in enumerate(self.layers):
            x_TD = tape.under("blocks").under(number)("output", layer(x_TD, layout))
        return EncoderOutput(tape("output", x_TD), layout)


class Convolution(nn.Module):
    """Gated convolution (x + GLU(W[x_{i-k}; …; x_{i+k}] + b)) · √½ with k = kernel // 2.

    Tokens are packed; neighbours that belong to another row count as zeros.
    """

    def __init__(self, facts: ConvEncoderFacts):
        super().__init__()
        width, size, dropout = facts.width, facts.kernel, facts.dropout
        self.reach = size // 2
        self.linear = nn.Linear(size * width, 2 * width)
        nn.init.normal_(self.linear.weight, std=math.sqrt(4 * (1 - dropout) / (size * width)))
        nn.init.zeros_(self.linear.bias)
        self.dropout = Dropout(dropout)

    def forward(self, x_TD: Tensor, layout: Layout) -> Tensor:
        gated_TD = F.glu(self.linear(self._neighbours(self.dropout(x_TD), layout)), dim=-1)
        return (x_TD + gated_TD) * math.sqrt(0.5)

    def _neighbours(self, x_TD: Tensor, layout: Layout) -> Tensor:
        """The window around each token, (T, size · width)."""
        tokens = len(x_TD)
        wide_TD = F.pad(x_TD, (0, 0, self.reach, self.reach))
        row_T = layout.rows_T
        place_T = torch.arange(tokens, device=x_TD.device) - layout.offsets[row_T]
        length_T = layout.lengths_B[row_T]
        window = []
        for shift in range(-self.reach, self.reach + 1):
            at_T = place_T + shift
            same_row_T = (at_T >= 0) & (at_T < length_T)
            shifted_TD = wide_TD[self.reach + shift : self.reach + shift + tokens]
            window.append(shifted_TD.masked_fill(~same_row_T[:, None], 0.0))
        return torch.cat(window, dim=-1)
