"""GPT-2 in the manner of nanoGPT, as a peer: a few layers of torch over rows of one length.

Projections of queries, keys and values are one matrix, attention is torch's own, the vocabulary is
filled up to a multiple of 64 by tokens that no text has, and there are logits at all positions.
"""

import json
from pathlib import Path

import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

MULTIPLE = 64
NAMES = {  # of a layer's parts: in a folder of Hugging Face, and here
    "ln_1": "attention_norm",
    "attn.c_attn": "qkv",
    "attn.c_proj": "o",
    "ln_2": "mlp_norm",
    "mlp.c_fc": "up",
    "mlp.c_proj": "down",
}


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

    def __init__(self, vocab: int, longest: int, width: int, depth: int, heads: int, inner: int):
        super().__init__()
        self.token = nn.Embedding(-(-vocab // MULTIPLE) * MULTIPLE, width)
        self.position = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(PlainBlock(width, heads, inner) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    @classmethod
    def from_folder(cls, folder: Path) -> "PlainGPT":
        """With the weights of a folder of Hugging Face; vectors of further tokens are zeros."""
        config = json.loads((folder / "config.json").read_text())
        width = config["n_embd"]
        sizes = config["vocab_size"], config["n_positions"], width
        inner = config.get("n_inner") or 4 * width
        plain = cls(*sizes, config["n_layer"], config["n_head"], inner)
        stored = load_file(folder / "model.safetensors")
        token = stored["transformer.wte.weight"]
        fill = plain.token.num_embeddings - len(token)
        weights = {
            "token.weight": F.pad(token, (0, 0, 0, fill)),
            "position.weight": stored["transformer.wpe.weight"],
        }
        for part in ("weight", "bias"):
            weights[f"norm.{part}"] = stored[f"transformer.ln_f.{part}"]
            for layer in range(len(plain.blocks)):
                for theirs, ours in NAMES.items():
                    tensor = stored[f"transformer.h.{layer}.{theirs}.{part}"]  # matrices transposed
                    weights[f"blocks.{layer}.{ours}.{part}"] = (
                        tensor.t() if tensor.ndim == 2 else tensor
                    )
        plain.load_state_dict(weights)
        return plain

    def forward(self, tokens_BL: Tensor, targets_BL: Tensor) -> Tensor:
        x_BLD = self.token(tokens_BL) + self.position.weight[: tokens_BL.shape[1]]
        for block in self.blocks:
            x_BLD = block(x_BLD)
        logits_BLV = F.linear(self.norm(x_BLD), self.token.weight)
        return F.cross_entropy(logits_BLV.flatten(0, 1), targets_BL.flatten())
