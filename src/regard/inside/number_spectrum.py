"""Fourier spectrum of the vectors of numbers (Nanda et al., 2023, arXiv:2301.05217, section 4.1).

A model that adds numbers modulo p by rotations has vectors in which a few frequencies have nearly
all of the power; in vectors in random order, all frequencies have equal shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from regard.core.errors import BadInput
from regard.core.files import JSON
from regard.tasks.components import Runner
from regard.text.tokenizers.row_tokenizer import require_tokenizer

TOP = 5  # frequencies whose share is reported
LEAST, MOST = 5, 10_000  # numbers


@dataclass(frozen=True, eq=False)
class NumberSpectrum:
    """Shares of the power of the vectors of 0 to ``count`` - 1 at the frequencies from 1 on."""

    count: int
    shares: np.ndarray

    @classmethod
    def of(cls, vectors_ND: np.ndarray) -> "NumberSpectrum":
        """Spectrum of vectors in the order of their numbers; their mean is left out."""
        power_F = (np.abs(np.fft.rfft(vectors_ND.astype(np.float64), axis=0)) ** 2).sum(-1)[1:]
        return cls(len(vectors_ND), power_F / max(power_F.sum(), 1e-30))

    @property
    def top(self) -> list[int]:
        """Frequencies with the largest shares, the largest first."""
        return [int(at) + 1 for at in np.argsort(-self.shares)[:TOP]]

    @property
    def top_share(self) -> float:
        """Share of the power at the five frequencies with the largest shares."""
        return float(np.sort(self.shares)[-TOP:].sum())


def number_vectors(model: Runner) -> np.ndarray:
    """Vectors of the embedding for 0, 1, 2, ..., as long as a number is one token."""
    if len(model.facts.sides) > 1 or model.facts.encoder.embed.reads_images:
        raise BadInput("numbers: an encoder-decoder or a model of images has none to watch")
    words, ids = require_tokenizer(model.tokenizer).words, list[int]()
    for number in range(MOST):
        pieces = words.encode(str(number))
        if len(pieces) != 1 or pieces[0] in ids or words.unknown(str(number)):
            break
        ids += pieces
    if len(ids) < LEAST:
        raise BadInput(f"numbers: the vocabulary has not the numbers 0 to {LEAST - 1} as tokens")
    embed: nn.Module = model.module.get_submodule(f"{model.facts.sides[0]}.embed.token")
    weight_VD = next(embed.parameters())
    return weight_VD[ids].detach().float().cpu().numpy()


def watch_numbers(model: Runner, inputs: Sequence[tuple[object, ...]]) -> dict[str, JSON]:
    """Report on the vectors of numbers, for ``regard.train(..., watch={"numbers": ...})``."""
    spectrum = NumberSpectrum.of(number_vectors(model))
    top: list[JSON] = [*spectrum.top]
    return {"numbers": spectrum.count, "top": top, "top share": round(spectrum.top_share, 6)}
