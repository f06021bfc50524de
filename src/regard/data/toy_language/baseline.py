"""A baseline: word-by-word translation, with a dictionary learned from the links."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from regard.data.toy_language.corpus import SentencePair
from regard.text.words import words


def dictionary(pairs: Iterable[SentencePair]) -> dict[str, str]:
    """For each source word the target words it was linked to most often, as one string."""
    partners: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        target, linked = words(pair.target), defaultdict(list)
        for i, j in sorted(pair.links):
            linked[i].append(target[j])
        for i, word in enumerate(words(pair.source)):
            partners[word][" ".join(linked[i])] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in partners.items()}


def word_by_word(text: str, dictionary: dict[str, str]) -> str:
    """Replace each word of ``text``; unknown words are kept."""
    translated = " ".join(filter(None, (dictionary.get(word, word) for word in words(text))))
    return re.sub(r" ([,.?])", r"\1", translated)
