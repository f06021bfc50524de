"""Training ViT: images a second, regard against timm and transformers in one run.

    python bench/train_vit.py [--size base] [--rows 128] [--rounds 7]
    python bench/train_vit.py --peers timm-compiled timm-graphs
    python bench/train_vit.py --augment
    python bench/train_vit.py --tiny                         (does it run?)

Random images of 224 × 224 pixels that are on the device already, one of 1,000 labels each, no
dropout, bf16 autocast, gradients clipped to a norm of 1, fused AdamW that decays matrices; systems
take turns, the median of the rounds counts. All start with the same weights. regard's step is that
of regard train: it reads bytes, which it normalises; the peers are given normalised images. Nobody
augments, unless --augment puts what regard draws inside its own step. The peers: timm's
VisionTransformer as it comes, compiled ("timm-compiled"), compiled with CUDA graphs ("timm-graphs")
or with tuned products, which takes minutes ("timm-autotuned"); "eager" and "compiled" are
transformers' ViTForImageClassification (sdpa). On a CPU peers are traced only. regard computes the
last layer for the class token alone, as nobody reads the others; MFU counts all tokens in all
layers, of 784 TFLOP/s measured and of 989 on the sheet.
"""

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from measure import half, print_speeds, round_of, setting, warm_up
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.data.images.augment import Augmentation, Mixing
from regard.ground.batch import Batch, pack_images
from regard.images.processor import ImageProcessor
from regard.models.facts import LabelHead, TrunkWithHeads, change
from regard.models.formats import folder as folders
from regard.models.formats.loaded_model import LoadedModel
from regard.models.papers import vit
from regard.objectives.images import BYTE, ImageLabels
from regard.objectives.labels import Classification
from regard.text.labels import SingleLabelSet
from regard.training.loop.microbatch import EagerStep, GraphedStep
from regard.training.optim.optimiser import GraphedOptimiser, ModelOptimiser
from regard.training.recipe.tables import OptimiserConfig

LABELS = 1_000
NUMBERED = SingleLabelSet(tuple(map(str, range(LABELS))))
ADAMW = OptimiserConfig(kind="adamw", rate=1e-4, betas=(0.9, 0.999), eps=1e-8, decay=0.1, clip=1.0)
AUGMENTATION = Augmentation(crop_area=0.1, flip=True, operations=2, magnitude=0.9, erase=0.25)
MIXING = {"mixup": 0.8, "cutmix": 1.0}
TINY = {"width": 32, "depth": 2, "heads": 2, "inner": 128, "patch_size": 4, "image_size": 16}
Step = Callable[[Batch], Tensor]


def batches_of(count: int, rows: int, size: int, device: torch.device) -> list[Batch]:
    """Random bytes and labels; the key of an image would decide how it is augmented."""
    batches = []
    for _ in range(count):
        images = torch.randint(256, (rows, 3, size, size), dtype=torch.uint8)
        inputs = pack_images(images, keys=torch.randint(1 << 62, (rows,)).tolist())
        targets = {Classification.head: torch.randint(LABELS, (rows,))}
        batches.append(Batch(inputs, targets, rows).to(device))
    return batches


def normalised(bytes_BCHW: Tensor) -> Tensor:
    """The numbers that a model reads: mean and deviation of each channel are 0.5."""
    return bytes_BCHW.float() / BYTE * 2 - 1


def ours(model: nn.Module, device: torch.device, *, augmented: bool = False) -> Step:
    """regard, as it trains: on CUDA, forward compiled, and all of a step captured."""
    model, cuda = model.to(device).train(), device.type == "cuda"
    drawn = (AUGMENTATION, Mixing(**MIXING)) if augmented else ()
    objective = ImageLabels(Classification(), ImageProcessor(), *drawn)
    objective.to(device)
    forward = lambda batch: objective(model, batch)  # noqa: E731
    plain = EagerStep(torch.compile(forward) if cuda else forward, lambda: half(device))
    micro = GraphedStep(plain, model) if cuda else plain
    optimiser = (GraphedOptimiser if cuda else ModelOptimiser)(model, ADAMW)

    def step(batch: Batch) -> Tensor:
        loss = micro(batch, 1 / batch.weight).loss / batch.weight
        optimiser.step(1.0)
        optimiser.zero_grad()
        return loss

    return step


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


