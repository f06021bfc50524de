"""Subject–verb agreement data from templates (after Linzen et al., 2016).

"The key to the cabinets near the door" continues with "is": the verb agrees with the first noun,
not with the nouns of the other number (attractors) between them. Every prefix is "The" + noun,
followed by any number of "preposition + the + noun"; no noun occurs twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.ground.files import write_text

VERBS = ("is", "are")  # by number: singular, plural
PREPOSITIONS = ("to", "near", "behind", "beside", "above", "below", "by", "with")
NOUNS = (
    ("key", "keys"),
    ("cabinet", "cabinets"),
    ("door", "doors"),
    ("window", "windows"),
    ("lamp", "lamps"),
    ("chair", "chairs"),
    ("box", "boxes"),
    ("shelf", "shelves"),
    ("mouse", "mice"),
    ("child", "children"),
    ("picture", "pictures"),
    ("bench", "benches"),
    ("tree", "trees"),
    ("bridge", "bridges"),
    ("house", "houses"),
    ("garden", "gardens"),
    ("letter", "letters"),
    ("knife", "knives"),
    ("bottle", "bottles"),
    ("fence", "fences"),
)
MOST = 3  # attractors in a test


@dataclass(frozen=True)
class AgreementPrefix:
    """A sentence up to its verb, the right verb, and the nouns between subject and verb."""

    text: str
    verb: str
    attractors: int
    between: int  # nouns, of either number


@dataclass(frozen=True)
class AgreementData:
    """Prefixes of the training and dev set, and one test set for each number of attractors."""

    train: Sequence[AgreementPrefix]
    dev: Sequence[AgreementPrefix]
    tests: Sequence[Sequence[AgreementPrefix]]


def make_agreement(
    train: int = 3_000, dev: int = 300, test: int = 300, seed: int = 1
) -> AgreementData:
    """Make sets that share no prefix.

    Training prefixes have no noun or one noun between subject and verb; it may be an attractor.
    Test prefixes have three, of which 0, 1, 2 or 3 are attractors.
    """
    draw, seen, few = Random(seed), set[str](), (0, 1)
    tests = [_some(test, draw, seen, (MOST,), (number,)) for number in range(MOST + 1)]
    return AgreementData(
        _some(train, draw, seen, few, few), _some(dev, draw, seen, few, few), tests
    )


def long_prefixes(count: int, between: int, seed: int = 1) -> list[AgreementPrefix]:
    """Prefixes with ``between`` nouns of either number between subject and verb."""
    return _some(count, Random(seed), set(), (between,), range(between + 1))


def write(sets: AgreementData, folder: Path) -> None:
    """Write train.tsv, dev.tsv, attractors-0.tsv …: a prefix, a tab, its verb."""
    named = {"train": sets.train, "dev": sets.dev}
    named |= {f"attractors-{number}": test for number, test in enumerate(sets.tests)}
    for name, prefixes in named.items():
        lines = (f"{prefix.text}\t{prefix.verb}\n" for prefix in prefixes)
        write_text(folder / f"{name}.tsv", "".join(lines))


def _some(
    count: int, draw: Random, seen: set[str], between: Sequence[int], attractors: Sequence[int]
) -> list[AgreementPrefix]:
    """New prefixes, half of them with "is", half with "are"."""
    prefixes: list[AgreementPrefix] = []
    while len(prefixes) < count:
        nouns = draw.choice(between)
        other = draw.choice([number for number in attractors if number <= nouns])
        prefix = _prefix(draw, len(prefixes) % 2, nouns, other)
        if prefix.text not in seen:
            seen.add(prefix.text)
            prefixes.append(prefix)
    return prefixes


def _prefix(draw: Random, number: int, between: int, attractors: int) -> AgreementPrefix:
    """``number`` is that of the subject: 0 singular, 1 plural."""
    numbers = [1 - number] * attractors + [number] * (between - attractors)
    draw.shuffle(numbers)
    subject, *others = draw.sample(NOUNS, between + 1)
    words = ["The", subject[number]]
    for noun, its in zip(others, numbers, strict=True):
        words += [draw.choice(PREPOSITIONS), "the", noun[its]]
    return AgreementPrefix(" ".join(words), VERBS[number], attractors, between)
