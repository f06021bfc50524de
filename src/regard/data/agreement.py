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
    """A sentence up to its verb, and the numbers of its nouns, the subject first.

    0 is singular, 1 plural.
    """

    text: str
    numbers: tuple[int, ...]

    @property
    def subject(self) -> str:
        """Its first noun."""
        return self.text.split()[1]

    @property
    def verb(self) -> str:
        """The one that agrees with the subject."""
        return VERBS[self.numbers[0]]

    @property
    def between(self) -> int:
        """Nouns between subject and verb."""
        return len(self.numbers) - 1

    @property
    def attractors(self) -> int:
        """Those of them that have the other number."""
        return sum(number != self.numbers[0] for number in self.numbers)


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
        prefix = draw_prefix(draw, len(prefixes) % 2, nouns, other)
        if prefix.text not in seen:
            seen.add(prefix.text)
            prefixes.append(prefix)
    return prefixes


def draw_prefix(draw: Random, number: int, between: int, attractors: int) -> AgreementPrefix:
    """``number`` is that of the subject: 0 singular, 1 plural."""
    numbers = [1 - number] * attractors + [number] * (between - attractors)
    draw.shuffle(numbers)
    subject, *others = draw.sample(NOUNS, between + 1)
    words = ["The", subject[number]]
    for noun, its in zip(others, numbers, strict=True):
        words += [draw.choice(PREPOSITIONS), "the", noun[its]]
    return AgreementPrefix(" ".join(words), (number, *numbers))