def theirs(peer: nn.Module, device: torch.device, **compiled: Any) -> Step:
    """A peer; compiled with its loss in that ``mode``, or only traced where there is no GPU."""
    peer = peer.to(device).train()
    parameters = list(peer.parameters())
    matrices, vectors = ([p for p in parameters if (p.ndim >= 2) == two] for two in (True, False))
    groups = [
        {"params": matrices, "weight_decay": ADAMW.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=ADAMW.rate, betas=ADAMW.betas, eps=ADAMW.eps, fused=True)

    def loss_of(images_BCHW: Tensor, targets_B: Tensor) -> Tensor:
        return cross_entropy(peer(images_BCHW), targets_B)

    if compiled:
        how = compiled if device.type == "cuda" else {"backend": "aot_eager"}
        loss_of = torch.compile(loss_of, **how)

    def step(batch: Batch) -> Tensor:
        images, targets = batch.inputs.tokens_T, batch.targets[Classification.head]
        if images.is_cuda:
            torch.compiler.cudagraph_mark_step_begin()
        with half(device):
            loss = loss_of(images, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, ADAMW.clip)
        adam.step()
        adam.zero_grad()
        return loss.detach().clone()  # the next replay of a graph overwrites it

    return step


class Peer(NamedTuple):
    """How it is called, the format of the folder that it is read from, and how it is compiled."""

    name: str
    form: str
    compiled: dict[str, Any]

    def read(self, model: nn.Module, facts: TrunkWithHeads) -> nn.Module:
        """It with the weights of regard's model."""
        stored = LoadedModel(vit.PAPER, facts, model, ImageProcessor(), NUMBERED)
        with TemporaryDirectory() as folder:
            folders.write(Path(folder), stored, self.form)
            return READERS[self.form](Path(folder))


READERS: dict[str, Callable[[Path], nn.Module]] = {"timm": timm_model, "hf": TransformersViT}
PEERS = {
    "timm": Peer("timm", "timm", {}),
    "timm-compiled": Peer("timm, compiled", "timm", {"mode": "default"}),
    "timm-graphs": Peer("timm, compiled, graphs", "timm", {"mode": "reduce-overhead"}),
    "timm-autotuned": Peer("timm, tuned", "timm", {"mode": "max-autotune-no-cudagraphs"}),
    "eager": Peer("transformers", "hf", {}),
    "compiled": Peer("transformers, compiled", "hf", {"mode": "default"}),
}
USUAL = [name for name in PEERS if name != "timm-autotuned"]


def main() -> None:
    """Print one JSON line for each system, with regard's ratio to it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(vit.PAPER.sizes), default="base")
    parser.add_argument("--rows", type=int, default=128, help="images in a batch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=100, help="begin no round after these")
    parser.add_argument("--steps", type=int, default=12, help="batches of a round")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=USUAL)
    parser.add_argument("--augment", action="store_true", help="inside regard's step")
    parser.add_argument("--tiny", action="store_true", help="a few steps of a very small model")
    asked = parser.parse_args()
    facts = change(vit.PAPER.sizes[asked.size], output_heads=(LabelHead(LABELS),))
    if asked.tiny:
        facts = change(facts, **TINY)
        asked.rows, asked.rounds, asked.steps = 4, 2, 2
    torch.manual_seed(1)
    compare(facts, asked)


def compare(facts: TrunkWithHeads, asked: argparse.Namespace) -> None:
    """Let the systems take turns over the same images."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    bytes_read = batches_of(asked.steps, asked.rows, facts.trunk.embed.image_size, device)
    numbers = [numbers_of(batch) for batch in bytes_read]
    model = facts.build()
    systems = {
        "regard": warm_up(
            "regard",
            lambda: round_of(
                ours(copy.deepcopy(model), device, augmented=asked.augment), bytes_read
            ),
        )
    }
    for peer in (PEERS[one] for one in asked.peers):
        systems[peer.name] = warm_up(
            peer.name,
            lambda peer=peer: round_of(
                theirs(peer.read(model, facts), device, **peer.compiled), numbers
            ),
        )
    images = asked.rows * asked.steps
    needed = facts.training_flops([(1,)] * images)
    print_speeds(systems, images, needed, asked.rounds, asked.seconds, unit="images")
    shape = {"size": asked.size, "rows": asked.rows, "augmented": asked.augment}
    print(json.dumps({**shape, **setting()}))


def numbers_of(batch: Batch) -> Batch:
    """The same batch with normalised images."""
    inputs = pack_images(normalised(batch.inputs.tokens_T))
    return Batch(inputs, batch.targets, batch.weight)


if __name__ == "__main__":
    main()
