"""Facts about a data set: labels with counts, lengths, duplicates, leaks between its sets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple, TypeGuard

import numpy as np

from regard.core.checks import is_number
from regard.core.files import read_bytes
from regard.data.readers.examples import ExampleContent

MOST_EXAMPLES = 500_000  # of a set that are looked at
MOST_LABELS = 12  # that are listed
MOST_CLASSES = 20  # different numbers that may still be names of classes
BYTES_OF_TOKEN, TOKENS_OF_WORD = 4, 1.5  # about, of subwords

Line = tuple[str, str]  # a heading, and what stands beside it


class Lengths(NamedTuple):
    """Numbers of words of texts, and the most characters and (estimated) tokens of one."""

    least: int
    median: int
    high: int  # 95% have at most this many
    most: int
    characters: int
    tokens: int
    words: int  # of all texts

    @classmethod
    def of(cls, words: list[int], characters: int, tokens: float) -> "Lengths":
        """Lengths of texts with these numbers of words."""
        words = sorted(words)
        high = words[min(len(words) - 1, int(len(words) * 0.95))]
        middle = words[len(words) // 2]
        return cls(words[0], middle, high, words[-1], characters, int(tokens) + 1, sum(words))

    def __str__(self) -> str:
        spread = f"{self.least:,} to {self.most:,} words, median {self.median:,}"
        return f"{spread}, 95% up to {self.high:,}; longest {self.characters:,} characters"


@dataclass(frozen=True)
class SetFacts:
    """Facts about one set of examples.

    ``duplicates`` repeat an earlier example of the set, ``conflicts`` its input with other labels.
    ``lengths`` is None for images. ``keys`` identify the inputs of all examples.
    """

    size: int
    labels: Counter[str]
    lengths: Lengths | None
    duplicates: int
    conflicts: int
    whole: bool = True  # all examples were looked at
    keys: Counter[bytes] = field(default_factory=Counter, repr=False)

    @property
    def has_numbers(self) -> bool:
        """Whether its labels are numbers on a scale, not names of classes."""
        whole = all(map(str.isdigit, self.labels))
        return all(map(is_number, self.labels)) and (len(self.labels) > MOST_CLASSES or not whole)

    def label_counts(self) -> str:
        """Labels with counts, the most frequent first, or the range of numbers."""
        if self.has_numbers:
            numbers = [float(label) for label in self.labels.elements()]
            mean = sum(numbers) / len(numbers)
            return f"numbers from {min(numbers):g} to {max(numbers):g}, mean {mean:.3g}"
        total = self.labels.total()
        listed = self.labels.most_common(MOST_LABELS)
        counts = [f"{label!r} {count:,} ({count / total:.1%})" for label, count in listed]
        rest = len(self.labels) - len(listed)
        return ", ".join(counts) + (f", and {rest:,} labels more" if rest else "")


@dataclass(frozen=True)
class DataFacts:
    """Facts about all sets of a data set, by name; ``leaks`` between two are repeated inputs."""

    sets: dict[str, SetFacts]

    @property
    def sizes(self) -> str:
        """The number of examples of each set."""
        return ", ".join(f"{name} {facts.size:,}" for name, facts in self.sets.items())

    @property
    def leaks(self) -> dict[tuple[str, str], int]:
        """The number of examples of the second set whose input is also in the first."""
        return {
            (first, second): sum(
                count
                for key, count in self.sets[second].keys.items()
                if key in self.sets[first].keys
            )
            for first, second in combinations(self.sets, 2)
        }

    def lines(self) -> Iterator[Line]:
        """Lines for a terminal, as (heading, figures)."""
        for name, facts in self.sets.items():
            if not facts.whole:
                yield "facts", f"{name}: of the first {facts.size:,} examples only"
            if facts.lengths is not None:
                yield "lengths", f"{name}: {facts.lengths}"
        for name, facts in self.sets.items():
            if facts.labels:
                yield "counts", f"{name}: {facts.label_counts()}"
        yield from self._faults()

    def _faults(self) -> Iterator[Line]:
        """Lines about duplicates, conflicts, leaks, and labels that training does not have."""
        repeated = [f"{name} {facts.duplicates:,}" for name, facts in self.sets.items()]
        yield "duplicates", ", ".join(repeated)
        for name, facts in self.sets.items():
            if facts.conflicts:
                what = "the same input as another example, with other labels"
                yield "conflicts", f"{name}: {facts.conflicts:,} have {what}"
        for (first, second), count in self.leaks.items():
            share = f"{count:,} of {self.sets[second].size:,} examples"
            yield (
                "leaks",
                f"{second}: {share} are also in {first}" if count else f"{second}: none in {first}",
            )
        trained = next(iter(self.sets.values()))
        for name, facts in self.sets.items():
            unknown = sorted(facts.labels.keys() - trained.labels.keys())
            if unknown and not trained.has_numbers:
                listed = ", ".join(map(repr, unknown[:MOST_LABELS]))
                yield "unknown", f"{name}: labels that train does not have: {listed}"


def describe_sets(
    sets: Mapping[str, Iterable[ExampleContent]], most: int = MOST_EXAMPLES
) -> DataFacts:
    """Facts about sets of examples; the first set is the training set."""
    return DataFacts({name: _describe(contents, most) for name, contents in sets.items()})


def _describe(contents: Iterable[ExampleContent], most: int) -> SetFacts:
    labels, words = Counter[str](), list[int]()
    inputs, examples, first = Counter[bytes](), set[bytes](), dict[bytes, bytes]()
    size = duplicates = conflicts = characters = 0
    tokens, rest = 0.0, iter(contents)
    for content in islice(rest, most):
        size += 1
        labels.update(content.labels)
        key, example = (
            _key(content.inputs),
            _key((*content.inputs, *content.outputs, *content.labels)),
        )
        duplicates += example in examples
        conflicts += bool(content.labels) and first.setdefault(key, example) != example
        inputs[key] += 1
        examples.add(example)
        for text in (*filter(_is_text, content.inputs), *content.outputs):
            words.append(len(text.split()))
            characters = max(characters, len(text))
            tokens = max(tokens, words[-1] * TOKENS_OF_WORD, len(text.encode()) / BYTES_OF_TOKEN)
    lengths = Lengths.of(words, characters, tokens) if words else None
    whole = next(rest, None) is None
    return SetFacts(size, labels, lengths, duplicates, conflicts, whole, inputs)


def _key(parts: Iterable[object]) -> bytes:
    """Digest of texts, without regard to case and spaces, or of images."""
    digest = blake2b(digest_size=12)
    for part in parts:
        digest.update(_bytes(part) + b"\0")
    return digest.digest()


def _bytes(part: object) -> bytes:
    if isinstance(part, str):
        return " ".join(part.casefold().split()).encode(errors="surrogatepass")
    return read_bytes(part) if isinstance(part, Path) else np.asarray(part).tobytes()


def _is_text(part: object) -> TypeGuard[str]:
    return isinstance(part, str)
