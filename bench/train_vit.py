"""Training ViT: images a second, regard against timm and transformers in turns.

    python bench/train_vit.py [--size base] [--rows 128] [--rounds 7]
    python bench/train_vit.py --peers timm-compiled timm-graphs
    python bench/train_vit.py --augment
    python bench/train_vit.py --tiny                         (does it run?)

Random images of 224 × 224 pixels that are on the device already, one of 1,000 labels each, no
dropout, bf16 autocast, gradients clipped to a norm of 1, fused AdamW that decays matrices; every
system has a process of its own, they take turns, and the median of the rounds counts. All start
with the same weights. regard's step is that of regard train: it reads bytes, which it normalises;
the peers are given normalised images. Nobody augments, unless --augment puts what regard draws
inside its own step. The peers: timm's VisionTransformer as it comes, compiled ("timm-compiled"),
compiled with CUDA graphs ("timm-graphs") or with tuned products, which takes minutes
("timm-autotuned"); "eager", "compiled" and "graphs" are transformers' ViTForImageClassification
(sdpa). On a CPU peers are traced only. regard computes the last layer for the class token alone, as
nobody reads the others; MFU counts all tokens in all layers, of 784 TFLOP/s measured and of 989 on
the sheet.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from corpus import images
from measure import OURS, Spec, add_options, print_speeds, running
from ours import training_step
from peers.common import System, device, rounds_over
from torch import nn

from regard.core.batch import Batch, pack_images
from regard.images.augment import Augmentation, Mixing
from regard.images.processor import ImageProcessor
from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import vit
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.objectives.images import ImageLabels
from regard.objectives.label_losses import Classification
from regard.text.label_sets import SingleLabelSet

LABELS = 1_000
NUMBERED = SingleLabelSet(tuple(map(str, range(LABELS))))
ADAMW = {
    "kind": "adamw",
    "rate": 1e-4,
    "betas": (0.9, 0.999),
    "eps": 1e-8,
    "decay": 0.1,
    "clip": 1.0,
}
AUGMENTATION = Augmentation(crop_area=0.1, flip=True, operations=2, magnitude=0.9, erase=0.25)
MIXING = {"mixup": 0.8, "cutmix": 1.0}
TINY = {"width": 32, "depth": 2, "heads": 2, "inner": 128, "patch_size": 4, "image_size": 16}
PEERS = {
    "timm": "timm",
    "timm-compiled": "timm, compiled",
    "timm-graphs": "timm, compiled, graphs",
    "timm-autotuned": "timm, tuned",
    "eager": "transformers",
    "compiled": "transformers, compiled",
    "graphs": "transformers, compiled, graphs",
}
USUAL = ["timm", "timm-compiled", "timm-graphs", "eager", "compiled"]


def facts_of(size: str, tiny: bool) -> TrunkWithHeads:
    """ViT with a head of 1,000 labels."""
    facts = change(vit.PAPER.sizes[size], output_heads=(LabelHead(LABELS),))
    return change(facts, **TINY) if tiny else facts


def initial_model(facts: TrunkWithHeads) -> nn.Module:
    """The model that all systems begin with."""
    torch.manual_seed(1)
    return facts.build()


def form_of(peer: str) -> str:
    """The format of the folder that a peer reads."""
    return "timm" if peer.startswith("timm") else "hf"


def write_initial(facts: TrunkWithHeads, form: str, folder: Path) -> None:
    """Write the model that all systems begin with, as peers read it."""
    model = LoadedModel(vit.PAPER, facts, initial_model(facts), ImageProcessor(), NUMBERED)
    folders.write(folder, model, form)


def packed(corpus: dict[str, Any], place: torch.device) -> list[Batch]:
    """Batches of bytes on the device; the key of an image decides how it is augmented."""
    batches, key = [], 0
    for pixels, labels in images(**corpus):
        inputs = pack_images(torch.from_numpy(pixels), keys=list(range(key, key + len(labels))))
        targets = {Classification.head: torch.from_numpy(labels)}
        batches.append(Batch(inputs, targets, len(labels)).to(place))
        key += len(labels)
    return batches


def ours(size: str, tiny: bool, corpus: dict[str, Any], augmented: bool = False) -> System:
    """regard, from bytes."""
    drawn = (AUGMENTATION, Mixing(**MIXING)) if augmented else ()
    objective, place = ImageLabels(Classification(), ImageProcessor(), *drawn), device()
    model = initial_model(facts_of(size, tiny))
    step = training_step(model, objective, lambda batch: batch, ADAMW, place)
    return rounds_over(step, packed(corpus, place))


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(vit.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=128, help="images in a batch")
    parser.add_argument("--steps", type=int, default=12, help="batches of a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=USUAL)
    parser.add_argument("--augment", action="store_true", help="inside regard's step")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    add_options(parser, rounds=7, seconds=100, papers=["vit"])
    asked = parser.parse_args()
    if asked.tiny:
        asked.rows, asked.rounds, asked.steps = 4, 2, 2
    with TemporaryDirectory() as folder:
        compare(asked, Path(folder))


def compare(asked: argparse.Namespace, folder: Path) -> None:
    """Let the systems take turns over the same images."""
    facts = facts_of(asked.size, asked.tiny)
    size = facts.trunk.embed.image_size
    corpus = {"count": asked.steps, "rows": asked.rows, "size": size, "labels": LABELS}
    settings: dict[str, Any] = {"size": asked.size, "tiny": asked.tiny, "augmented": asked.augment}
    specs = {OURS: Spec("train_vit:ours", {"corpus": corpus, **settings})}
    for form in {form_of(peer) for peer in asked.peers}:
        write_initial(facts, form, folder / form)
    for peer in asked.peers:
        settings = {"form": peer, "folder": str(folder / form_of(peer)), "optimiser": ADAMW}
        specs[PEERS[peer]] = Spec("peers.vit:classification", {"corpus": corpus, **settings})
    count = asked.rows * asked.steps
    with running(specs, asked) as workers:
        print_speeds(
            workers,
            asked,
            units=count,
            flops=facts.training_flops([(1,)] * count),
            unit="images",
            size=asked.size,
            rows=asked.rows,
            augmented=asked.augment,
        )


if __name__ == "__main__":
    main()
