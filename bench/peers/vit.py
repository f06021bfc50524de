"""ViT as peers: timm's VisionTransformer, and transformers' ViTForImageClassification (sdpa)."""

from pathlib import Path
from typing import Any

import torch
from corpus import images
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from peers.common import System, compiled, device, rounds_over, training_step

FORMS = {  # the library, and the mode in which its model is compiled
    "timm": ("timm", None),
    "timm-compiled": ("timm", ""),
    "timm-graphs": ("timm", "reduce-overhead"),
    "timm-autotuned": ("timm", "max-autotune-no-cudagraphs"),
    "eager": ("hf", None),
    "compiled": ("hf", ""),
    "graphs": ("hf", "reduce-overhead"),
}


def timm_model(folder: Path) -> nn.Module:
    """timm's ViT: images to logits."""
    import timm

    return timm.create_model(f"local-dir:{folder}", pretrained=True)


class TransformersViT(nn.Module):
    """transformers' ViT: images to logits."""

    def __init__(self, folder: Path):
        from transformers import ViTForImageClassification

        super().__init__()
        self.model = ViTForImageClassification.from_pretrained(folder, attn_implementation="sdpa")

    def forward(self, images_BCHW: Tensor) -> Tensor:
        return self.model(images_BCHW).logits


READERS = {"timm": timm_model, "hf": TransformersViT}


def normalised(bytes_BCHW: Tensor) -> Tensor:
    """The numbers that a model reads: mean and deviation of each channel are 0.5."""
    return bytes_BCHW.float() / 255 * 2 - 1


def classification(
    form: str, folder: str, corpus: dict[str, Any], optimiser: dict[str, Any]
) -> System:
    """A step over normalised images that are on the device, from the weights of a folder."""
    (library, mode), place = FORMS[form], device()
    model = READERS[library](Path(folder)).to(place).train()

    def loss_of(images_BCHW: Tensor, targets_B: Tensor) -> Tensor:
        return cross_entropy(model(images_BCHW), targets_B)

    batches = [
        {
            "images_BCHW": normalised(torch.from_numpy(pixels).to(place)),
            "targets_B": torch.from_numpy(labels).to(place),
        }
        for pixels, labels in images(**corpus)
    ]
    captured = mode == "reduce-overhead" and place.type == "cuda"
    run = compiled(loss_of, mode)
    step = training_step(model, run, lambda batch: batch, optimiser, place, captured=captured)
    return rounds_over(step, batches)
