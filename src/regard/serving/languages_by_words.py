"""Guesses of the language of a text among a few: by its script, its letters and frequent words."""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import exp, log

READ = 4_096  # characters of a text
FREQUENT = log(8)  # evidence of a frequent word, against a text of none of the languages
OWN_SCRIPT = log(2)
FOREIGN_LETTER = -log(5)
OTHER_SCRIPT = -log(100)
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class LanguageProfile:
    """What texts of a language have: letters beside a to z, frequent words, and scripts.

    Latin and other scripts of many languages are ``shared``: they say nothing for the language.
    """

    scripts: tuple[str, ...]
    shared: tuple[str, ...]
    letters: frozenset[str]
    words: frozenset[str]

    def evidence(self, words: Sequence[str]) -> float:
        """Logarithm of how much likelier words are in this language than in an unknown one."""
        total = FREQUENT * sum(word in self.words for word in words)
        for letter in "".join(words):
            script = _script(letter)
            if script in self.scripts:
                total += OWN_SCRIPT
            elif script not in self.shared:
                total += OTHER_SCRIPT
            if self.letters and not letter.isascii() and letter not in self.letters:
                total += FOREIGN_LETTER
        return total


@cache
def language_profiles() -> dict[str, LanguageProfile]:
    """Profiles by the code of their language."""
    path = files("regard.serving") / "language_profiles.toml"
    return {
        code: LanguageProfile(
            tuple(table.get("scripts", [])),
            tuple(table.get("shared", [] if "scripts" in table else ["LATIN"])),
            frozenset(table.get("letters", "")),
            frozenset(table.get("words", "").split()),
        )
        for code, table in tomllib.loads(path.read_text(encoding="utf-8")).items()
    }


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").partition(" ")[0]


def guess_languages(text: str, codes: Iterable[str]) -> dict[str, float]:
    """The probability of each language for a text, the highest first.

    The rest, to 1, is that of another language; a text without words has it all.
    """
    words = WORD.findall(unicodedata.normalize("NFC", text[:READ]).lower())
    if not words:
        return dict.fromkeys(codes, 0.0)
    profiles = language_profiles()
    evidence = {code: profiles[code].evidence(words) if code in profiles else 0.0 for code in codes}
    highest = max(0.0, *evidence.values())
    weights = {code: exp(value - highest) for code, value in evidence.items()}
    total = sum(weights.values()) + exp(-highest)
    return {code: weights[code] / total for code in sorted(weights, key=lambda c: -weights[c])}
