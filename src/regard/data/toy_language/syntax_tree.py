"""Language-independent trees of sentences.

Nodes are compared by identity: the two dogs of "the dog sees the dog" are two nodes. The meanings
of a word are the parts of nodes that it realises; two words of a pair are linked if they share one.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from regard.data.toy_language.lexicon import Adjective, Case, Expression, Noun, Verb

Auxiliary = Literal["will", "going to", "can", "must", "should", "want to", "allowed to", "like to"]
Tense = Literal["present", "progressive", "past", "perfect"] | Auxiliary
Meaning = tuple[object, str]
"""A node and the name of a part of it."""


class Word(NamedTuple):
    text: str
    meanings: tuple[Meaning, ...]


Words = tuple[Word, ...]


def say(text: str, node: object, *parts: str) -> Words:
    """Words of ``text``, which all express these parts of ``node``."""
    if not text:
        return ()
    meanings = tuple([(node, part) for part in parts])
    return tuple([Word(word, meanings) for word in text.split()])


@dataclass(frozen=True, eq=False, slots=True)
class Pronoun:
    english: str
    """Subject form: I, he, she, it, we, they."""
    gender: str = "neuter"
    """Gender of the noun that ``it`` stands for: er, sie or es."""


@dataclass(frozen=True, eq=False, slots=True)
class Name:
    text: str
    pronoun: str


@dataclass(frozen=True, eq=False, slots=True)
class NounPhrase:
    noun: Noun
    determiner: str = "the"
    """the, a, this, every, my, his, ..., two, three, many; empty for bare nouns (fresh bread) and
    where the owner stands in its place (Anna's book)."""
    plural: bool = False
    adjective: Adjective | None = None
    owner: "NounPhrase | Name | None" = None
    relative: "Clause | None" = None


@dataclass(frozen=True, eq=False, slots=True)
class Both:
    first: Name
    second: NounPhrase


@dataclass(frozen=True, eq=False, slots=True)
class Gap:
    """The place in a relative clause where its noun is missing."""

    noun: Noun
    plural: bool


Nominal = Pronoun | Name | NounPhrase | Both | Gap


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """A noun phrase with the prepositions of place or direction of both languages."""

    english: str
    german: str
    case: Case
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
    tense: Tense = "present"
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
    """to ... after try and forget. It has the subject of this clause, as the next one does."""
    aim: "Clause | None" = None
    """(in order) to ..."""
    adjunct: Adjunct | None = None
    fronted: Literal["", "time", "adjunct"] = ""
    """Part that opens the sentence instead of the subject."""


@dataclass(frozen=True, eq=False, slots=True)
class Sentence:
    clause: Clause
    question: bool = False
    but: Clause | None = None


class Person(NamedTuple):
    """Agreement of a verb: first or third person, singular or plural."""

    number: int
    plural: bool


def person(nominal: Nominal) -> Person:
    if isinstance(nominal, Pronoun):
        first = nominal.english in ("I", "we")
        return Person(1 if first else 3, plural=nominal.english in ("we", "they"))
    if isinstance(nominal, NounPhrase | Gap):
        return Person(3, nominal.plural)
    return Person(3, plural=isinstance(nominal, Both))
