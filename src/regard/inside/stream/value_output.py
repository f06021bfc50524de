"""W_V · W_O of a head: what it writes for a token that it attends to.

Elhage et al. (2021), "A Mathematical Framework for Transformer Circuits": with W_E and W_U, the
embedding and the unembedding, W_E W_V W_O W_U has the logit of each token for each attended token.
A head copies if the eigenvalues of this matrix are positive: attended tokens become more probable.
"""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.checks import check_whole
from regard.inference.model_runner import ModelRunner
from regard.layers.attention import HeadsModule
from regard.models.attention_site import AttentionSite, require_causal
from regard.models.trunk_with_heads import TrunkWithHeadsModule


def value_output(attention: HeadsModule, head: int) -> Tensor:
    """W_V · W_O of a head, (input width, output width); heads that share keys share W_V."""
    heads = attention.heads
    check_whole("head", head, 0, heads.count - 1)
    layers = dict(attention.named_children())
    projection = cast(nn.Linear, layers.get("qkv") or layers["kv"])
    values_VD = projection.weight[-heads.values :].unflatten(0, (heads.kv, heads.value))
    output_DV = attention.o.weight.unflatten(1, (heads.count, heads.value))[:, head]
    return (output_DV @ values_VD[head * heads.kv // heads.count]).T


def attention_module(model: ModelRunner, site: AttentionSite, layer: int) -> HeadsModule:
    """Attention of a layer; layers that share weights have one module."""
    check_whole("layer", layer, 0, site.layers - 1)
    numbers = getattr(model.facts, site.side).stack.block_numbers
    path = site.tape_path.format(layer=numbers[layer])
    return cast(HeadsModule, model.module.get_submodule(path))


@torch.no_grad()
def copying_scores(model: ModelRunner) -> list[np.ndarray]:
    """Copying score Σλ / Σ|λ| of each head of a causal model, from -1 to 1, by layer.

    λ are the eigenvalues of W_E W_V W_O W_U and of the small matrix W_V W_O W_U W_E; norms are
    left out.
    """
    site = require_causal(model.facts.attention_sites)
    module = cast(TrunkWithHeadsModule, model.module)
    embedding, unembedding = module.trunk.embed.token, cast(nn.Linear, module.output)
    vocabulary_DD = unembedding.weight.double().T @ embedding.weight.double()
    scores = []
    for layer, count in enumerate(site.heads):
        attention = attention_module(model, site, layer)
        circuits_HDD = torch.stack(
            [value_output(attention, head).double() @ vocabulary_DD for head in range(count)]
        )
        values_HD = torch.linalg.eigvals(circuits_HDD.cpu())
        scores.append((values_HD.sum(-1).real / values_HD.abs().sum(-1)).numpy())
    return scores
