"""Input of an attribution: rows with words that can be replaced, and the rows without them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from regard.core.batch import ImageRow
from regard.core.errors import BadInput, shown
from regard.inference.model_runner import ModelRunner
from regard.inside.masked_text import read_with_masks
from regard.text.segmentation import LabelledImage, LabelledRow, LabelledRows, TokenLabels
from regard.text.tokenizers.row_tokenizer import require_tokenizer

ROLES = {"mask": "the mask token", "pad": "the padding token", "unk": "the unknown token"}
"""Tokens that can stand in place of a word, in the order of preference."""
ZERO_VECTOR, ZERO_PIXELS = "zero vectors", "zeros (the mean colour)"


@dataclass(frozen=True, eq=False)
class InputWords:
    """One input of a model, and its words: names and positions of tokens on the side that is read.

    Special tokens and masks are no words. ``replaced`` is the input with ``replacement`` in place
    of every word; None: the vectors of words are replaced by zeros.
    """

    rows: LabelledRows
    words: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    replaced: LabelledRows | None
    replacement: str
    image: LabelledImage | None = None

    def numbers(self, words: Sequence[object]) -> list[int]:
        """Numbers of words that are given by number, from 0, or by name (all its occurrences)."""
        return [number for word in words for number in self._numbers(word)]

    def _numbers(self, word: object) -> list[int]:
        last = len(self.words) - 1
        named = [number for number, name in enumerate(self.words) if name == word]
        if not named and word not in range(last + 1):
            here = f"the words are 0 to {last}: {' '.join(self.words[:12])}"
            raise BadInput(f"words: there is no word {shown(word)}; {here}")
        return named or [int(str(word))]


def read_input(
    model: ModelRunner, text: object, second: str | None = None, *, subwords: bool = False
) -> InputWords:
    """Read a text, two texts or an image.

    ``second`` is the second text of an encoder, or the translation (default: the model's own). A
    masked LM reads masks in a single text. With ``subwords``, every token counts as a word.
    """
    if model.reads_images:
        return _read_image(model, text)
    rows = read_with_masks(model, text, second)
    side = model.facts.encoder_path
    row = cast(LabelledRow, rows[side])
    free_L = np.ones(len(row.row.tokens), dtype=bool)
    free_L[list(row.keys.specials)] = False
    words, groups = _words(row.keys, free_L, subwords)
    if not words:
        raise BadInput("the text has no words to attribute a prediction to")
    token = replacement_token(model)
    if token is None:
        return InputWords(rows, words, groups, None, ZERO_VECTOR)
    name, number = token
    tokens = np.array(row.row.tokens)
    tokens[free_L] = number
    replaced = {**rows, side: row._replace(row=row.row._replace(tokens=tokens))}
    return InputWords(rows, words, groups, replaced, name)


def replacement_token(model: ModelRunner) -> tuple[str, int | np.ndarray] | None:
    """Name and id of the token that replaces words: mask, padding or unknown; None: no such."""
    tokenizer = require_tokenizer(model.tokenizer)
    vocabulary = tokenizer.vocabularies[0]  # of the source
    for role, name in ROLES.items():
        for owner in (tokenizer, vocabulary)[len(model.facts.sides) - 1 :]:
            with suppress(BadInput, AttributeError):  # not all vocabularies have such tokens
                number = getattr(owner, role)
                if role == "pad" and np.array_equal(number, getattr(owner, "unk", -1)):
                    continue  # a vocabulary without padding
                piece = vocabulary.pieces([number])[0] if np.ndim(number) == 0 else ""
                return f"{name} {piece}".rstrip(), number
    return None


def _read_image(model: ModelRunner, image: object) -> InputWords:
    rows = model.read(image)
    row = cast(LabelledImage, rows["trunk"])
    values_CHW = row.row.read()
    grey = row._replace(row=ImageRow(lambda: np.zeros_like(values_CHW)))
    first, labels = len(row.tokens), row.keys
    patches = labels.words[first:], labels.groups[first:]
    return InputWords(rows, *patches, {"trunk": grey}, ZERO_PIXELS, row)


def _words(
    labels: TokenLabels, free_L: np.ndarray, subwords: bool
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Names and positions of the words, or subwords, that can be replaced."""
    names, groups = labels.words, labels.groups
    if subwords:
        names, groups = labels.subwords, tuple((at,) for at in range(len(labels.subwords)))
    pairs = [(name, own) for name, own in zip(names, groups, strict=True) if len(own)]
    pairs = [(name, own) for name, own in pairs if free_L[[*own]].all()]
    return tuple(name for name, _ in pairs), tuple(own for _, own in pairs)
