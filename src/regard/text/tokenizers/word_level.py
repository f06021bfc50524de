"""Whole words.

``WordLevel`` and ``RawWords`` are vocabularies of language models. The texts of the first are
tokenised already, as WikiText is, and split at spaces; in raw texts, punctuation marks are words
too. A line ends in ``<eos>``, which also separates documents. Words that are not in the vocabulary
become ``<unk>``; a text may also contain ``<unk>`` itself.

``WordTokenizer`` has the words of a lexicon, and may spell each by its characters or pieces, for
features. ``CharacterTokenizer`` has words as the ids of their characters, as ELMo reads them
(Peters et al., 2018): a word is the bytes of its UTF-8 between two ids that begin and end words,
padded to one length; longer words are truncated. A sentence is enclosed in two special words, bos
and eos.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from regard.core.errors import BadInput
from regard.core.files import read_json, read_text, write_json
from regard.core.progress import reporting
from regard.text.templates import Template
from regard.text.tokenizers.family import (
    SPACE,
    Learned,
    TokenizerFamily,
    TokenizerSettings,
    Vocab,
    lines_by_id,
)
from regard.text.tokenizers.row_tokenizer import WholeWordTokenizer
from regard.text.tokenizers.subwords import Subwords
from regard.text.vocabulary import BEGIN, END, UNKNOWN, Lexicon, Spelling, WholeWords
from regard.text.words import Span, word_spans, words

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


LINES = "words.txt"
UNK, EOS = "<unk>", "<eos>"
MASK = "[MASK]"  # how a gap is written


class WordLevel(TokenizerFamily):
    """Tokenizers of word-level language models."""

    name = kind = "word-level"
    model, classes = "WordLevel", ("WordLevelTokenizer",)
    files: ClassVar = (LINES,)
    special_tokens: ClassVar = {"unk_token": UNK, "eos_token": EOS}
    template, separator = Template("A", "A B"), "eos_token"
    pattern: ClassVar[str] = r"\S+"  # of a word

    def read_files(self, folder: Path) -> Vocab:
        words = read_text(folder / LINES).split()
        if len({*words}) < len(words):
            raise BadInput(f"{folder / LINES}: a word occurs twice")
        return {"vocab": {word: number for number, word in enumerate(words)}}

    def write_files(self, model: Vocab) -> dict[str, str]:
        return {LINES: lines_by_id(model)}

    def build(self, model: Vocab, unk: str, settings: TokenizerSettings) -> Tokenizer:
        tokenizer = Tokenizer(models.WordLevel(dict(model["vocab"]), unk_token=unk))
        lines = [normalizers.Replace("\n", f" {EOS} ")]
        lower = [normalizers.Lowercase()] if settings.flag("do_lower_case", False) else []
        tokenizer.normalizer = normalizers.Sequence([*lower, *lines])
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(self.pattern), "removed", invert=True)
        return tokenizer

    def learn(self, texts: Iterable[str], vocab: int, lower: bool) -> Learned:
        special, settings = [*self.special_tokens.values()], {"do_lower_case": lower}
        tokenizer = self.build({"vocab": {}}, UNK, TokenizerSettings(settings))
        trainer = trainers.WordLevelTrainer(vocab_size=vocab + len(special), show_progress=False)
        with reporting("learning the vocabulary", texts) as counted:
            tokenizer.train_from_iterator(counted, trainer)
        ranks = tokenizer.get_vocab()
        words = sorted(ranks.keys() - {*special}, key=ranks.__getitem__)
        if not words:
            raise BadInput("data.train: there is no text to learn words from")
        ids = {word: number for number, word in enumerate([*special, *words][:vocab])}
        return {"vocab": ids}, settings

    def continues_word(self, piece: str) -> bool:
        return False

    def join(self, text: str, piece: str) -> str:
        return f"{text.rstrip()} {piece}".lstrip().replace(SPACE, " ")


class RawWords(WordLevel):
    """Words and punctuation marks of texts as people write them; "it's" is "it" and "'s"."""

    name, kind = "raw-words", "words"
    classes = ("RawWordTokenizer",)
    pattern = rf"\w+|(?<=\w)['’]\w+|{UNK}|{EOS}|[^\w\s]"


@dataclass(frozen=True)
class WordPieces(Spelling):
    """Spelling of a word by the ids of its first ``longest`` pieces.

    Ids are one higher than in the vocabulary: 0 is no piece. The source of a translator has an eos
    token and no bos token.
    """

    FILE: ClassVar[str] = "pieces.json"

    vocabulary: Subwords
    longest: int = 8

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise BadInput(f"words of {self.longest} pieces have no room for a piece (longest)")

    @cached_property
    def bos(self) -> np.ndarray:
        return self._padded([])

    @cached_property
    def eos(self) -> np.ndarray:
        return self._padded([self.vocabulary.eos])

    def save(self, folder: Path) -> dict[str, int]:
        self.vocabulary.save(folder / self.FILE)
        return {"pieces": self.longest}

    @classmethod
    def load(cls, folder: Path, pieces: int) -> "WordPieces":
        """Read the spelling that ``save`` wrote."""
        return cls(Subwords.load(folder / cls.FILE), pieces)

    def spell_word(self, word: str) -> np.ndarray:
        return self._padded(self.vocabulary.encode(word))

    def _padded(self, ids: Sequence[int]) -> np.ndarray:
        read = np.asarray(ids[: self.longest], np.int32) + 1
        return np.pad(read, (0, self.longest - len(read)))


@dataclass(frozen=True)
class WordVocabulary(WholeWords):
    """Vocabulary of the words of a lexicon, lower-cased if ``lower``.

    With ``spelling``, a token is the id of a word, and the ids of its characters or pieces, which
    keep their case.
    """

    lexicon: Lexicon
    lower: bool = False
    spelling: Spelling | None = None

    kind: ClassVar[str] = "words"

    def __len__(self) -> int:
        return len(self.lexicon)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the lexicon."""
        return self.lexicon.fingerprint

    @property
    def pad(self) -> int:
        return self.unk

    @property
    def unk(self) -> int:
        return self.lexicon.ids[UNKNOWN]

    def tokens(self, listed: Sequence[str]) -> np.ndarray:
        """The ids of words: (words,), or (words, 1 + ids of its spelling)."""
        ids, unknown = self.lexicon.ids, self.unk
        known = [ids.get(word.lower() if self.lower else word, unknown) for word in listed]
        numbers = np.array(known, np.int32)
        if self.spelling is None:
            return numbers
        return np.concatenate([numbers[:, None], self.spelling.spell(listed)], axis=1)

    def frame(self, word: str) -> Any:
        number = self.lexicon.ids[word]
        if self.spelling is None:
            return number
        spelled = {BEGIN: self.spelling.bos, END: self.spelling.eos}[word]
        return np.append(number, spelled).astype(np.int32)

    def encode(self, text: str) -> np.ndarray:
        return self.tokens(words(text))

    def pieces(self, ids: Iterable[int | np.ndarray]) -> list[str]:
        return [self.lexicon.words[int(np.ravel(token)[0])] for token in ids]

    def unknown(self, text: str) -> list[Span]:
        """The words of a text that are not in the lexicon."""
        tokens = zip(word_spans(text), self.encode(text), strict=True)
        return [span for span, token in tokens if np.ravel(token)[0] == self.unk]


