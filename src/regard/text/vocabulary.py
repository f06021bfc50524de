"""Vocabularies: their interface, special tokens, lexicons of whole words, spellings of words."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, NoReturn, Protocol, cast

import numpy as np

from regard.core.checks import is_whole
from regard.core.errors import BadInput, first_names
from regard.core.files import read_text, replacing
from regard.text.segmentation import Segmentation
from regard.text.words import Sentence, Span, word_spans, words, words_of

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")  # of subword vocabularies that regard learns
PAD, BOS, EOS, UNK = range(4)  # their ids
SPECIAL_WORDS = UNKNOWN, BEGIN, END = "<UNK>", "<S>", "</S>"  # of lexicons
SPELLINGS = 1 << 16  # words whose ids are remembered
PART = 1 << 18  # characters of a text that are tokenised at once, if not all need be
LETTERS = 64  # characters for each token that a model reads, likewise
WHITE = " \n\t"
MISSING = "this folder has no tokenizer files: only token ids can be used (from Python)"


class Vocabulary(Protocol):
    """Vocabulary for one language or for both; text never becomes a special id."""

    def __len__(self) -> int: ...

    @property
    def kind(self) -> str:
        """Kind: ``text.kind`` of a recipe, "sentencepiece", "characters" or "ids"."""

    @property
    def pad(self) -> int: ...

    @property
    def bos(self) -> int:
        """The first input of a decoder."""

    @property
    def eos(self) -> int: ...

    @property
    def unk(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that identify the content."""

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, without any special tokens."""

    def encode_all(self, texts: Iterable[str]) -> list[list[int]]:
        """The ids of each text, on all cores."""

    def encode_dropped(self, text: str, rate: float, key: tuple[int, ...]) -> list[int]:
        """A random segmentation, the same for the same ``key``."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special tokens are left out."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token in readable form."""

    def segment(self, text: str) -> Segmentation:
        """The ids of ``text`` with their characters and words; ``ids`` equals ``encode(text)``."""

    def unknown(self, text: str) -> list[Span]:
        """The words of ``text`` with an unknown token."""

    def save(self, path: Path) -> None:
        """Write the file of the vocabulary."""


SPECIAL_ROLES = ("pad", "unk", "bos", "eos")


def describe(vocabulary: Vocabulary, special: Collection[int] | None = None) -> str:
    """Kind, size and special tokens of a vocabulary; by default those that every kind names."""
    if special is None:
        special = {number for role in SPECIAL_ROLES if (number := _id_of(vocabulary, role)) >= 0}
    ids = sorted(special)
    named = zip(vocabulary.pieces(ids), ids, strict=True)
    tokens = first_names(f"{token} {number}" for token, number in named) if ids else "none"
    return f"{vocabulary.kind}, {len(vocabulary):,} tokens, special: {tokens}"


def _id_of(vocabulary: Vocabulary, role: str) -> int:
    try:
        return cast(int, getattr(vocabulary, role))
    except BadInput:
        return -1


@dataclass(frozen=True)
class IdVocabulary:
    """A ``Vocabulary`` of which only the size and the special ids are known."""

    size: int
    pad: int
    bos: int
    eos: int
    unk: int = -1  # only texts have unknown words
    kind: str = "ids"

    def __len__(self) -> int:
        return self.size

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the size and the special ids."""
        return f"{self.size}-{self.pad}-{self.bos}-{self.eos}"

    def decode(self, ids: Sequence[int]) -> str:
        """The empty text, because the pieces are not known."""
        return ""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The ids as strings, because the pieces are not known."""
        return [str(int(i)) for i in ids]

    def encode(self, *texts: object, **options: object) -> NoReturn:
        """Refuse texts, which need tokenizer files."""
        raise BadInput(MISSING)

    encode_all = encode_dropped = segment = unknown = encode

    def save(self, path: Path) -> None:
        """Write nothing."""


@dataclass(frozen=True)
class Lexicon:
    """Words by id: the unknown word, bos and eos, then all others by frequency."""

    words: tuple[str, ...]

    @classmethod
    def learn(cls, texts: Iterable[Sentence], size: int, *, lower: bool = False) -> "Lexicon":
        """Learn the most frequent words; ties are broken alphabetically."""
        if size < len(SPECIAL_WORDS):
            names = ", ".join(SPECIAL_WORDS)
            least = len(SPECIAL_WORDS) + 1
            few = f"a vocabulary of {size} has no room for {names}"
            raise BadInput(f"text.vocab: {few}; write {least} or more")
        counts = Counter[str]()
        for text in texts:
            counts.update(word.lower() if lower else word for word in words_of(text))
        if not counts:
            raise BadInput("data.train: there is no text to learn words from")
        by_count = sorted(counts.keys() - {*SPECIAL_WORDS}, key=lambda word: (-counts[word], word))
        return cls((*SPECIAL_WORDS, *by_count)[:size])

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
        if len({*listed}) < len(listed) or not {*SPECIAL_WORDS} <= {*listed}:
            raise BadInput(
                f"{path}: a word occurs twice, or {UNKNOWN}, {BEGIN} or {END} is missing"
            )
        return cls(tuple(listed))


class WholeWords(ABC):
    """Base class of vocabularies with one token a word: an id or an array of ids."""

    kind: ClassVar[str]
    byte_sizes: ClassVar[None] = None
    unsettled_ids: ClassVar[frozenset[int]] = frozenset()

    @abstractmethod
    def __len__(self) -> int:
        """The number of words, or of the numbers of an array."""

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

    def cut(self, text: str) -> tuple[np.ndarray, list[Span]]:
        """The tokens of the words of a text, and the characters of each word."""
        return self.encode(text), word_spans(text)

    def segment(self, text: str) -> Segmentation:
        """The segmentation of a text, in which each word is a token."""
        spans = tuple(word_spans(text))
        ids: Any = self.encode(text)
        return Segmentation(ids, spans, tuple(range(len(spans))))


class Spelling(ABC):
    """Spelling of words as ``longest`` ids each, for a model whose states are features of words."""

    longest: int

    @property
    @abstractmethod
    def bos(self) -> np.ndarray:
        """Ids of the special word before a sentence."""

    @property
    @abstractmethod
    def eos(self) -> np.ndarray:
        """Ids of the special word after a sentence."""

    @abstractmethod
    def spell_word(self, word: str) -> np.ndarray:
        """The ids of a word."""

    @cached_property
    def _spell_word(self) -> Callable[[str], np.ndarray]:
        return lru_cache(SPELLINGS)(self.spell_word)

    def spell(self, listed: Sequence[str]) -> np.ndarray:
        """The ids of each word, (words, longest)."""
        if not listed:
            return np.zeros((0, self.longest), np.int32)
        return np.stack([self._spell_word(word) for word in listed])

    @abstractmethod
    def save(self, folder: Path) -> dict[str, int]:
        """Write the files; return further settings, which ``load`` needs."""


def token_count(texts: Iterable[str], vocabulary: Vocabulary, special: int, most: int) -> int:
    """The number of tokens in a row of texts, including ``special`` tokens.

    The number is exact above ``most``, but for texts of more than ``PART`` characters, which are
    counted in parts; otherwise an upper bound, computed without tokenising.
    """
    texts = list(texts)
    bytes_of_all = sum(len(text.encode()) for text in texts)  # a token has at least one
    if bytes_of_all + special <= most:
        return bytes_of_all + special
    parts = (part for text in texts for part in _parts(text))
    return sum(len(ids) for part in parts for ids in vocabulary.encode_all([part])) + special


def encode_beginnings(
    vocabulary: Vocabulary, texts: Iterable[str], longest: int | None
) -> list[list[int]]:
    """The ids of each text, for rows of the first ``longest`` ids; None: of all.

    Of an enormous text the beginning is tokenised, up to white space, with twice as many ids.
    """
    texts = list(texts)
    if longest is None:
        return vocabulary.encode_all(texts)
    size = max(PART, LETTERS * longest)
    rows = vocabulary.encode_all([_beginning(text, size) for text in texts])
    for number, text in enumerate(texts):
        reach = size
        while len(rows[number]) < 2 * longest and reach < len(text):
            reach *= 8
            rows[number] = vocabulary.encode(_beginning(text, reach))
    return rows


def _beginning(text: str, size: int) -> str:
    """At most ``size`` characters of a text, up to white space if there is any."""
    if len(text) <= size:
        return text
    return text[: max(text.rfind(space, 1, size) for space in WHITE) + 1 or size].rstrip()


def _parts(text: str) -> Iterator[str]:
    """A text in parts of at most ``PART`` characters; white space between them is left out."""
    while len(text) > PART:
        part = _beginning(text, PART)
        yield part
        text = text[len(part) or PART :].lstrip()
    yield text


def matching_ids(vocabulary: Vocabulary, other: Vocabulary) -> list[int | None]:
    """For each piece, its id in another vocabulary; None if that vocabulary lacks it."""
    ids = {piece: number for number, piece in enumerate(other.pieces(range(len(other))))}
    return [ids.get(piece) for piece in vocabulary.pieces(range(len(vocabulary)))]


def check_sizes(sizes: Mapping[str, int], known: Mapping[str, int]) -> None:
    """Refuse a model with fewer ids than its tokenizer; ``sizes`` and ``known`` are by name."""
    for name, count in sizes.items():
        if count > known.get(name, 0):
            raise BadInput(
                f"the tokenizer has {count} {name}, but the model has {known.get(name, 0)}"
            )


def check_pieces(pieces: object, path: Path, *, distinct: bool = True) -> dict[str, int]:
    """Return a vocabulary; refuse ids that are not distinct or far above the number of pieces.

    Libraries allocate memory by the largest id, so this is checked first. Equal ids are allowed if
    they need not be ``distinct``.
    """
    if not isinstance(pieces, dict) or not all(
        is_whole(number, 0, 2 * len(pieces) - 1) for number in pieces.values()
    ):
        raise BadInput(f"{path}: its vocabulary must map pieces to ids")
    if distinct and len(set(pieces.values())) < len(pieces):
        raise BadInput(f"{path}: two pieces of its vocabulary have the same id")
    return pieces
