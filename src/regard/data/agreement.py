"""Subject–verb agreement from written templates (the question of Linzen et al., 2016).

"The key to the cabinets near the door" goes on with "is": the verb follows the first noun, however
many of the other number, attractors, stand between them. Grammatical by construction: every prefix
is "The" + noun and some "preposition + the + noun", no noun twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from regard.ground.files import write_text

VERBS = ("is", "are")  # by number: one, many
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
    """A sentence up to its verb, the verb it wants, and what stands between the two."""

    text: str
    verb: str
    attractors: int
    between: int  # nouns, of either number


@dataclass(frozen=True)
class AgreementData:
    """Prefixes to learn from and to choose by, and one test for each number of attractors."""

    train: Sequence[AgreementPrefix]
    dev: Sequence[AgreementPrefix]
    tests: Sequence[Sequence[AgreementPrefix]]


def make_agreement(
    train: int = 3_000, dev: int = 300, test: int = 300, seed: int = 1
) -> AgreementData:
    """Sets that share no prefix.

    What is learned from has no noun in between, or one, which may be an attractor. All tests have
    three in between, so that they differ in nothing else: 0, 1, 2 or 3 are attractors.
    """
    draw, seen, few = Random(seed), set[str](), (0, 1)
    tests = [_some(test, draw, seen, (MOST,), (number,)) for number in range(MOST + 1)]
    return AgreementData(
        _some(train, draw, seen, few, few), _some(dev, draw, seen, few, few), tests
    )


def long_prefixes(count: int, between: int, seed: int = 1) -> list[AgreementPrefix]:
    """Prefixes with so many nouns in between, of any number."""
    return _some(count, Random(seed), set(), (between,), range(between + 1))


def write(sets: AgreementData, folder: Path) -> None:
    """train.tsv, dev.tsv, attractors-0.tsv …: a prefix, a tab, its verb."""
    named = {"train": sets.train, "dev": sets.dev}
    named |= {f"attractors-{number}": test for number, test in enumerate(sets.tests)}
    for name, prefixes in named.items():
        lines = (f"{one.text}\t{one.verb}\n" for one in prefixes)
        write_text(folder / f"{name}.tsv", "".join(lines))


def _some(
    count: int, draw: Random, seen: set[str], between: Sequence[int], attractors: Sequence[int]
) -> list[AgreementPrefix]:
    """New prefixes, as many that want "is" as want "are"."""
    found: list[AgreementPrefix] = []
    while len(found) < count:
        nouns = draw.choice(between)
        other = draw.choice([number for number in attractors if number <= nouns])
        prefix = _prefix(draw, len(found) % 2, nouns, other)
        if prefix.text not in seen:
            seen.add(prefix.text)
            found.append(prefix)
    return found


def _prefix(draw: Random, number: int, between: int, attractors: int) -> AgreementPrefix:
    """``number`` is that of the subject: 0 is one, 1 is many."""
    numbers = [1 - number] * attractors + [number] * (between - attractors)
    draw.shuffle(numbers)
    subject, *others = draw.sample(NOUNS, between + 1)
    words = ["The", subject[number]]
    for noun, its in zip(others, numbers, strict=True):
        words += [draw.choice(PREPOSITIONS), "the", noun[its]]
    return AgreementPrefix(" ".join(words), VERBS[number], attractors, between)
