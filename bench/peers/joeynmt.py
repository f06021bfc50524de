"""JoeyNMT's recurrent translator, by torch's fused optimiser and cross-entropy."""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from corpus import Pair, bucketed_pairs, pair_padding
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from worker import System

from peers.common import Step, Updates, device, half, padded, rounds_over, send

PAD, BOS, EOS, IGNORED = 0, 1, 2, -100
UNUSED = (  # packages that JoeyNMT imports, and its layers do not need
    *("importlib_metadata", "packaging.version", "sentencepiece", "subword_nmt", "yaml"),
    *("matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_pdf", "matplotlib.figure"),
    "torch.utils.tensorboard",
)


def import_joeynmt(wheel: str | None) -> None:
    """Import JoeyNMT, from a wheel if one is named.

    Of the packages that its layers do not need, those that are missing are replaced by mocks.
    """
    if wheel:
        sys.path.insert(0, wheel)
    for name in UNUSED:
        try:
            import_module(name)
        except ImportError:
            sys.modules[name] = MagicMock()
    import_module("joeynmt")


def read_pairs(file: str) -> list[Pair]:
    """Pairs of ids from a JSON file."""
    pairs = json.loads(Path(file).read_text())
    return [(np.array(source), np.array(target)) for source, target in pairs]


class JoeyModel(nn.Module):
    """JoeyNMT's embeddings, bidirectional GRU, and GRU with Bahdanau's attention."""

    def __init__(self, vocab: int, width: int, embedding: int, dropout: float):
        from joeynmt.decoders import RecurrentDecoder
        from joeynmt.embeddings import Embeddings
        from joeynmt.encoders import RecurrentEncoder

        super().__init__()
        sizes = {"emb_size": embedding, "hidden_size": width, "rnn_type": "gru"}
        self.source, self.target = (
            Embeddings(embedding, vocab_size=vocab, padding_idx=PAD) for _ in range(2)
        )
        self.encoder = RecurrentEncoder(**sizes, emb_dropout=dropout)
        self.decoder = RecurrentDecoder(
            **sizes,
            encoder=self.encoder,
            attention="bahdanau",
            vocab_size=vocab,
            emb_dropout=dropout,
            hidden_dropout=dropout,
        )

    def forward(self, source_BL: Tensor, lengths_B: Tensor, written_BL: Tensor) -> Tensor:
        """Logits of the next token."""
        mask_B1L = (source_BL != PAD)[:, None]
        states, last = self.encoder(self.source(source_BL), lengths_B, mask_B1L)
        steps = written_BL.shape[1]
        return self.decoder(self.target(written_BL), states, last, mask_B1L, steps)[0]


def training_step(
    model: nn.Module, optimiser: dict[str, Any], place: torch.device, precision: str
) -> Step:
    """A step of JoeyNMT's trainer, its lengths staying on the host."""
    model = model.to(place).train()
    updates = Updates(model, optimiser)

    def step(pairs: Sequence[Pair]) -> Tensor:
        pairs = sorted(pairs, key=lambda pair: -len(pair[0]))
        lengths_B = torch.tensor([len(source) + 1 for source, _ in pairs])
        source = send(padded([np.append(source, EOS) for source, _ in pairs], PAD), place)
        written = send(padded([np.insert(target, 0, BOS) for _, target in pairs], PAD), place)
        goals = send(padded([np.append(target, EOS) for _, target in pairs], IGNORED), place)
        with half(place) if precision == "bf16" else torch.autocast(place.type, enabled=False):
            logits = model(source, lengths_B, written).flatten(0, 1)
        loss = cross_entropy(logits.float(), goals.flatten(), label_smoothing=0.1)
        loss.backward()
        updates.step()
        return loss.detach()

    return step


def training(
    wheel: str | None,
    sizes: dict[str, Any],
    pairs: str,
    tokens: int,
    optimiser: dict[str, Any],
    precision: str,
) -> System:
    """Training on pairs of a file, in buckets of like length."""
    import_joeynmt(wheel)
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    model = JoeyModel(**sizes)
    count = sum(parameter.numel() for parameter in model.parameters())
    batches = bucketed_pairs(read_pairs(pairs), tokens)
    step = training_step(model, optimiser, device(), precision)
    padding = round(pair_padding(batches), 3)
    return rounds_over(step, batches, parameters=count, padding=padding)
