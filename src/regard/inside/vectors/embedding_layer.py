"""The embedding layer of a model as static vectors of words."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from regard.data.files.static_vectors import StaticVectors
from regard.ground.errors import BadInput
from regard.text.tokenizers.ids_only import require_tokenizer
from regard.text.tokenizers.list import Tokenizer

TOKENS = 1 << 14  # looked up at once


@torch.no_grad()
def word_vectors(module: Any, tokenizer: Tokenizer | None, words: Iterable[str]) -> StaticVectors:
    """The mean of the token vectors of each word, as it is read inside a text.

    Words with an unknown token have no vector.
    """
    vocabulary = require_tokenizer(tokenizer).vocabularies[0]
    tokens = {
        word: read
        for word in dict.fromkeys(words)
        if not vocabulary.unknown(word) and len(read := _tokens(vocabulary, word))
    }
    if not tokens:
        raise BadInput("the model knows none of these words")
    ids, device = np.concatenate([*tokens.values()]), next(module.parameters()).device
    parts = [
        module.encoder.embed.static(part).float().cpu().numpy()
        for part in torch.from_numpy(ids.astype(np.int64)).to(device).split(TOKENS)
    ]
    counts_N = np.array([*map(len, tokens.values())])
    sums_ND = np.add.reduceat(np.concatenate(parts), np.cumsum(counts_N) - counts_N)
    return StaticVectors(tuple(tokens), (sums_ND / counts_N[:, None]).astype(np.float32))


def _tokens(vocabulary: Any, word: str) -> np.ndarray:
    """Those of a word after another: in some vocabularies, not those of a text's beginning."""
    cut = vocabulary.segment(f"{word} {word}")
    second = [number for number, span in enumerate(cut.spans) if span.end > len(word)]
    return np.asarray(cut.ids)[second]
