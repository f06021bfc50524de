"""Folders of ``timm``: plain ViTs, and DeiTs with a distillation token.

config.json names an architecture, its arguments and the image preprocessing; queries, keys and
values are one tensor.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch

from regard.core.errors import BadInput, shown
from regard.core.files import write_json
from regard.images.processor import RESAMPLING, ImageProcessor
from regard.models.facts import change, values_named
from regard.models.folders.loaded_model import (
    CONFIG,
    WEIGHTS,
    LoadedModel,
    build_facts,
    check_depth,
    check_tokenizer,
)
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    Constant,
    Key,
    Names,
    read_facts,
    refuse_loss,
    write_config,
)
from regard.models.label_heads import LabelHead
from regard.models.papers import paper, vit
from regard.models.papers.deit import DistilledLabelHead
from regard.models.papers.vit import (
    DISTILLED_HEAD,
    DISTILLED_NAMES,
    TIMM_HEAD,
    TIMM_LAYERS,
    TIMM_NAMES,
    Sides,
    embedding_rules,
)
from regard.models.patches import Patches
from regard.models.pools import FirstToken, FirstTokens, MeanPool
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.label_sets import LabelSet, labels_from_config
from regard.weights import Extras, WeightMap
from regard.weights.files import load_weights, read_folder, weights_of, write_tensors
from regard.weights.weight_map import DELETE_ADVICE

SIZES = "tiny|small|base|large|huge"
ARCHITECTURE = re.compile(
    rf"(?:vit|deit)_({SIZES})(?:_(distilled))?_patch(\d+)_(clip_(?:quickgelu_)?)?(\d+)"
)
# All arguments are written beside the name of an architecture, except what follows from it: whether
# there is a distillation token and, of CLIP's image towers, the norm before the blocks.
DISTILLED = "distilled"
PLAIN_NAME, DISTILLED_NAME = "vit_base_patch16_{}224", "deit_base_distilled_patch16_224"
CLIP: dict[str, object] = {"normed": True, "eps": 1e-5}
VARIANTS = {"": {}, "clip_": CLIP, "clip_quickgelu_": {**CLIP, "activation": "gelu-sigmoid"}}
FILTERS = {name: code for code, name in RESAMPLING.items()}
POOLS = {"token": FirstToken(dense=False), "avg": MeanPool()}
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # unless a folder says


class MlpRatio(ConfigRow):
    """Inner size of feed-forward layers, as a multiple of the width."""

    key = "mlp_ratio"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        ratio, width = config.get(self.key, 4.0), config.get("embed_dim")
        if not isinstance(ratio, int | float) or not isinstance(width, int):
            raise BadInput(
                f"{self.key} and embed_dim must be numbers, not {shown(ratio)} and {shown(width)}"
            )
        return {"inner": int(width * ratio)}

    def write(self, facts: object) -> dict[str, object]:
        (inner,), (width,) = values_named(facts, "inner"), values_named(facts, "width")
        return {self.key: inner / width}


class ClassToken(ConfigRow):
    """Whether there is a class token, and a distillation token beside it."""

    key = "class_token"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        distilled, first = config.get(DISTILLED, False), bool(config.get(self.key, True))
        if distilled and not first:
            raise BadInput(f"{self.key} is false, but a distilled model needs a class token")
        return {"prefix_tokens": first + distilled}

    def write(self, facts: object) -> dict[str, object]:
        (embed,) = values_named(facts, "embed")
        return {self.key: bool(embed.prefix_tokens), DISTILLED: embed.has_distillation_token}


class GlobalPool(ConfigRow):
    """Pool: the class token, both tokens of a distilled model, or the mean of all patches.

    "avg" is supported only for models without class token and without a norm after the mean.
    """

    key = "global_pool"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        name = config.get(self.key, "token")
        if name not in POOLS:
            raise BadInput(f"{self.key} is {shown(name)}; supported: {', '.join(POOLS)}")
        if name == "token" and not config.get("class_token", True):
            raise BadInput(
                f"{self.key} is 'token', but class_token is false: there is no class token"
            )
        plain = not config.get("class_token", True) and config.get("fc_norm") is False
        if name == "avg" and not plain:
            raise BadInput(f"{self.key} 'avg' is supported only without class token and fc_norm")
        return {"pool": FirstTokens(2) if config.get(DISTILLED) else POOLS[name]}

    def write(self, facts: object) -> dict[str, object]:
        (own,) = values_named(facts, "pool")
        name = next((name for name, pool in POOLS.items() if pool == own), "token")
        return {self.key: name, **({"fc_norm": False} if name == "avg" else {})}


class ClassCount(ConfigRow):
    """The number of classes; 0: no head."""

    key = "num_classes"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        count = config.get(self.key, 1_000)
        head = DistilledLabelHead if config.get(DISTILLED) else LabelHead
        return {"output_heads": (head(count),) if count else ()}

    def write(self, facts: object) -> dict[str, object]:
        return {self.key: sum(values_named(facts, "outputs"))}


ARGUMENTS = (
    Sides("img_size", "image_size"),
    Sides("patch_size", "patch_size"),
    Key("in_chans", "channels"),
    Key("embed_dim", "width"),
    Key("depth", "depth"),
    Key("num_heads", "heads"),
    MlpRatio(),
    Key("init_values", "layer_scale"),
    Key("drop_path_rate", "drop_path"),
    ClassToken(),
    GlobalPool(),
    ClassCount(),
    Constant("qkv_bias", True),
)
KNOWN = {*(row.key for row in ARGUMENTS), "fc_norm"}


def weights(facts: TrunkWithHeads) -> WeightMap:
    """Map between the tensor names of ``timm`` and ours."""
    distilled = facts.trunk.embed.has_distillation_token
    names, head = (DISTILLED_NAMES, DISTILLED_HEAD) if distilled else (TIMM_NAMES, TIMM_HEAD)
    return WeightMap((*embedding_rules(facts, names), *TIMM_LAYERS, head))


def read(folder: Path, config: Config, device: torch.device | str) -> LoadedModel:
    """Read the model in a folder with this config.json."""
    where = str(folder / CONFIG)
    about = config.get("pretrained_cfg") or config  # which holds all of it in old folders
    try:
        variant, arguments = _arguments(config)
        base = change(vit.BASE, **VARIANTS[variant])
        facts = read_facts(ARGUMENTS, base, arguments, ())
        processor = _processor(about, cast(Patches, facts.trunk.embed))
        labels = _labels(about, facts)
    except (BadInput, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{where}: {error}") from None
    file = read_folder(folder)
    check_depth(facts, len(file), where)
    shapes = weights_of(build_facts(facts, "meta", where))
    tensors, _ = weights(facts).read(file, shapes, str(folder), advice=DELETE_ADVICE)
    module = build_facts(facts, device, where)
    load_weights(module, tensors, str(folder))
    check_tokenizer(processor, labels, facts, folder)
    of_paper = paper("deit" if arguments[DISTILLED] else "vit")
    return LoadedModel(of_paper, facts, module.eval(), processor, labels)


def check(model: LoadedModel) -> tuple[str, dict[str, object]]:
    """The variant and the arguments of ``timm`` for a model; refuse models that it cannot express.

    Not every ViT has a variant: "" is the plain one.
    """
    if model.paper.key not in ("vit", "deit"):
        raise BadInput(f"{model.paper.name}: the timm format supports only vit and deit")
    facts = cast(TrunkWithHeads, model.facts)
    arguments, variant = write_config(ARGUMENTS, facts), _variant(facts)
    usual = change(_untold(facts), **VARIANTS[variant])
    refuse_loss("timm", facts, lambda: read_facts(ARGUMENTS, usual, arguments, ()))
    return variant, arguments


def write(folder: Path, model: LoadedModel) -> None:
    """Write a folder for ``timm`` ("local-dir:"); refuse models that it cannot express."""
    variant, arguments = check(model)
    facts = cast(TrunkWithHeads, model.facts)
    distilled = arguments.pop(DISTILLED)
    top = {"num_classes": arguments.pop("num_classes"), "global_pool": arguments["global_pool"]}
    embed = cast(Patches, facts.trunk.embed)
    about: dict[str, object] = {"input_size": [embed.channels, *embed.image]}
    about |= {"num_classes": top["num_classes"], "first_conv": "patch_embed.proj"}
    classifier = ["head", "head_dist"] if distilled else "head"
    about |= {"classifier": classifier, **_reading(cast(ImageProcessor | None, model.tokenizer))}
    if model.labels is not None:
        about["label_names"] = [*model.labels.names]
    name = DISTILLED_NAME if distilled else PLAIN_NAME.format(variant)
    config = {"architecture": name, **top, "num_features": facts.trunk.width}
    (folder / CONFIG).unlink(missing_ok=True)
    write_tensors(folder / WEIGHTS, weights(facts).write(weights_of(model.module), Extras()))
    write_json(folder / CONFIG, {**config, "model_args": arguments, "pretrained_cfg": about})


def _variant(facts: TrunkWithHeads) -> str:
    """The architecture variant with these facts; the plain one if there is none."""
    if facts.trunk.embed.has_distillation_token:
        return ""
    known = {name: change(facts, **changes) == facts for name, changes in VARIANTS.items()}
    return next((name for name in reversed(known) if known[name]), "")


def _arguments(config: Config) -> tuple[str, dict[str, object]]:
    """The architecture variant of a config.json, and its arguments with all changes."""
    name = config["architecture"]
    if (match := ARCHITECTURE.fullmatch(str(name))) is None:
        such = f"{PLAIN_NAME.format('')}, {PLAIN_NAME.format('clip_')} and {DISTILLED_NAME}"
        raise BadInput(f"architecture {shown(name)} is not supported; supported: {such}")
    size, distilled, patch, variant, pixels = match.groups()
    own = write_config(ARGUMENTS, paper("vit").sizes[size])
    own |= {"patch_size": int(patch), "img_size": int(pixels), "num_classes": 1_000}
    own[DISTILLED] = distilled is not None
    top = {key: config[key] for key in ("num_classes", "global_pool") if key in config}
    changed = {**top, **(config.get("model_args") or {})}
    if unknown := [key for key in changed if key not in KNOWN]:
        raise BadInput(f"model_args: {unknown[0]} is not supported")
    return variant or "", {**own, **changed}


def _untold(facts: TrunkWithHeads) -> TrunkWithHeads:
    """Default facts, with the facts of a model that only training uses (dropout, init)."""
    stack = facts.trunk.stack
    rates = {name: getattr(stack, name) for name in ("attention_dropout", "inner_dropout")}
    rates |= {"init_std": facts.init_std, "stack.dropout": stack.dropout}
    return change(vit.BASE, **rates)


def _processor(about: Config, embed: Patches) -> ImageProcessor | None:
    """Evaluation preprocessing of ``timm``: resize, then centre crop; None if it is unsupported.

    Missing keys have the defaults of ``timm.data.resolve_data_config``. Means and deviations that
    differ by colour cannot be used with one channel; non-square images are supported only with
    "squash".
    """
    mean, std = (_by_channel(about.get(key) or IMAGENET[key], embed.channels) for key in IMAGENET)
    if mean is None or std is None:
        return None
    image, mode = embed.image, about.get("crop_mode") or "center"
    if mode not in ("center", "squash"):
        raise BadInput(f"crop_mode is {shown(mode)}; supported: center, squash")
    name = about.get("interpolation") or "bicubic"
    if name not in FILTERS:
        raise BadInput(f"interpolation is {shown(name)}; supported: {', '.join(FILTERS)}")
    share = float(about.get("crop_pct") or 0.875)
    height, width = (math.floor(side / share) for side in image)
    if mode == "center" and image[0] != image[1]:
        return None
    return ImageProcessor(
        size=height if mode == "center" else (height, width),
        mean=tuple(map(float, mean)),
        std=tuple(map(float, std)),
        resample=FILTERS[name],
        crop=image,
        crop_offset="round",
    )


def _by_channel(numbers: Sequence[float], channels: int) -> tuple[float, ...] | None:
    """Return one number per channel, if there are as many or all are equal; else None."""
    if len({*numbers}) == 1:
        return (*numbers[:1],) * channels
    return (*numbers,) if channels == len(numbers) else None


def _reading(processor: ImageProcessor | None) -> dict[str, object]:
    """Image preprocessing, in the keys of ``timm``."""
    if processor is None:
        return {}
    if processor.longest_edge is not None:
        raise BadInput("the timm format cannot express a longest_edge")
    if processor.scale != ImageProcessor.scale:
        raise BadInput("the timm format cannot express a rescale_factor other than 1/255")
    return {
        "mean": [*processor.mean],
        "std": [*processor.std],
        "interpolation": RESAMPLING[processor.resample],
        "crop_pct": _crop_share(processor),
        "crop_mode": "squash" if isinstance(processor.size, tuple) else "center",
    }


def _crop_share(processor: ImageProcessor) -> float:
    """The share of a resized image that the crop keeps (crop_pct)."""
    _, *image = processor.shape
    size = processor.size or (0, 0)
    height, width = size if isinstance(size, tuple) else (size, size)
    for share in (image[0] / (height + more) for more in (0.0, 0.5) if height):
        if [math.floor(side / share) for side in image] == [height, width]:
            return share
    raise BadInput("the timm format cannot express this combination of resize and crop sizes")


def _labels(about: Config, facts: TrunkWithHeads) -> LabelSet | None:
    count, names = facts.sizes["labels"], about.get("label_names")
    if not count:
        return None
    if isinstance(names, list) and len(names) == count:
        return labels_from_config({"id2label": dict(enumerate(names))})
    return labels_from_config({"num_labels": count})
