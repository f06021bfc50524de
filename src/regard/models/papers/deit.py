"""DeiT (Touvron et al., 2020, arXiv:2012.12877): ViT with a second token before the patches, which
learns from a teacher. Predictions are the mean of those of both tokens.
"""

from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.formats import Architectures, HFHead, LabelCount
from regard.models.formats.vit import CONFIG, HF_HEADS, HF_LAYERS, DeiTFormat
from regard.models.heads import DistilledLabelHead
from regard.models.paper import Paper
from regard.models.papers import vit
from regard.models.pools import FirstTokens
from regard.weights import WeightMap

BASE = change(vit.BASE, prefix_tokens=2)
SMALL = change(vit.SMALL, prefix_tokens=2)
TINY = change(vit.TINY, prefix_tokens=2)

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
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(HF_LAYERS, prefix="deit.", unprefixed=HF_HEADS),
    tokenizer=ImageProcessor.load,
)

PAPER = Paper(
    name="DeiT",
    year=2020,
    title="Training data-efficient image transformers & distillation through attention",
    arxiv="2012.12877",
    after="ViT",
    tokenizer=ImageProcessor.name,
    sizes={"base": BASE, "small": SMALL, "tiny": TINY},
    published={"base": 87_000_000, "small": 22_000_000, "tiny": 6_000_000},
    formats={"hf": HF},
    kinds=(DistilledLabelHead,),
)
