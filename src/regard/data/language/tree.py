"""What is said, before it is said in English or German: the tree that both sides read.

Nodes are told apart by identity, never by content: the two dogs of "the dog sees the dog" are
two nodes. A word remembers which parts of which nodes it expresses (its meanings), and two words
of a pair are linked when they share one.
"""

from dataclasses import dataclass
from typing import NamedTuple

from regard.data.language.entries import Adjective, Expression, Noun, Verb

Meaning = tuple[object, str]


class Word(NamedTuple):
    text: str
    meanings: tuple[Meaning, ...] = ()


Words = tuple[Word, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    english: str
    """The subject form: I, he, she, it, we, they."""
    gender: str = "neuter"
    """What ``it`` stands for decides between er, sie and es."""


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    text: str
    pronoun: str


@dataclass(frozen=True, eq=False, slots=True)
class NounPhrase:
    noun: Noun
    determiner: str = "the"
    """the, a, this, every, my, his, ..., two, three, many; empty for bare nouns and with a name
    as owner."""
    plural: bool = False
    adjective: Adjective | None = None
    owner: "NounPhrase | Name | None" = None
    relative: "Clause | None" = None


@dataclass(frozen=True, eq=False, slots=True)
class Both:
    first: "Name | NounPhrase"
    second: "Name | NounPhrase"


@dataclass(frozen=True, eq=False, slots=True)
class Gap:
    """The place in a relative clause where its noun is missing."""

    noun: Noun
    plural: bool


Nominal = Pronoun | Name | NounPhrase | Both | Gap


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """A noun phrase with a preposition of place or direction in each language."""

    english: str
    german: str
    case: str
    where: NounPhrase


@dataclass(frozen=True, eq=False, slots=True)
class Adjunct:
    """A subordinate clause with its conjunction: because, although, if, when."""

    conjunction: str
    clause: "Clause"


@dataclass(frozen=True, eq=False, slots=True)
class Clause:
    subject: Nominal
    verb: Verb
    tense: str = "present"
    """present, progressive, past, perfect, or an auxiliary: will, going to, can, must, should,
    want to, allowed to, like to."""
    negative: bool = False
    object: Nominal | None = None
    receiver: Nominal | None = None
    predicate: Adjective | None = None
    degree: str = ""
    place: Place | Expression | None = None
    means: Expression | None = None
    time: Expression | None = None
    content: "Clause | None" = None
    """that ..."""
    task: "Clause | None" = None
    """to ... after try and forget; its subject is the subject of this clause."""
    aim: "Clause | None" = None
    """(in order) to ..."""
    adjunct: Adjunct | None = None
    fronted: str = ""
    """Which of ``time`` and ``adjunct`` opens the sentence, if any."""


@dataclass(frozen=True, eq=False, slots=True)
class Sentence:
    clause: Clause
    question: bool = False
    but: Clause | None = None


def person(nominal: Nominal) -> tuple[int, bool]:
    """First or third person, and whether plural: what a verb agrees with."""
    if isinstance(nominal, Pronoun):
        return (1 if nominal.english in ("I", "we") else 3), nominal.english in ("we", "they")
    if isinstance(nominal, NounPhrase | Gap):
        return 3, nominal.plural
    return 3, isinstance(nominal, Both)
