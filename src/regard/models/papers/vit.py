"""ViT (Dosovitskiy et al., 2020, arXiv:2010.11929): an encoder over the patches of an image, with
norms before the sublayers, as GPT-2 has them. The state of a class token is classified.

The small and tiny sizes are from DeiT (Touvron et al., 2020, arXiv:2012.12877). The number after a
size is the width of a patch in pixels; default: 16, for huge 14.
"""

from collections.abc import Mapping
from typing import ClassVar, cast

from regard.core.errors import BadInput
from regard.images.processor import ImageProcessor
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change
from regard.models.formats import Architectures, HFHead, LabelCount
from regard.models.formats.config_map import ENCODER_KEYS, Config, ConfigRow, Constant, Key, Names
from regard.models.formats.hf_format import HFFormat
from regard.models.label_heads import LabelHead
from regard.models.paper import Paper
from regard.models.patches import Patches
from regard.models.pools import FirstToken
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.weights import Join, Reshape, Rule, WeightLine, WeightMap

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


class PoolerSize(ConfigRow):
    """Output size of the pooler, which must be the width."""

    key = "pooler_output_size"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        size, width = config.get(self.key), config.get("hidden_size", 768)
        if size not in (None, width):
            raise BadInput(f"{self.key} must equal hidden_size ({width}), not {size!r}")
        return {}


class Sides(Key):
    """Key with the size of images or patches: a number of pixels, or [height, width]."""

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        match config.get(self.key):
            case [height, width]:
                config = {**config, self.key: height if height == width else (height, width)}
        return super().read(config, tensors)


CONFIG = (
    *ENCODER_KEYS,
    Key("drop_path_rate", "drop_path"),  # ViTs of transformers lack it, and ignore it
    Key("initializer_range", "init_std"),
    Key("layer_norm_eps", "eps"),
    Sides("image_size", "image_size"),
    Sides("patch_size", "patch_size"),
    Key("num_channels", "channels"),
    PoolerSize(),
    Constant("pooler_act", "tanh"),
    Constant("qkv_bias", True),
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)
LAYER, BLOCK, OURS = "encoder.layer.{i}.", "blocks.{i}.", "trunk.blocks.{i}."
JOIN = (Join((1, 1, 1)),)
HF_LAYERS = (
    Rule(LAYER + "attention.attention.{query,key,value}.*", OURS + "attention.qkv.*", JOIN),
    Rule(LAYER + "attention.output.dense.*", OURS + "attention.o.*"),
    Rule(LAYER + "layernorm_before.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "intermediate.dense.*", OURS + "mlp.up.*"),
    Rule(LAYER + "output.dense.*", OURS + "mlp.down.*"),
    Rule(LAYER + "layernorm_after.*", OURS + "mlp_residual.norm.*"),
    Rule("layernorm.*", "trunk.norm.*"),
    Rule("pooler.dense.*", "pool.dense.*"),
)
HF_HEADS = (
    Rule("classifier.*", "heads.label.out.*"),
    Rule("{cls,distillation}_classifier.*", "heads.label.out.{0,1}.*"),
)
TIMM_LAYERS = (
    Rule(BLOCK + "attn.qkv.*", OURS + "attention.qkv.*"),
    Rule(BLOCK + "attn.proj.*", OURS + "attention.o.*"),
    Rule(BLOCK + "norm1.*", OURS + "attention_residual.norm.*"),
    Rule(BLOCK + "ls1.gamma", OURS + "attention_residual.layer_scale"),
    Rule(BLOCK + "mlp.fc1.*", OURS + "mlp.up.*"),
    Rule(BLOCK + "mlp.fc2.*", OURS + "mlp.down.*"),
    Rule(BLOCK + "norm2.*", OURS + "mlp_residual.norm.*"),
    Rule(BLOCK + "ls2.gamma", OURS + "mlp_residual.layer_scale"),
    Rule("norm_pre.*", "trunk.embed.norm.*"),
    Rule("norm.*", "trunk.norm.*"),
)
TIMM_HEAD = Rule("head.*", "heads.label.out.*")
DISTILLED_HEAD = Rule("{head,head_dist}.*", "heads.label.out.{0,1}.*")
HF_NAMES = {
    "prefix": "embeddings.cls_token",
    "positions": "embeddings.position_embeddings",
    "projection": "embeddings.patch_embeddings.projection.",
}
TIMM_NAMES = {"prefix": "cls_token", "positions": "pos_embed", "projection": "patch_embed.proj."}
DISTILLED_NAMES = TIMM_NAMES | {"prefix": "{cls_token,dist_token}"}


def embedding_rules(facts: ModelFacts, names: Mapping[str, str]) -> tuple[WeightLine, ...]:
    """Rules for the tensors of the embedding, which have more axes in files."""
    embed, width = cast(Patches, facts.encoder.embed), facts.encoder.width
    patch = (embed.channels, *embed.patch)
    as_rows = (Reshape((1, -1, width), (-1, width)),)
    join = Join((1,) * embed.prefix_tokens)
    flat = (Reshape((width, *patch), (width, -1)),)
    return (
        Rule(names["prefix"], "trunk.embed.prefix.weight", (*as_rows, join)),
        Rule(names["positions"], "trunk.embed.position.weight", as_rows),
        Rule(names["projection"] + "weight", "trunk.embed.projection.weight", flat),
        Rule(names["projection"] + "bias", "trunk.embed.projection.bias"),
    )


class ViTFormat(HFFormat):
    """The format of ViT, whose tensor shapes depend on the patch size."""

    names: ClassVar[Mapping[str, str]] = HF_NAMES

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        lines = (*embedding_rules(facts, self.names), *HF_LAYERS)
        return WeightMap(lines, prefix=self.weights.prefix, unprefixed=HF_HEADS)


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
    authors=(
        "Alexey Dosovitskiy, Lucas Beyer, Alexander Kolesnikov, Dirk Weissenborn, Xiaohua "
        "Zhai, Thomas Unterthiner, Mostafa Dehghani, Matthias Minderer, Georg Heigold, "
        "Sylvain Gelly, Jakob Uszkoreit, Neil Houlsby"
    ),
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
    heads=(LABEL,),
    formats={"hf": HF},
)
