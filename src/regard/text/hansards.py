"""The tokenisation of the Hansards, a corpus for word alignment (Mihalcea & Pedersen, 2003).

Every word and every sign is separated by spaces. In French an elided vowel is restored ("l'idée"
becomes "le idée", "s'il" "se il"), and "du", "des", "au" and "aux" become the two words they
contract. A text in that form does not change.
"""

import re
from collections.abc import Callable, Mapping
from unicodedata import normalize

_NUMBER = r"(?:(?<!\S)\.)?\d+(?:[.,]\d+)*[^\W\d_]*"
_SHORT = r"(?:[Mm]rs?|[Mm]essrs|[Dd]r|[Hh]on|[Ss]t|MM?)\.|[Nn]o\.(?= ?\d)|\b(?:[^\W\d_]\.){2,}"
_SIGN = r"\.{2,}|-{2,}|[^\w\s]"
_ENGLISH = re.compile(rf"{_NUMBER}|{_SHORT}|'(?:s|t|re|ve|ll|d|m)\b|[^\W_]+|{_SIGN}|_+")

_BEFORE_QUE = ("", "jus", "lors", "puis", "quel", "quoi", "pres")
_ELIDED = {f"{letter}'": f"{letter}e" for letter in "cdjlmnst"}
_ELIDED |= {f"{start}qu'": f"{start}que" for start in _BEFORE_QUE}
_CONTRACTED = {"du": "de le", "des": "de les", "au": "à le", "aux": "à les"}
_ELISION = rf"(?:{'|'.join(_ELIDED)})(?=\w)|aujourd'"
_WORD = r"[^\W_]+(?:'[^\W_]+)*"
_FRENCH = re.compile(rf"{_NUMBER}|{_SHORT}|{_ELISION}|{_WORD}|{_SIGN}|_+", re.I)
_CONTRACTION = re.compile(  # alone: "au-delà" is one word
    rf"(?<![^\W_])(?<!-)(?<!- )(?:{'|'.join(_CONTRACTED)})(?![^\W_]| ?-)", re.I
)


def english(text: str) -> str:
    """Words and signs of English; abbreviations such as "Mr." keep their point, "'s" is a word."""
    return " ".join(_ENGLISH.findall(_straight(text)))


def french(text: str) -> str:
    """Words and signs of French, without elisions and contractions."""
    text = _CONTRACTION.sub(lambda match: _expand(match[0], _CONTRACTED), _straight(text))
    return " ".join(_expand(word, _ELIDED) for word in _FRENCH.findall(text))


LANGUAGES: dict[str, Callable[[str], str]] = {"english": english, "french": french}


def _straight(text: str) -> str:
    return normalize("NFC", text).replace("’", "'")


def _expand(word: str, known: Mapping[str, str]) -> str:
    """A word, or its full form; an initial capital is preserved."""
    full = known.get(word.lower(), word)
    return full[0].upper() + full[1:] if word[0].isupper() else full
