"""Subject–verb agreement data from templates, for classifiers and for language models.

"The key to the cabinets near the door" continues with "is": the verb agrees with the first noun,
not with nouns of the other grammatical number (attractors) between them (Linzen et al., 2016). A
prefix is "The" + noun, followed by any number of "preposition + the + noun"; no noun occurs twice.
Classifiers predict the verb of a prefix.

"The key to the cabinets is old ." is grammatical, "The key to the cabinets are old ." is not; a
language model should find the first more probable (Linzen et al., 2016; Marvin & Linzen, 2018).
Subjects of test sentences occur in the training text only as subjects of sentences with one noun,
which show their number, and only with adjectives that no test has. So the text contains no test
sentence, nor the prefix of one with several nouns.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from regard import BadInput

VERBS = ("is", "are")  # by number: singular, plural
PREPOSITIONS = ("to", "near", "behind", "beside", "above", "below", "by", "with")
FORMS = (
    "key/keys cabinet/cabinets door/doors window/windows lamp/lamps chair/chairs box/boxes "
    "shelf/shelves mouse/mice child/children picture/pictures bench/benches tree/trees "
    "bridge/bridges house/houses garden/gardens letter/letters knife/knives bottle/bottles "
    "fence/fences"
)
NOUNS = [pair.split("/") for pair in FORMS.split()]  # singular, plural
MOST = 3  # attractors in a test of classifiers
VERB_FORMS = (("is", "are"), ("was", "were"))  # singular, plural
TEST_SUBJECTS = {form for noun in NOUNS[12:] for form in noun}
TEXT_ADJECTIVES = ("old", "small", "red", "clean", "heavy")
TEST_ADJECTIVES = ("new", "large", "green", "dirty", "white")
TEXT_BETWEEN, TEST_BETWEEN = (0, 1, 2), (0, 1, 2, 4, 8)  # nouns between subject and verb
SHORTEST = len(TEST_SUBJECTS) * len(VERB_FORMS) * len(TEST_ADJECTIVES)  # tests with one noun


@dataclass(frozen=True)
class AgreementPrefix:
    """Sentence up to its verb, and the grammatical numbers of its nouns, the subject first.

    0 is singular, 1 plural.
    """

    text: str
    numbers: tuple[int, ...]

    @property
    def subject(self) -> str:
        """First noun, the subject."""
        return self.text.split()[1]

    @property
    def verb(self) -> str:
        """Verb form that agrees with the subject."""
        return VERBS[self.numbers[0]]

    @property
    def between(self) -> int:
        """Number of nouns between subject and verb."""
        return len(self.numbers) - 1

    @property
    def attractors(self) -> int:
        """Number of nouns whose grammatical number differs from the subject's."""
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
    """Draw a training, a dev and test sets that share no prefix.

    Training prefixes have at most one noun between subject and verb; it may be an attractor.
    Test prefixes have three, of which 0, 1, 2 or 3 are attractors.
    """
    draw, seen, few = Random(seed), set[str](), (0, 1)
    tests = [_some(test, draw, seen, (MOST,), (number,)) for number in range(MOST + 1)]
    training, held_out = (_some(count, draw, seen, few, few) for count in (train, dev))
    return AgreementData(training, held_out, tests)


def long_prefixes(count: int, between: int, seed: int = 1) -> list[AgreementPrefix]:
    """Prefixes with ``between`` nouns of either number between subject and verb."""
    return _some(count, Random(seed), set(), (between,), range(between + 1))


def write(sets: AgreementData, folder: Path) -> None:
    """Write train.tsv, dev.tsv, attractors-0.tsv …: a prefix, a tab, its verb."""
    named = {"train": sets.train, "dev": sets.dev}
    named |= {f"attractors-{number}": test for number, test in enumerate(sets.tests)}
    for name, prefixes in named.items():
        _write(folder / f"{name}.tsv", (f"{prefix.text}\t{prefix.verb}\n" for prefix in prefixes))


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), encoding="utf-8")


