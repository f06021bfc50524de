"""ViT (Dosovitskiy et al., 2020, arXiv:2010.11929): an encoder over the patches of an image, with
norms before the sublayers, as GPT-2 has them. The state of a class token is classified.

The small and tiny sizes are those of DeiT (Touvron et al., 2020, arXiv:2012.12877). The number
after a size is that of the pixels on a side of a patch: 16 unless it is there, 14 for huge.
"""

from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.formats import Architectures, HFHead, LabelCount
from regard.models.formats.vit import CONFIG, HF_HEADS, HF_LAYERS, ViTFormat
from regard.models.heads import LabelHead
from regard.models.paper import Paper
from regard.models.patches import Patches
from regard.models.pools import FirstToken
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.weights import WeightMap

BASE = TrunkWithHeads(
    trunk=Trunk(
        Patches(patch_size=16, image_size=224, channels=3, prefix_tokens=1, positions="learned"),
        Stack(
            width=768,
            depth=12,
            heads=12,
            inner=3_072,
            norm="pre",
            final_norm=True,
            activation="gelu",
            eps=1e-6,
            dropout=0.0,
        ),
    ),
    pool=FirstToken(dense=False),
    init_std=0.02,
)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
HUGE = change(BASE, width=1_280, depth=32, heads=16, inner=5_120, patch_size=14)
SMALL = change(BASE, width=384, heads=6, inner=1_536)
TINY = change(BASE, width=192, heads=3, inner=768)

# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
LABEL = HFHead(LabelHead(2), "classifier.", (LabelCount("outputs"),), pool=BASE.pool)
ARCHITECTURES = Architectures({"ViTModel": (), "ViTForImageClassification": (LABEL,)})
HF = ViTFormat(
    name="ViT",
    model_type="vit",
    defaults=change(BASE, eps=1e-12),
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(HF_LAYERS, prefix="vit.", unprefixed=HF_HEADS),
    tokenizer=ImageProcessor.load,
)

PAPER = Paper(
    name="ViT",
    year=2020,
    title="An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale",
    arxiv="2010.11929",
    after="Transformer",
    tokenizer=ImageProcessor.name,
    sizes={
        "base": BASE,
        "base-32": change(BASE, patch_size=32),
        "large": LARGE,
        "large-32": change(LARGE, patch_size=32),
        "huge": HUGE,
        "small": SMALL,
        "small-32": change(SMALL, patch_size=32),
        "tiny": TINY,
    },
    published={
        "base": 86_000_000,
        "large": 307_000_000,
        "huge": 632_000_000,
        "small": 22_000_000,
        "tiny": 5_000_000,
    },
    formats={"hf": HF},
    kinds=(Patches,),
)
