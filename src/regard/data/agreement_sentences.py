"""Whole sentences for agreement in language models: text to train on, and pairs to be scored.

"The key to the cabinets is old ." is grammatical, "The key to the cabinets are old ." is not; a
language model should find the first more probable (Linzen et al., 2016; Marvin & Linzen, 2018).

Tests have subjects of their own. In the training text these are subjects only where there is no
other noun, which tells their number, and only with adjectives that no test has. So no test sentence
is in the text, and neither is its beginning if another noun stands between subject and verb.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

from regard.data.agreement import NOUNS, AgreementPrefix, draw_prefix
from regard.ground.errors import BadInput
from regard.ground.files import write_text

VERB_FORMS = (("is", "are"), ("was", "were"))  # singular, plural
TEST_SUBJECTS = {form for noun in NOUNS[12:] for form in noun}
TEXT_ADJECTIVES = ("old", "small", "red", "clean", "heavy")
TEST_ADJECTIVES = ("new", "large", "green", "dirty", "white")
TEXT_BETWEEN, TEST_BETWEEN = (0, 1, 2), (0, 1, 2, 4, 8)  # nouns between subject and verb
SHORTEST = len(TEST_SUBJECTS) * len(VERB_FORMS) * len(TEST_ADJECTIVES)  # tests with one noun


@dataclass(frozen=True)
class AgreementSentence:
    """A sentence around its verb, which has a singular and a plural form."""

    prefix: AgreementPrefix
    verb_forms: tuple[str, str]
    rest: str

    @property
    def right(self) -> str:
        """With the verb that agrees with the subject."""
        return self._with_verb(self.prefix.numbers[0])

    @property
    def wrong(self) -> str:
        """With the verb of the other number."""
        return self._with_verb(1 - self.prefix.numbers[0])

    @property
    def nearest_agrees(self) -> bool:
        """Whether the noun before the verb has the number of the subject."""
        return self.prefix.numbers[-1] == self.prefix.numbers[0]

    @property
    def distance(self) -> int:
        """Words between subject and verb: all but "The" and the subject."""
        return len(self.prefix.text.split()) - 2

    @property
    def attractors(self) -> int:
        """Nouns between them that have the other number."""
        return self.prefix.attractors

    def _with_verb(self, number: int) -> str:
        return f"{self.prefix.text} {self.verb_forms[number]} {self.rest}"


@dataclass(frozen=True)
class AgreementText:
    """Sentences that a language model is trained on."""

    train: Sequence[str]
    dev: Sequence[str]

    def write(self, folder: Path) -> None:
        """Write train.txt and dev.txt: a sentence is a document, with an empty line after it."""
        for name, sentences in {"train": self.train, "dev": self.dev}.items():
            write_text(folder / f"{name}.txt", "".join(f"{one}\n\n" for one in sentences))


def make_agreement_text(train: int = 8_000, dev: int = 200, seed: int = 1) -> AgreementText:
    """Sentences with at most two nouns between subject and verb; none is in both sets."""
    drawn, held_out = _text(Random(seed)), dict[str, None]()
    while len(held_out) < dev:
        held_out[next(drawn)] = None
    others = (sentence for sentence in drawn if sentence not in held_out)
    return AgreementText([*islice(others, train)], [*held_out])


def agreement_sentences(each: int = 40, seed: int = 1) -> list[AgreementSentence]:
    """Test sentences: ``each`` for every number of nouns in between and of attractors."""
    if not 1 <= each <= SHORTEST:
        raise BadInput(f"{each} sentences of each kind: there are from 1 to {SHORTEST}")
    draw = Random(seed)
    kinds = [(between, attractors) for between in TEST_BETWEEN for attractors in range(between + 1)]
    return [sentence for kind in kinds for sentence in _tests(draw, each, *kind)]


def _tests(draw: Random, count: int, between: int, attractors: int) -> list[AgreementSentence]:
    """Different ones, half of which have a singular subject."""
    tests: dict[AgreementSentence, None] = {}
    while len(tests) < count:
        prefix = draw_prefix(draw, len(tests) % 2, between, attractors)
        if prefix.subject in TEST_SUBJECTS:
            tests[_sentence(draw, prefix, TEST_ADJECTIVES)] = None
    return [*tests]


def _text(draw: Random) -> Iterator[str]:
    """Sentences without end."""
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