def _some(
    count: int, draw: Random, seen: set[str], between: Sequence[int], attractors: Sequence[int]
) -> list[AgreementPrefix]:
    """Draw new prefixes, half of them with "is", half with "are"."""
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
    """Draw a prefix whose subject has this ``number``: 0 singular, 1 plural."""
    numbers = [1 - number] * attractors + [number] * (between - attractors)
    draw.shuffle(numbers)
    subject, *nouns = draw.sample(NOUNS, between + 1)
    words = ["The", subject[number]]
    for noun, its in zip(nouns, numbers, strict=True):
        words += [draw.choice(PREPOSITIONS), "the", noun[its]]
    return AgreementPrefix(" ".join(words), (number, *numbers))


# --- sentences for language models ----------------------------------------------------------------


@dataclass(frozen=True)
class AgreementSentence:
    """Sentence around its verb, which has a singular and a plural form."""

    prefix: AgreementPrefix
    verb_forms: tuple[str, str]
    rest: str

    @property
    def right(self) -> str:
        """Sentence with the verb that agrees with the subject."""
        return self._with_verb(self.prefix.numbers[0])

    @property
    def wrong(self) -> str:
        """Sentence with the verb of the other grammatical number."""
        return self._with_verb(1 - self.prefix.numbers[0])

    @property
    def nearest_agrees(self) -> bool:
        """Whether the noun before the verb has the grammatical number of the subject."""
        return self.prefix.numbers[-1] == self.prefix.numbers[0]

    @property
    def distance(self) -> int:
        """Number of words between subject and verb: all but "The" and the subject."""
        return len(self.prefix.text.split()) - 2

    @property
    def attractors(self) -> int:
        """Number of nouns between subject and verb with the other grammatical number."""
        return self.prefix.attractors

    def _with_verb(self, number: int) -> str:
        return f"{self.prefix.text} {self.verb_forms[number]} {self.rest}"


@dataclass(frozen=True)
class AgreementText:
    """Training and dev sentences of a language model."""

    train: Sequence[str]
    dev: Sequence[str]

    def write(self, folder: Path) -> None:
        """Write train.txt and dev.txt: a sentence is a document, with an empty line after it."""
        for name, sentences in {"train": self.train, "dev": self.dev}.items():
            _write(folder / f"{name}.txt", (f"{sentence}\n\n" for sentence in sentences))


def make_agreement_text(train: int = 8_000, dev: int = 200, seed: int = 1) -> AgreementText:
    """Draw sentences with at most two nouns between subject and verb; none is in both sets."""
    sentences, held_out = _text(Random(seed)), dict[str, None]()
    while len(held_out) < dev:
        held_out[next(sentences)] = None
    rest = (sentence for sentence in sentences if sentence not in held_out)
    return AgreementText([*islice(rest, train)], [*held_out])


def agreement_sentences(each: int = 40, seed: int = 1) -> list[AgreementSentence]:
    """Test sentences: ``each`` for every number of nouns in between and of attractors."""
    if not 1 <= each <= SHORTEST:
        raise BadInput(f"each must be from 1 to {SHORTEST}, not {each}")
    draw = Random(seed)
    kinds = [(between, attractors) for between in TEST_BETWEEN for attractors in range(between + 1)]
    return [sentence for kind in kinds for sentence in _tests(draw, each, *kind)]


def _tests(draw: Random, count: int, between: int, attractors: int) -> list[AgreementSentence]:
    """Draw different sentences, half of them with a singular subject."""
    tests: dict[AgreementSentence, None] = {}
    while len(tests) < count:
        prefix = draw_prefix(draw, len(tests) % 2, between, attractors)
        if prefix.subject in TEST_SUBJECTS:
            tests[_sentence(draw, prefix, TEST_ADJECTIVES)] = None
    return [*tests]


def _text(draw: Random) -> Iterator[str]:
    """Yield sentences of the training text, without end."""
    while True:
        between, number = draw.choice(TEXT_BETWEEN), draw.randrange(2)
        prefix = draw_prefix(draw, number, between, draw.randrange(between + 1))
        tested = prefix.subject in TEST_SUBJECTS
        if not (tested and between):
            adjectives = TEXT_ADJECTIVES if tested else TEXT_ADJECTIVES + TEST_ADJECTIVES
            yield _sentence(draw, prefix, adjectives).right


def _sentence(
    draw: Random, prefix: AgreementPrefix, adjectives: Sequence[str]
) -> AgreementSentence:
    return AgreementSentence(prefix, draw.choice(VERB_FORMS), f"{draw.choice(adjectives)} .")
