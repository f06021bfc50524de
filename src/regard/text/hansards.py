"""Words set apart by spaces, as corpora for word alignment write them, and French written out.

The form is that of the Hansards of Mihalcea & Pedersen (2003): every word and every sign stands
alone, an elided vowel is back ("l'idée" is "le idée", "s'il" "se il"), and "du", "des", "au" and
"aux" are the two words they are made of. A text in that form stays as it is.
"""

import re
from collections.abc import Callable, Mapping
from unicodedata import normalize

_NUMBER = r"(?:(?<!\S)\.)?\d+(?:[.,]\d+)*[^\W\d_]*"
_SHORT = r"(?:[Mm]rs?|[Mm]essrs|[Dd]r|[Hh]on|[Ss]t|MM?)\.|[Nn]o\.(?= ?\d)|\b(?:[^\W\d_]\.){2,}"
_SIGN = r"\.{2,}|-{2,}|[^\w\s]"
_ENGLISH = re.compile(rf"{_NUMBER}|{_SHORT}|'(?:s|t|re|ve|ll|d|m)\b|[^\W_]+|{_SIGN}|_+")

_ELIDED = {
    **{f"{one}'": f"{one}e" for one in "cdjlmnst"},
    **{f"{one}qu'": f"{one}que" for one in ("", "jus", "lors", "puis", "quel", "quoi", "pres")},
}
_CONTRACTED = {"du": "de le", "des": "de les", "au": "à le", "aux": "à les"}
_ELISION = rf"(?:{'|'.join(_ELIDED)})(?=\w)|aujourd'"
_WORD = r"[^\W_]+(?:'[^\W_]+)*"
_FRENCH = re.compile(rf"{_NUMBER}|{_SHORT}|{_ELISION}|{_WORD}|{_SIGN}|_+", re.I)
_CONTRACTION = re.compile(  # alone: "au-delà" is one word
    rf"(?<![^\W_])(?<!-)(?<!- )(?:{'|'.join(_CONTRACTED)})(?![^\W_]| ?-)", re.I
)


def english(text: str) -> str:
    """Words and signs of English; "Mr." and its like keep their point, "'s" is a word."""
    return " ".join(_ENGLISH.findall(_straight(text)))


def french(text: str) -> str:
    """Words and signs of French, elisions and contractions written out."""
    text = _CONTRACTION.sub(lambda found: _written_out(found[0], _CONTRACTED), _straight(text))
    return " ".join(_written_out(word, _ELIDED) for word in _FRENCH.findall(text))


LANGUAGES: dict[str, Callable[[str], str]] = {"english": english, "french": french}


def _straight(text: str) -> str:
    return normalize("NFC", text).replace("’", "'")


def _written_out(word: str, known: Mapping[str, str]) -> str:
    """A word, or what it stands for; a capital at its beginning stays one."""
    full = known.get(word.lower(), word)
    return full[0].upper() + full[1:] if word[0].isupper() else full
