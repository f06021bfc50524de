"""Sentence pairs with word links: sampling, splits, files, and a word-by-word baseline."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from random import Random

from regard.core.files import write_text
from regard.data.toy_language import english, german
from regard.data.toy_language.clauses import sentence
from regard.data.toy_language.syntax_tree import Meaning, Sentence, Words
from regard.text.words import words

LONGEST = 30
"""Maximum length of English sentences, in words."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """Sentence pair with links (source word, target word), as indices of ``words``."""

    source: str
    target: str
    links: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Corpus:
    train: tuple[SentencePair, ...]
    dev: tuple[SentencePair, ...]
    test: tuple[SentencePair, ...]


def pair(tree: Sentence) -> SentencePair:
    """Sentence pair of a tree; words that express the same part are linked."""
    source, target = english.sentence(tree), german.sentence(tree)
    places: dict[Meaning, list[int]] = {}
    for j, word in enumerate(target):
        for meaning in word.meanings:
            places.setdefault(meaning, []).append(j)
    links = frozenset(
        (i, j)
        for i, word in enumerate(source)
        for meaning in word.meanings
        for j in places.get(meaning, ())
    )
    return SentencePair(spelled(source), spelled(target), links)


def spelled(words: Words) -> str:
    """Text of words: capitalised, without spaces before punctuation."""
    text = "".join(word.text if word.text in ",.?" else " " + word.text for word in words)[1:]
    return text[0].upper() + text[1:]


def sample(seed: int) -> Iterator[SentencePair]:
    """Endless random pairs, no two with the same source or the same target."""
    dice = Random(seed)
    seen: set[str] = set()
    while True:
        drawn = pair(sentence(dice))
        sides = {"en " + drawn.source, "de " + drawn.target}
        if seen.isdisjoint(sides) and drawn.source.count(" ") < LONGEST:
            seen |= sides
            yield drawn


def corpus(train: int = 20_000, dev: int = 500, test: int = 500, seed: int = 1) -> Corpus:
    """Corpus of random pairs; dev and test pairs do not depend on the size of ``train``."""
    pairs = sample(seed)
    held_out = tuple(islice(pairs, dev)), tuple(islice(pairs, test))
    return Corpus(tuple(islice(pairs, train)), *held_out)


def write(corpus: Corpus, folder: Path) -> None:
    """Write ``train.en``, ``train.de`` and ``train.links`` (``0-0 1-2``); likewise dev and test."""
    for part in fields(corpus):
        pairs: tuple[SentencePair, ...] = getattr(corpus, part.name)
        _write(folder / f"{part.name}.en", (pair.source for pair in pairs))
        _write(folder / f"{part.name}.de", (pair.target for pair in pairs))
        _write(folder / f"{part.name}.links", (pharaoh(pair.links) for pair in pairs))


def pharaoh(links: frozenset[tuple[int, int]]) -> str:
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def _write(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))


def dictionary(pairs: Iterable[SentencePair]) -> dict[str, str]:
    """Dictionary from source words to the target words most often linked to them, as a string."""
    partners: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        target, linked = words(pair.target), defaultdict(list)
        for i, j in sorted(pair.links):
            linked[i].append(target[j])
        for i, word in enumerate(words(pair.source)):
            partners[word][" ".join(linked[i])] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in partners.items()}


def word_by_word(text: str, dictionary: dict[str, str]) -> str:
    """Translation that replaces each word of ``text``; unknown words stay."""
    translated = " ".join(filter(None, (dictionary.get(word, word) for word in words(text))))
    return re.sub(r" ([,.?])", r"\1", translated)
