"""A generator and a discriminator that are trained together (ELECTRA, Clark et al., 2020)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.batch import PackedTokens
from regard.ground.errors import BadInput
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import (
    NO_POSITIONS,
    Outputs,
    TrunkWithHeads,
    TrunkWithHeadsModule,
)

GENERATOR_HEAD, DISCRIMINATOR_HEAD = "mlm", "replaced_token"


class JointModule(nn.Module):
    """The generator fills masked tokens, and the discriminator reads what it wrote.

    Both share the vectors of tokens, positions and segments and the norm of their sum.
    """

    def __init__(
        self,
        generator: TrunkWithHeadsModule,
        discriminator: TrunkWithHeadsModule,
        temperature: float,
        *,
        tied: bool,
    ):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.temperature = temperature
        for name in ("token", "position", "segment", "norm"):
            setattr(generator.trunk.embed, name, getattr(discriminator.trunk.embed, name))
        if tied:
            head: nn.Module = generator.heads[GENERATOR_HEAD]
            head.out.weight = discriminator.trunk.embed.token.weight  # type: ignore[union-attr]

    @property
    def main(self) -> TrunkWithHeadsModule:
        """The model for which the other one is trained."""
        return self.discriminator

    def forward(
        self,
        inputs: PackedTokens,
        *,
        positions: Mapping[str, Tensor],
        tape: NullTape = NULL_TAPE,
    ) -> Outputs:
        """The outputs of the discriminator, the logits of the generator, and the tokens sampled.

        ``positions`` of the head of the discriminator say for each token which of the generator's
        samples replaces it; -1: none.
        """
        masked = {GENERATOR_HEAD: positions[GENERATOR_HEAD]}
        generated = self.generator(inputs, positions=masked, tape=tape.under("generator"))
        sampled_N = sample(generated.by_head[GENERATOR_HEAD], self.temperature)
        number_T = positions[DISCRIMINATOR_HEAD]
        tokens_T = torch.where(
            number_T < 0, inputs.tokens_T, F.pad(sampled_N, (1, 0))[number_T + 1]
        )
        others = {head: at for head, at in positions.items() if head not in (GENERATOR_HEAD, DISCRIMINATOR_HEAD)}
        outputs = self.discriminator(
            replace(inputs, tokens_T=tokens_T), positions=others, tape=tape.under("discriminator")
        )
        by_head = {**outputs.by_head, **generated.by_head}
        return outputs._replace(by_head=by_head, tokens_T=tokens_T)


@torch.no_grad()
def sample(logits_NV: Tensor, temperature: float = 1.0) -> Tensor:
    """A token from each softmax: the largest logit after Gumbel noise. It has no gradient."""
    scaled_NV = logits_NV.float() / temperature
    return (scaled_NV - (-torch.rand_like(scaled_NV).log()).log()).argmax(-1)


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