@dataclass(frozen=True, repr=False)
class WordTokenizer(WholeWordTokenizer):
    """Tokenizer of texts, or lists of words, into rows of words."""

    name: ClassVar = "words"
    FILES: ClassVar = ("words.json", "lexicon.txt", WordPieces.FILE)

    words: WordVocabulary

    def masked(self, text: str) -> np.ndarray:
        first, *rest = map(self.words.encode, text.split(MASK))
        gap = np.stack([self.words.frame(END)])
        return np.concatenate([first, *(ids for part in rest for ids in (gap, part))])

    def join(self, text: str, word: str) -> str:
        """Append a word to a text."""
        return f"{text.rstrip()} {word}".lstrip()

    def pieces(self, words: Sequence[str]) -> list[Any]:
        return [[token] for token in self.words.tokens(words)]

    def save(self, folder: Path) -> None:
        path, lexicon, pieces = (folder / name for name in self.FILES)
        pieces.unlink(missing_ok=True)
        spelling = self.words.spelling
        settings = {} if spelling is None else spelling.save(folder)
        write_json(path, {"lower": self.words.lower, **settings})
        self.words.lexicon.save(lexicon)

    @staticmethod
    def load(folder: Path) -> "WordTokenizer":
        """Read the tokenizer that ``save`` wrote."""
        path, lexicon, _ = (folder / name for name in WordTokenizer.FILES)
        content = read_json(path)
        lower, *counts = map(content.get, ("lower", "characters", "pieces"))
        if not isinstance(lower, bool) or not all(isinstance(n, int | None) for n in counts):
            raise BadInput(f"{path}: lower must be true or false, characters and pieces integers")
        spelling: Spelling | None = None
        characters, pieces = cast(list[int | None], counts)
        if characters is not None:
            spelling = CharacterVocabulary(characters)
        elif pieces is not None:
            spelling = WordPieces.load(folder, pieces)
        return WordTokenizer(WordVocabulary(Lexicon.load(lexicon), lower, spelling))
