"""sentence-transformers: texts encoded, or a training step of pairs, padded, in the forms tried."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from torch import Tensor
from worker import System, seconds_of

from peers.common import Updates, compile_layers, device, half

SIZES = (16, 32, 64, 128)
LOSSES = {
    "cosine": losses.CosineSimilarityLoss,
    "in-batch-negatives": losses.MultipleNegativesRankingLoss,
}
Pair = tuple[str, str, float]


def encoding(form: str, folder: str, texts: str) -> System:
    """Vectors of all texts, which it sorts by length, in batches of the size that is fastest here.

    "compiled": its layers are compiled, for any length.
    """
    place = device()
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    model = read_model(form, folder, torch_dtype=dtype).eval()
    read = json.loads(Path(texts).read_text())

    def encode(size: int) -> Any:
        return model.encode(read, batch_size=size, show_progress_bar=False)

    encode(SIZES[0])  # compiles, where it does
    tried = {size: seconds_of(lambda: encode(size), time.process_time) for size in SIZES}  # noqa: B023
    size = min(tried, key=tried.__getitem__)
    return System(lambda: encode(size)[:, :8].tolist(), {"batch_size": size})


def training(
    form: str, folder: str, pairs: str, loss: str, optimiser: dict[str, Any], longest: int
) -> System:
    """A step for each batch of pairs: its model, its loss and its tokens, in a plain loop.

    Each side of a batch is padded to its longest text, as its data collator does. "sorted": the
    batches are of pairs of like length. "compiled": its layers are compiled for any length.
    """
    place = device()
    model = read_model(form, folder).train()
    model.max_seq_length = longest
    batches: list[list[Pair]] = json.loads(Path(pairs).read_text())
    objective, updates = LOSSES[loss](model), Updates(model, optimiser)
    if form == "sorted":
        batches = by_length(batches, lambda text: len(model.tokenizer.tokenize(text)))

    def loss_of(batch: Sequence[Pair]) -> Tensor:
        columns = [*zip(*batch, strict=True)]
        features = [send(model.preprocess(list(texts)), place) for texts in columns[:2]]
        with half(place):
            return objective(features, torch.tensor(columns[2], device=place))

    def step(batch: Sequence[Pair]) -> Tensor:
        value = loss_of(batch)
        value.backward()
        updates.step()
        return value.detach()

    model.eval()
    with torch.no_grad():
        start = float(loss_of(batches[0]))
    model.train()
    remarks = {"padding": round(padding(model, batches), 3), "loss_before": round(start, 6)}
    return System(lambda: [step(batch) for batch in batches], remarks)


def read_model(form: str, folder: str, **model: Any) -> SentenceTransformer:
    """The model of a folder, without dropout of attention weights."""
    read = SentenceTransformer(
        folder,
        device=str(device()),
        local_files_only=True,
        config_kwargs={"attention_probs_dropout_prob": 0.0},
        model_kwargs={"attn_implementation": "sdpa", **model},
    )
    if form == "compiled":
        compile_layers(read[0].auto_model.encoder.layer)
    return read


def send(features: dict[str, Any], place: torch.device) -> dict[str, Any]:
    """Inputs of a model on the device."""
    return {
        name: value.to(place) if isinstance(value, Tensor) else value
        for name, value in features.items()
    }


def by_length(batches: Sequence[Sequence[Pair]], count: Callable[[str], int]) -> list[list[Pair]]:
    """The same pairs in as many batches, each of pairs of like length."""
    size, pairs = len(batches[0]), [pair for batch in batches for pair in batch]
    pairs.sort(key=lambda pair: max(map(count, pair[:2])))
    return [pairs[at : at + size] for at in range(0, len(pairs), size)]


def padding(model: SentenceTransformer, batches: Sequence[Sequence[Pair]]) -> float:
    """The share of padding in all batches."""
    masks = [
        model.preprocess(list(texts))["attention_mask"]
        for batch in batches
        for texts in [*zip(*batch, strict=True)][:2]
    ]
    return 1 - sum(int(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)
