"""Facts of convolutional encoders."""

from dataclasses import dataclass

from regard.ground.errors import BadInput
from regard.models.build.encoders import ConvEncoderModule
from regard.models.facts.checks import at_least, share
from regard.models.facts.embedding import AnyEmbedding
from regard.models.facts.flops import Products
from regard.models.facts.stack import AnyStack
from regard.parts.conv import Convolution


@dataclass(frozen=True)
class ConvEncoderFacts(AnyStack):
    """A convolutional encoder: ``depth`` gated layers with a ``kernel`` of so many tokens each."""

    width: int
    depth: int
    kernel: int = 3
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("width", "depth", "kernel"):
            at_least(1, name, getattr(self, name))
        share("dropout", self.dropout)
        if self.kernel % 2 == 0:
            raise BadInput(f"kernel must be odd, to be centred on a token, not {self.kernel}")

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> ConvEncoderModule:
        """Convolutions over that embedding."""
        layers = (
            Convolution(self.width, self.kernel, dropout=self.dropout) for _ in range(self.depth)
        )
        return ConvEncoderModule(embed.build(self.input_width, self.dropout), layers)

    def products(self, source: AnyStack | None = None) -> Products:
        """All layers, each with as many gates as outputs."""
        return Products(self.depth * self.kernel * self.width * 2 * self.width)
