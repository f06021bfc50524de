"""A tiny job of images that still is the whole job: where is the bright corner?"""

import base64
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.api import Model
from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import vit
from regard.text.label_sets import SingleLabelSet

RECIPE = """
task = "classify"

[about]
title = "where is the bright corner?"
command = "regard train corners.toml"
hardware = "any"
minutes = 0.1

[data]
train = { file = "corners.npz", reader = "npz", options = { names = ["left", "right"] } }
dev = { held_out = 32 }
test = { file = "corners.npz", reader = "npz", options = { images = "x_test", labels = "y_test", names = ["left", "right"] } }

[images]
crop = 1
operations = 1
magnitude = 0.1
erase = 0.1
mixup = 0.2
cutmix = 1.0

[model]
paper = "vit"
size = "tiny"
change = { width = 16, depth = 1, heads = 2, inner = 16, patch_size = 4, image_size = 8, init_std = 0.1 }

[batches]
tokens = 32
rows = 32
longest = 1

[optimiser]
rate = 0.01
warmup = 5
schedule = "constant"

[train]
steps = 100
smoothing = 0.0
precision = "fp32"
metric = "accuracy"
evaluate_every = 50
checkpoint_every = 10
report_every = 20
"""  # noqa: E501


def corners(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Dark images (8, 8, 3) with a bright quarter at the top, left (0) or right (1)."""
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 60, (count, 8, 8, 3), dtype=np.uint8)
    numbers = draw.integers(0, 2, count)
    for image, number in zip(images, numbers, strict=True):
        image[:4, 4 * number : 4 * number + 4] += 180
    return images, numbers


def write_corners(folder: Path) -> Path:
    """The images, with a recipe beside them."""
    arrays = {}
    for name, count, seed in (("train", 192, 0), ("test", 40, 1)):
        arrays[f"x_{name}"], arrays[f"y_{name}"] = corners(count, seed)
    np.savez(folder / "corners.npz", **arrays)
    recipe = folder / "corners.toml"
    recipe.write_text(RECIPE)
    return recipe


def small_vit(
    labels: tuple[str, ...] = ("left", "right"),
    seed: int = 0,
    paper=vit,
    size: tuple[int, int] = (8, 8),
    **changes,
) -> Model:
    """A random model of images of that size, in colour, with these labels."""
    sizes = {"width": 16, "depth": 1, "heads": 2, "inner": 16, "patch_size": 4, "image_size": 8}
    head = LabelHead(len(labels))
    facts = change(paper.TINY, **sizes | changes, init_std=0.5, output_heads=(head,))
    torch.manual_seed(seed)
    loaded = facts.build().eval(), ImageProcessor(size=size), SingleLabelSet(labels)
    return Model(LoadedModel(paper.PAPER, facts, *loaded))


def write_images(folder: Path, count: int, folders: int = 3, seed: int = 0) -> list[Path]:
    """So many files, shared out to folders; in the order of their names."""
    from PIL import Image

    images, _ = corners(count, seed)
    paths = [folder / f"{number % folders}" / f"{number:05}.png" for number in range(count)]
    for path, pixels in zip(paths, images, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, compress_level=0)
    return sorted(paths)


def blank_png(height: int, width: int) -> str:
    """A white image in base64, a file of few bytes."""
    content = io.BytesIO()
    Image = pytest.importorskip("PIL.Image")
    Image.new("1", (width, height), 1).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()
