"""A generator and a discriminator in one forward pass (Clark et al., 2020, section 2)."""

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.batch import PackedTokens
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.build.trunk_with_heads import Outputs, TrunkWithHeadsModule

HEADS = GENERATOR_HEAD, DISCRIMINATOR_HEAD = "mlm", "replaced_token"


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
        others = {head: at for head, at in positions.items() if head not in HEADS}
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
