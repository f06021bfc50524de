"""Words of a text, the unit of alignments and attention maps; checks of the caller's texts.

An error in a text is ``BadItem``, with the number of the input.
"""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple
from unicodedata import category

from regard.core.errors import BadInput, BadItem, shown

# Letters of scripts that write no spaces between words; their digits make numbers as others do.
_UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"
    "\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\U0001aff0-\U0001b16f"
    "\u0e01-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u1780-\u17df\u1000-\u103f\u104c-\u108f\u109a-\u109f"  # Khmer, Myanmar
    "\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
_AM = "\u0e33\u0eb3"  # vowels of Thai and Lao that are a mark and a letter in one character
_STACKING = "\u17d2\u1039"  # marks of Khmer and Myanmar that stack the next consonant
_SPACED = re.compile(r"\S+")
_CLITIC = re.compile(r"['’](?:s|re|ve|ll|d|m)$", re.IGNORECASE)
_LETTER = rf"[^\W{_UNSPACED}]"
_WORD = re.compile(rf"{_LETTER}+(?:['’\-]{_LETTER}+)*|[{_UNSPACED}]|[^\w\s]")
# No combining marks, nor letters of these scripts: Latin, and the quotes and dashes of print.
_IS_PLAIN = re.compile("[\x00-\u02ff\u2000-\u206f]*").fullmatch
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]").match


class Span(NamedTuple):
    """Characters ``start`` (inclusive) to ``end`` (exclusive) of a text."""

    start: int
    end: int


Sentence = str | Sequence[str]
"""A text, or its words."""
Spans = Callable[[str], list[Span]]
"""A function that finds the words of a text."""


def word_spans(text: str) -> list[Span]:
    """Words and punctuation marks, in order; inner apostrophes and hyphens belong to a word.

    In scripts without spaces between words (Han, Kana, Thai, Lao, Khmer, Myanmar) each character is
    a word. A combining mark belongs to the letter before it.
    """
    spans: list[Span] = []
    before = ""  # the character that the next one may belong to
    for match in _WORD.finditer(text):
        start, end = match.span()
        if spans and start == spans[-1].end and _belongs(text[start], before):
            spans[-1] = Span(spans[-1].start, end)
        else:
            spans.append(Span(start, end))
        before = text[end - 1]
    return spans


def _belongs(character: str, before: str) -> bool:
    """Whether a match that begins with ``character`` continues the word before it."""
    letter_class = category(character)
    if letter_class[0] == "M":
        return True
    unspaced = [_IS_UNSPACED(letter) is not None for letter in (before, character)]
    if all(unspaced):
        return before in _STACKING or character in _AM or letter_class == "Lm"
    return not any(unspaced) and category(before)[0] == "M" and letter_class[0] in "LN"


def clitic_spans(text: str) -> list[Span]:
    """Words as ``word_spans`` finds them, with English clitics ("'s", "'ll") as their own words."""
    spans: list[Span] = []
    for start, end in word_spans(text):
        clitic = _CLITIC.search(text, start + 1, end)
        cuts = [start, end] if clitic is None else [start, clitic.start(), end]
        spans += (Span(*pair) for pair in pairwise(cuts))
    return spans


def spaced_spans(text: str) -> list[Span]:
    """The words of a text that is tokenised already, separated by white space."""
    return [Span(*match.span()) for match in _SPACED.finditer(text)]


def joined_spans(words: Sequence[str]) -> list[Span]:
    """The span of each word when words are joined by spaces."""
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [Span(start, start + len(word)) for word, start in zip(words, starts, strict=False)]


def words(text: str) -> list[str]:
    """The words of ``text`` as strings."""
    if _IS_PLAIN(text):
        return _WORD.findall(text)
    return [text[start:end] for start, end in word_spans(text)]


def words_of(sentence: Sentence) -> Sequence[str]:
    """List of words of a sentence, which is a text or already a list of words."""
    return words(sentence) if isinstance(sentence, str) else sentence


def joined(sentence: Sentence) -> str:
    """A text, or words with spaces between them."""
    return sentence if isinstance(sentence, str) else " ".join(sentence)


def check_text(text: object, number: int, fault: str = "not a text") -> str:
    """Return a text; refuse other types, and text that cannot be written as UTF-8."""
    if not isinstance(text, str):
        raise BadItem(number, f"{shown(text)} is {fault}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadItem(number, f"a character of {shown(text)} is not valid Unicode") from None
    return text


def one_or_two_texts(value: object, number: int) -> tuple[str, ...]:
    """A text, or a pair of texts, as a tuple; errors call it input ``number``."""
    texts = value if isinstance(value, tuple | list) and len(value) == 2 else (value,)
    if not all(isinstance(text, str) for text in texts):
        raise BadItem(number, f"{shown(value)} is neither a text nor a pair of texts")
    return tuple(check_text(text, number) for text in texts)


def text_or_pair(line: str, where: str) -> str | tuple[str, str]:
    """The text in a line, or the two texts with a tab between them."""
    texts = line.split("\t")
    if len(texts) > 2:
        raise BadInput(f"{where}: {len(texts)} texts between tabs; give one or two")
    return texts[0] if len(texts) == 1 else (texts[0], texts[1])
