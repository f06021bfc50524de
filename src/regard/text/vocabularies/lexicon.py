"""Vocabularies of whole words, by frequency."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.ground.errors import BadInput
from regard.ground.files import read_text, replacing
from regard.text.offsets import Segmentation
from regard.text.words import Sentence, word_spans, words, words_of

SPECIAL = UNKNOWN, BEGIN, END = "<UNK>", "<S>", "</S>"


@dataclass(frozen=True)
class Lexicon:
    """Words by id: the unknown word, bos and eos, then all others by frequency."""

    words: tuple[str, ...]

    @classmethod
    def learn(cls, texts: Iterable[Sentence], size: int, *, lower: bool = False) -> "Lexicon":
        """Learn the most frequent words; ties are broken alphabetically."""
        if size < len(SPECIAL):
            names = ", ".join(SPECIAL)
            raise BadInput(f"text.vocab: a vocabulary of {size} has no room for {names}")
        counts = Counter[str]()
        for text in texts:
            counts.update(word.lower() if lower else word for word in words_of(text))
        if not counts:
            raise BadInput("data.train: there is no text to learn words from")
        by_count = sorted(counts.keys() - {*SPECIAL}, key=lambda word: (-counts[word], word))
        return cls((*SPECIAL, *by_count)[:size])

    def extended(self, more: Iterable[str]) -> "Lexicon":
        """Lexicon with further words at its end."""
        return Lexicon(tuple(dict.fromkeys([*self.words, *more])))

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the words."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()[:16]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each word."""
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, sentence: str) -> list[int]:
        """The ids of the words of a sentence, between bos and eos."""
        ids, unknown = self.ids, self.ids[UNKNOWN]
        inner = [ids.get(word, unknown) for word in words(sentence)]
        return [ids[BEGIN], *inner, ids[END]] if inner else []

    def encode_all(self, sentences: Iterable[str]) -> list[list[int]]:
        """The ids of each sentence."""
        return [self.encode(sentence) for sentence in sentences]

    def save(self, path: Path) -> None:
        """Write one word per line."""
        with replacing(path) as temporary:
            temporary.write_text("".join(f"{word}\n" for word in self.words), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Lexicon":
        """Read the lexicon that ``save`` wrote."""
        listed = read_text(path).split("\n")[:-1]
        if len({*listed}) < len(listed) or not {*SPECIAL} <= {*listed}:
            raise BadInput(
                f"{path}: a word occurs twice, or {UNKNOWN}, {BEGIN} or {END} is missing"
            )
        return cls(tuple(listed))


class WholeWords(ABC):
    """Base class of vocabularies with one token a word: an id or an array of ids."""

    byte_sizes: ClassVar[None] = None
    unsettled_ids: ClassVar[frozenset[int]] = frozenset()

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """The tokens of the words of a text."""

    @abstractmethod
    def pieces(self, ids: Iterable[int | np.ndarray]) -> list[str]:
        """The word of each token."""

    @abstractmethod
    def frame(self, word: str) -> Any:
        """The token before (``BEGIN``) or after (``END``) a sentence."""

    def encode_all(self, texts: Iterable[str]) -> list[np.ndarray]:
        """The ids of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int | np.ndarray]) -> str:
        """The text of a row, without bos and eos."""
        return " ".join(word for word in self.pieces(ids) if word not in (BEGIN, END))

    def segment(self, text: str) -> Segmentation:
        """The segmentation of a text, in which each word is a token."""
        spans = tuple(word_spans(text))
        ids: Any = self.encode(text)
        return Segmentation(ids, spans, tuple(range(len(spans))))
