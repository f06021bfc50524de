"""The parts of a clause: subject, verb and time; then object, place and others."""

from dataclasses import dataclass, replace
from random import Random

from regard.data.toy_language.grammar.tree import Clause, Nominal, NounPhrase, Tense
from regard.data.toy_language.lexicon.adjectives import COLOURS, EXCESSIVE
from regard.data.toy_language.lexicon.entries import Adjective, Expression, Noun, Verb
from regard.data.toy_language.lexicon.expressions import (
    ALREADY,
    FUTURE,
    HABITS,
    NOW,
    OFTEN,
    PAST,
    SOON,
)
from regard.data.toy_language.lexicon.verbs import ACTS
from regard.data.toy_language.sampling import naming

PLANS: tuple[Tense, ...] = ("can", "must", "should", "want to", "want to", "allowed to")
COMING: tuple[Tense, ...] = ("will", "will", "going to")
COUNTED = ("two", "three", "many", "every")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a clause already knows when it is drawn."""

    depth: int = 0
    past: bool = False
    """It must be told in the past."""
    subject: Nominal | None = None
    noun: Noun | None = None
    """What the given subject stands for; None for people at large."""


def begin(dice: Random, scene: Scene, verbs: dict[str, Verb], styles: tuple[str, ...]) -> Clause:
    """Subject, verb, tense and time; perhaps a denial."""
    noun, suited = scene.noun, [*verbs.values()]
    verb = dice.choice([verb for verb in suited if noun in verb.subjects] if noun else suited)
    subject = scene.subject or naming.subject(dice, verb.subjects)
    tense, time = moment(dice, "past" if scene.past else dice.choice(styles), verb)
    fronts = scene.depth == 0 and is_late(time) and dice.random() < 0.45
    vague = isinstance(subject, NounPhrase) and subject.determiner in ("a", *COUNTED)
    deniable = not (vague or tense == "like to" or (time and time.inner))
    negative = deniable and dice.random() < 0.15
    return Clause(subject, verb, tense, negative, time=time, fronted="time" if fronts else "")


def moment(dice: Random, style: str, verb: Verb) -> tuple[Tense, Expression | None]:
    """A tense, and perhaps an expression of time that goes with it."""

    def maybe(chance: float, *tables: dict[str, Expression]) -> Expression | None:
        return dice.choice([*dice.choice(tables).values()]) if dice.random() < chance else None

    if style == "past" and verb.english.past == verb.english.base:
        return "perfect", None  # they read: nobody could see that it is past
    match style:
        case "habit":
            return "present", maybe(1.0, OFTEN, HABITS)
        case "often":
            return "present", maybe(1.0, OFTEN)
        case "now":
            return "progressive", maybe(0.4, NOW)
        case "past":
            return "past", maybe(0.5, PAST)
        case "perfect":
            return "perfect", maybe(0.5, ALREADY)
        case "future":
            return dice.choice(COMING), maybe(0.5, FUTURE, FUTURE, SOON)
        case "plan":
            return dice.choice(PLANS), maybe(0.25, FUTURE)
        case "like":
            return "like to", None
    return "present", None


def with_object(dice: Random, clause: Clause) -> Clause:
    if not clause.verb.objects:
        return clause
    node = naming.other(dice, clause.verb.objects, clause.subject)
    if clause.negative and isinstance(node, NounPhrase) and node.determiner in COUNTED:
        node = replace(node, determiner="the")
    return replace(clause, object=node)


def with_place(dice: Random, clause: Clause) -> Clause:
    must = clause.verb is ACTS["sit"]
    if clause.verb.places and (must or dice.random() < 0.5):
        return replace(clause, place=naming.spot(dice, clause.verb.places))
    return clause


def described(dice: Random, clause: Clause, qualities: tuple[Adjective, ...]) -> Clause:
    """is very tired · was too long · is red."""
    quality, subject = dice.choice(qualities), clause.subject
    if isinstance(subject, NounPhrase):
        subject = replace(subject, adjective=None)  # no sad man is sad
    degrees = ("very", "too", "") if quality in EXCESSIVE else ("very", "")
    degree = "" if clause.negative or quality in COLOURS else dice.choice(degrees)
    return replace(clause, subject=subject, predicate=quality, degree=degree)


def errand(dice: Random, subject: Nominal, verbs: dict[str, Verb]) -> Clause:
    """to buy a book: a clause without tense or time."""
    return with_object(dice, Clause(subject, dice.choice([*verbs.values()])))


def timeless(clause: Clause) -> Clause:
    return replace(clause, time=None, fronted="")


def is_late(time: Expression | None) -> bool:
    """It stands at the end of an English clause, unless it is fronted."""
    return time is not None and not time.inner


def ends_late(clause: Clause) -> bool:
    return is_late(clause.time) and clause.fronted != "time"
