"""Importance of heads (Michel et al., 2019, arXiv:1905.10650, equation 2).

The importance of a head is the expected absolute gradient of the loss with respect to a gate that
multiplies the output of the head, at 1. Each input has its own gates, so that one backward pass
has the gradients of all inputs of a batch.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import BadInput
from regard.core.tape import Edit, Tape
from regard.inference.model_runner import ModelRunner
from regard.models.attention_site import AttentionSite
from regard.models.trunk_with_heads import Outputs
from regard.text.segmentation import LabelledRows

Loss = Callable[[Outputs], Tensor]
"""Sum of the losses of the inputs of a batch; that of an input depends on no other input."""

LossBatch = tuple[Sequence[LabelledRows], Loss]


def head_importance(model: ModelRunner, batches: Iterable[LossBatch]) -> dict[str, np.ndarray]:
    """Importance (layers, heads) of the heads of each site: mean over inputs of |∂loss/∂gate|.

    A head that a layer lacks is NaN.
    """
    names = model.tape_names()
    sums = {site.name: _no_heads(site) for site in model.sites}
    inputs = 0
    for rows, loss in batches:
        gates = HeadGates(model, rows, names)
        value = loss(model.run(rows, Tape(edits=gates.edits)))
        if not value.requires_grad:
            raise BadInput("importance needs gradients: load the model without a precision")
        for site, layer, gradient_BH in gates.gradients(value):
            sums[site.name][layer, : gradient_BH.shape[1]] += gradient_BH.abs().sum(0).numpy()
        inputs += len(rows)
    if not inputs:
        raise BadInput("importance: there are no inputs")
    return {name: sums_LH / inputs for name, sums_LH in sums.items()}


class HeadGates:
    """Gates (inputs, heads) of every layer with attention, all 1, and the edits that apply them.

    They multiply the outputs of heads; where the tape has none (recurrent attention, pools), the
    weights, which is the same.
    """

    def __init__(
        self, model: ModelRunner, rows: Sequence[LabelledRows], names: Sequence[str]
    ) -> None:
        self.places: list[tuple[AttentionSite, int, Tensor]] = []
        self.edits: dict[str, Edit] = {}
        device = next(model.module.parameters()).device
        for site in model.sites:
            for layer, heads in enumerate(site.heads):
                gates_BH = torch.ones(len(rows), heads, device=device, requires_grad=True)
                path = site.tape_path.format(layer=layer)
                self.places.append((site, layer, gates_BH))
                if f"{path}.head_outputs" in names:
                    lengths = [len(each[site.side].queries.subwords) for each in rows]
                    inputs_T = torch.arange(len(rows)).repeat_interleave(torch.tensor(lengths))
                    self.edits[f"{path}.head_outputs"] = _gate_outputs(gates_BH, inputs_T)
                else:
                    self.edits[f"{path}.weights"] = _gate_weights(gates_BH)

    def gradients(self, loss: Tensor) -> list[tuple[AttentionSite, int, Tensor]]:
        """Site, layer and gradients (inputs, heads) of the loss."""
        gates = [gates_BH for *_, gates_BH in self.places]
        gradients = torch.autograd.grad(loss, gates, allow_unused=True)
        pairs = zip(self.places, gradients, strict=True)
        return [
            (site, layer, torch.zeros(gates_BH.shape) if own is None else own.float().cpu())
            for (site, layer, gates_BH), own in pairs
        ]


def _gate_outputs(gates_BH: Tensor, inputs_T: Tensor) -> Edit:
    def edit(name: str, outputs_THK: Tensor) -> Tensor:
        gates_TH = gates_BH[inputs_T.to(gates_BH.device)]
        return outputs_THK * gates_TH[..., None].to(outputs_THK.dtype)

    return edit


def _gate_weights(gates_BH: Tensor) -> Edit:
    return lambda name, weights_BHLS: (
        weights_BHLS * gates_BH[..., None, None].to(weights_BHLS.dtype)
    )


def _no_heads(site: AttentionSite) -> np.ndarray:
    """Zeros (layers, heads), NaN where a layer has no such head."""
    exists_LH = np.arange(max(site.heads)) < np.array(site.heads)[:, None]
    return np.where(exists_LH, 0.0, np.nan)
