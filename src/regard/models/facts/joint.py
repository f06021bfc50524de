"""A pair of models that are trained together and saved as two (ELECTRA: Clark et al., 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.ground.errors import BadInput
from regard.models.build.joint import GENERATOR_HEAD, JointModule
from regard.models.facts.shapes import NO_POSITIONS, TrunkWithHeads
from regard.models.facts.trunk import Trunk


@dataclass(frozen=True)
class Joint:
    """A generator that replaces tokens and a discriminator that detects them.

    They share the vectors of tokens, positions and segments; the generator samples with a softmax
    of this ``temperature``.
    """

    in_rectangles: ClassVar[bool] = False
    discriminator: TrunkWithHeads
    generator: TrunkWithHeads
    temperature: float = 1.0

    def __post_init__(self) -> None:
        one, other = (model.trunk for model in (self.discriminator, self.generator))
        if one.token_width != other.token_width:
            raise BadInput("embedding_size: a generator and its discriminator share token vectors")

    @property
    def trunk(self) -> Trunk:
        """That of the discriminator."""
        return self.discriminator.trunk

    @property
    def eager(self) -> bool:
        """Whether they are neither compiled nor captured."""
        return self.discriminator.eager or self.generator.eager

    def build(self) -> JointModule:
        """The module of these facts, with new weights."""
        return JointModule(
            discriminator=self.discriminator.build(),
            generator=self.generator.build(),
            temperature=self.temperature,
            tied=self.generator.head(GENERATOR_HEAD).tied,
        )

    def models(self, module: Any) -> dict[str, tuple[TrunkWithHeads, Any]]:
        """What is saved, by folder."""
        return {
            "model": (self.discriminator, module.discriminator),
            "generator": (self.generator, module.generator),
        }

    def training_flops(
        self, lengths: Sequence[tuple[int, ...]], positions: Mapping[str, int] = NO_POSITIONS
    ) -> float:
        """Operations of one step of both."""
        both = (self.generator, self.discriminator)
        return sum(one.training_flops(lengths, positions) for one in both)
