"""GPT-2 in the manner of nanoGPT, as a peer: a few layers of torch over rows of one length.

Projections of queries, keys and values are one matrix, attention is torch's own, the vocabulary is
filled up to a multiple of 64 by tokens that no text has, and there are logits at all positions.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.facts import TrunkWithHeads
from regard.weights import Rule, WeightMap
from regard.weights.files import weights_of
from regard.weights.weight_map import Extras

MULTIPLE = 64
LAYER, OURS = "blocks.{i}.", "trunk.blocks.{i}."
WEIGHTS = WeightMap(
    (
        Rule("token.weight", "trunk.embed.token.weight"),
        Rule("position.weight", "trunk.embed.position.weight"),
        Rule(LAYER + "attention_norm.*", OURS + "attention_residual.norm.*"),
        Rule(LAYER + "qkv.*", OURS + "attention.qkv.*"),
        Rule(LAYER + "o.*", OURS + "attention.o.*"),
        Rule(LAYER + "mlp_norm.*", OURS + "mlp_residual.norm.*"),
        Rule(LAYER + "up.*", OURS + "mlp.up.*"),
        Rule(LAYER + "down.*", OURS + "mlp.down.*"),
        Rule("norm.*", "trunk.norm.*"),
    )
)


class PlainBlock(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, width: int, heads: int, inner: int):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x_BLD: Tensor) -> Tensor:
        parts = self.qkv(self.attention_norm(x_BLD)).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended_BHLK = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BLD = x_BLD + self.o(attended_BHLK.transpose(1, 2).flatten(2))
        return x_BLD + self.down(F.gelu(self.up(self.mlp_norm(x_BLD)), approximate="tanh"))


class PlainGPT(nn.Module):
    """The mean loss of the next tokens; token vectors are the output layer too."""

    def __init__(self, facts: TrunkWithHeads):
        super().__init__()
        stack, embed = facts.trunk.stack, facts.trunk.embed
        vocab = -(-embed.vocab // MULTIPLE) * MULTIPLE
        self.token = nn.Embedding(vocab, stack.width)
        self.position = nn.Embedding(embed.position.longest, stack.width)
        sizes = stack.width, stack.heads, stack.inner
        self.blocks = nn.ModuleList(PlainBlock(*sizes) for _ in range(stack.depth))
        self.norm = nn.LayerNorm(stack.width)

    @classmethod
    def like(cls, model: nn.Module, facts: TrunkWithHeads) -> "PlainGPT":
        """With the weights of regard's ``model``; vectors of tokens that it lacks are zeros."""
        plain = cls(facts)
        weights: dict[str, Any] = WEIGHTS.write(weights_of(model), Extras())
        fill = plain.token.num_embeddings - len(weights["token.weight"])
        weights["token.weight"] = F.pad(weights["token.weight"], (0, 0, 0, fill))
        plain.load_state_dict(weights)
        return plain

    def forward(self, tokens_BL: Tensor, targets_BL: Tensor) -> Tensor:
        x_BLD = self.token(tokens_BL) + self.position.weight[: tokens_BL.shape[1]]
        for block in self.blocks:
            x_BLD = block(x_BLD)
        logits_BLV = F.linear(self.norm(x_BLD), self.token.weight)
        return F.cross_entropy(logits_BLV.flatten(0, 1), targets_BL.flatten())
