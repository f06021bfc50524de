"""Words as the ids of their characters, as ELMo reads them (Peters et al., 2018).

A word is the bytes of its UTF-8 between two ids that begin and end words, padded to one length;
longer words are truncated. A sentence is enclosed in two special words, bos and eos.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.core.errors import BadInput
from regard.core.files import read_json, write_json
from regard.text.tokenizers.row_tokenizer import WholeWordTokenizer
from regard.text.vocabulary import BEGIN, END, Lexicon, Spelling, WholeWords
from regard.text.words import Span, words

SENTENCE_BEGINS, SENTENCE_ENDS, WORD_BEGINS, WORD_ENDS, PADDING = range(256, 261)


@dataclass(frozen=True)
class CharacterVocabulary(WholeWords, Spelling):
    """Vocabulary of bytes and the ids around them; a word has ``longest`` ids."""

    longest: int = 50

    kind: ClassVar[str] = "characters"
    pad: ClassVar[int] = PADDING
    unk: ClassVar[int] = -1  # no word is unknown

    def __post_init__(self) -> None:
        if self.longest < 3:
            raise BadInput(f"words of {self.longest} ids have no room for a character (longest)")

    def __len__(self) -> int:
        return PADDING + 1

    @property
    def fingerprint(self) -> str:
        """Fingerprint: the kind of vocabulary and the number of ids per word."""
        return f"characters-{self.longest}"

    @cached_property
    def bos(self) -> np.ndarray:
        return self._word((SENTENCE_BEGINS,))

    @cached_property
    def eos(self) -> np.ndarray:
        return self._word((SENTENCE_ENDS,))

    def save(self, folder: Path) -> dict[str, int]:
        """Return the settings to store: the number of ids per word. No file is written."""
        return {"characters": self.longest}

    def frame(self, word: str) -> np.ndarray:
        return {BEGIN: self.bos, END: self.eos}[word]

    def spell_all(self, lexicon: Lexicon) -> np.ndarray:
        """Character ids of all words of a lexicon, (words, longest); row i is the word of id i."""
        spelled = self.spell(lexicon.words)
        spelled[lexicon.ids[BEGIN]], spelled[lexicon.ids[END]] = self.bos, self.eos
        return spelled

    def encode(self, text: str) -> np.ndarray:
        return self.spell(words(text))

    def pieces(self, ids: Iterable[int | np.ndarray]) -> list[str]:
        return [self._read(row) for row in ids]

    def unknown(self, text: str) -> list[Span]:
        """Unknown words of a text: always none, because all bytes have ids."""
        return []

    def spell_word(self, word: str) -> np.ndarray:
        return self._word(word.encode())

    def _word(self, characters: Sequence[int]) -> np.ndarray:
        inner = [WORD_BEGINS, *characters[: self.longest - 2], WORD_ENDS]
        return np.array(inner + [PADDING] * (self.longest - len(inner)), np.int32)

    def _read(self, row: int | np.ndarray) -> str:
        ids = np.ravel(row).tolist()
        frames = ((SENTENCE_BEGINS, BEGIN), (SENTENCE_ENDS, END))
        text = bytes(i for i in ids if i < 256).decode(errors="replace")
        return next((name for number, name in frames if number in ids), text)


@dataclass(frozen=True, repr=False)
class CharacterTokenizer(WholeWordTokenizer):
    """Tokenizer of words as characters; the states of the added bos and eos are left out.

    The ``lexicon`` has the words on which a language model is trained.
    """

    name: ClassVar = "characters"
    FILES: ClassVar = ("characters.json", "lexicon.txt")
    inner: ClassVar = slice(1, -1)

    words: CharacterVocabulary = field(default_factory=CharacterVocabulary)
    lexicon: Lexicon | None = None

    @property
    def training_words(self) -> Lexicon:
        if self.lexicon is None:
            raise BadInput(
                "this tokenizer has no lexicon (lexicon.txt), which training a language model needs"
            )
        return self.lexicon

    @property
    def spelling(self) -> CharacterVocabulary:
        return self.words

    def pieces(self, words: Sequence[str]) -> list[Any]:
        return [[row] for row in self.words.spell(words)]

    def save(self, folder: Path) -> None:
        write_json(folder / self.FILES[0], {"longest": self.words.longest})
        (folder / self.FILES[1]).unlink(missing_ok=True)
        if self.lexicon is not None:
            self.lexicon.save(folder / self.FILES[1])

    @staticmethod
    def load(folder: Path) -> "CharacterTokenizer":
        """Read the tokenizer that ``save`` wrote."""
        path, lexicon = (folder / name for name in CharacterTokenizer.FILES)
        longest = read_json(path).get("longest")
        if not isinstance(longest, int):
            raise BadInput(
                f"{path}: longest (number of ids per word) must be an integer, not {longest!r}"
            )
        learned = Lexicon.load(lexicon) if lexicon.exists() else None
        return CharacterTokenizer(CharacterVocabulary(longest), learned)
