"""DeiT (Touvron et al., 2020, arXiv:2012.12877): ViT with a second token before the patches, which
learns from a teacher. Predictions are the mean over both tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from regard.core.errors import BadInput
from regard.core.tape import NullTape
from regard.images.processor import ImageProcessor
from regard.models.facts import at_least, change
from regard.models.formats import Architectures, HFHead, LabelCount
from regard.models.heads import AnyHead, Inputs, Named, read_rows
from regard.models.label_heads import LabelHead
from regard.models.paper import Paper
from regard.models.papers import vit
from regard.models.pools import FirstTokens
from regard.models.trunk import Trunk
from regard.weights import WeightMap


@dataclass(frozen=True)
class DistilledLabelHead(AnyHead):
    """Label head with two linear layers; logits are averaged (Touvron et al., 2020, section 4).

    They read the class token and the distillation token; the second learns from a teacher.
    """

    name: ClassVar[str] = LabelHead.name
    per_row: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_rows)
    joins_rows: ClassVar[bool] = False  # logits of both layers have rows on their second axis
    outputs: int

    def __post_init__(self) -> None:
        at_least(1, self, "outputs")

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "DistilledLabelModule":
        if width != 2 * trunk.width:
            raise BadInput("a distilled label head needs the pool FirstTokens(2)", key="pool")
        return DistilledLabelModule(self, trunk)

    def run(self, module: nn.Module, inputs: Sequence[object], tape: NullTape) -> Named:
        layers_LBC = module(*inputs)
        return {"label_layers": layers_LBC, self.name: tape("logits", layers_LBC.mean(0))}

    def macs(self, trunk: Trunk, width: int) -> int:
        return width * self.outputs


class DistilledLabelModule(nn.Module):
    """Module of the distilled label head: logits (2, rows, outputs) of both layers."""

    def __init__(self, head: DistilledLabelHead, trunk: Trunk):
        super().__init__()
        self.out = nn.ModuleList(nn.Linear(trunk.width, head.outputs) for _ in range(2))

    def forward(self, states_ND: Tensor) -> Tensor:
        parts = zip(self.out, states_ND.chunk(len(self.out), -1), strict=True)
        return torch.stack([layer(part_ND) for layer, part_ND in parts])


BASE = change(vit.BASE, prefix_tokens=2)
SMALL = change(vit.SMALL, prefix_tokens=2)
TINY = change(vit.TINY, prefix_tokens=2)


class DeiTFormat(vit.ViTFormat):
    """The format of DeiT, with two tokens before the patches."""

    names = vit.HF_NAMES | {"prefix": "embeddings.{cls_token,distillation_token}"}


# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
DISTILLED = HFHead(
    DistilledLabelHead(2), "cls_classifier.", (LabelCount("outputs"),), pool=FirstTokens(2)
)
ARCHITECTURES = Architectures(
    {
        "DeiTModel": (),
        "DeiTForImageClassification": (vit.LABEL,),
        "DeiTForImageClassificationWithTeacher": (DISTILLED,),
    }
)
HF = DeiTFormat(
    name="DeiT",
    model_type="deit",
    defaults=change(BASE, eps=1e-12),
    config_map=(*vit.CONFIG, ARCHITECTURES),
    weights=WeightMap(vit.HF_LAYERS, prefix="deit.", unprefixed=vit.HF_HEADS),
    tokenizer=ImageProcessor.load,
)

PAPER = Paper(
    name="DeiT",
    year=2020,
    title="Training data-efficient image transformers & distillation through attention",
    authors=(
        "Hugo Touvron, Matthieu Cord, Matthijs Douze, Francisco Massa, Alexandre "
        "Sablayrolles, Hervé Jégou"
    ),
    arxiv="2012.12877",
    after="ViT",
    tokenizer=ImageProcessor.name,
    sizes={"base": BASE, "small": SMALL, "tiny": TINY},
    published={"base": 87_000_000, "small": 22_000_000, "tiny": 6_000_000},
    heads=(vit.LABEL, DISTILLED),
    formats={"hf": HF},
)
