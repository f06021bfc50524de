"""Random parts of a clause: subject, verb and time; then object, place and others."""

from dataclasses import dataclass, replace
from random import Random

from regard.data.toy_language import lexicon
from regard.data.toy_language.lexicon import Adjective, Case, Expression, Noun, Verb
from regard.data.toy_language.syntax_tree import (
    Both,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Tense,
)

KNOWN = ("the", "the", "the", "this")
SINGULAR = ("the", "the", "the", "the", "a", "a", "a", "this")
PLURAL = ("the", "the", "the", "two", "two", "three", "many", "this")
FAMILIAR = ("my", "my", "our", "his", "her")
POSSESSIVE = {"I": "my", "he": "his", "she": "her", "we": "our", "they": "their"}
_PEOPLE, _NAMES = tuple(lexicon.PEOPLE.values()), tuple(lexicon.NAMES.items())


def draw_subject(dice: Random, pool: tuple[Noun, ...]) -> Nominal:
    noun, roll = dice.choice(pool), dice.random()
    if noun.kind in lexicon.HUMAN:
        if roll < 0.18:
            return Pronoun(dice.choice(("I", "he", "she", "we", "they")))
        if roll < 0.28:
            return name(dice)
        if roll < 0.34:
            return Both(name(dice), noun_phrase(dice, noun, possessor=Pronoun("I"), known=True))
    return noun_phrase(dice, noun)


def draw_other(
    dice: Random, pool: tuple[Noun, ...], possessor: Nominal, known: bool = False
) -> Nominal:
    """Object or receiver; ``possessor`` is the subject, which may own it."""
    noun, own, roll = dice.choice(pool), noun_of(possessor), dice.random()
    if noun is own:
        noun = dice.choice([noun for noun in pool if noun is not own])
    if noun.kind in lexicon.HUMAN:
        if roll < 0.12:
            mine = isinstance(possessor, Pronoun) and possessor.english in ("I", "we")
            return Pronoun(dice.choice(("he", "she", "they") if mine else tuple(POSSESSIVE)))
        if roll < 0.22:
            return name(dice, but=possessor)
    if not known and roll < 0.25 and noun.kind in ("food", "reading", "animals"):
        return NounPhrase(noun, "", plural=True, adjective=quality(dice, noun))
    return noun_phrase(dice, noun, possessor, known)


def name(dice: Random, but: Nominal | None = None) -> Name:
    excluded = but.text if isinstance(but, Name) else ""
    return Name(*dice.choice([(text, pronoun) for text, pronoun in _NAMES if text != excluded]))


def noun_phrase(
    dice: Random, noun: Noun, possessor: Nominal | None = None, known: bool = False
) -> NounPhrase:
    """Noun phrase; ``possessor`` may own it, and a ``known`` one is definite."""
    plural = bool(noun.german_plural) and dice.random() < 0.3
    adjective, roll = quality(dice, noun), dice.random()
    if noun.kind == "mass":
        return NounPhrase(noun, "the" if known or roll < 0.3 else "", False, adjective)
    if noun.kind == "family":
        if roll < 0.15 and possessor is None:
            return NounPhrase(noun, "", plural, adjective, owner=name(dice))
        return NounPhrase(noun, possessive(possessor) or dice.choice(FAMILIAR), plural, adjective)
    if noun.kind in ("animals", "things", "reading"):
        if roll < 0.1 and possessive(possessor):
            return NounPhrase(noun, possessive(possessor), plural, adjective)
        if roll < 0.2:
            return NounPhrase(noun, "", plural, adjective, owner=owner(dice, possessor))
    if noun.kind in lexicon.HUMAN and roll < 0.04 and not known:
        return NounPhrase(noun, "every", False, adjective)
    determiners = KNOWN if known else PLURAL if plural else SINGULAR
    return NounPhrase(noun, dice.choice(determiners), plural, adjective)


def quality(dice: Random, noun: Noun) -> Adjective | None:
    qualities = lexicon.QUALITIES.get(noun.kind, ())
    return dice.choice(qualities) if qualities and dice.random() < 0.2 else None


def owner(dice: Random, possessor: Nominal | None) -> Name | NounPhrase:
    """Owner: Anna's · the teacher's · my uncle's."""
    if dice.random() < 0.4:
        return name(dice, but=possessor)
    noun = dice.choice(_PEOPLE)
    return NounPhrase(noun, (possessive(possessor) or "my") if noun.kind == "family" else "the")


def pronoun_for(node: Nominal) -> Pronoun | None:
    """Pronoun for ``node`` in the next clause, if there is a natural one."""
    if isinstance(node, Pronoun):
        return Pronoun(node.english, node.gender)
    if isinstance(node, Name):
        return Pronoun(node.pronoun)
    if isinstance(node, Both) or node.plural:
        return Pronoun("they")
    if isinstance(node, NounPhrase) and node.determiner == "every":
        return None
    return Pronoun(node.noun.pronoun, node.noun.gender) if node.noun.pronoun else None


def possessive(possessor: Nominal | None) -> str:
    """Possessive (my, his, her, …); empty for animals and without a natural pronoun."""
    pronoun = pronoun_for(possessor) if possessor and not is_animal(noun_of(possessor)) else None
    return POSSESSIVE.get(pronoun.english, "") if pronoun else ""


def noun_of(node: Nominal) -> Noun | None:
    """Noun of a subject, which must suit the verb; None for pronouns and names."""
    return node.noun if isinstance(node, NounPhrase | Gap) else None


def is_animal(noun: Noun | None) -> bool:
    return noun is not None and noun.kind == "animals"


def spot(dice: Random, groups: tuple[str, ...]) -> Place | Expression:
    """Place: in the garden · on the bank of the river · at home."""
    group = dice.choice(groups)
    if group == "home" and dice.random() < 0.3:
        return lexicon.AT_HOME
    english, german, noun = dice.choice(lexicon.WHERE[group])
    if group == "shore":
        _, _, water = dice.choice(lexicon.WHERE["water"])
        return Place(english, german, "dative", NounPhrase(noun, owner=NounPhrase(water)))
    return Place(english, german, "dative", location(dice, noun))


def goal(dice: Random, groups: tuple[str, ...]) -> Place | Expression:
    """Direction: into the garden · to the train station · home."""
    if dice.random() < 0.1:
        return lexicon.HOMEWARD
    english, german, noun = dice.choice(lexicon.TO_WHERE[dice.choice(groups)])
    case: Case = "dative" if german == "zu" else "accusative"
    return Place(english, german, case, location(dice, noun))


def location(dice: Random, noun: Noun) -> NounPhrase:
    adjective = quality(dice, noun)
    return NounPhrase(noun, dice.choice(("the", "a")) if adjective else "the", False, adjective)


Verbs = dict[str, Verb]
PLANS: tuple[Tense, ...] = ("can", "must", "should", "want to", "want to", "allowed to")
COMING: tuple[Tense, ...] = ("will", "will", "going to")
STYLES: dict[str, tuple] = {
    "habit": (("present",), 1.0, lexicon.OFTEN, lexicon.HABITS),
    "often": (("present",), 1.0, lexicon.OFTEN),
    "now": (("progressive",), 0.4, lexicon.NOW),
    "past": (("past",), 0.5, lexicon.PAST),
    "perfect": (("perfect",), 0.5, lexicon.ALREADY),
    "future": (COMING, 0.5, lexicon.FUTURE, lexicon.FUTURE, lexicon.SOON),
    "plan": (PLANS, 0.25, lexicon.FUTURE),
}
"""Tenses by style, and the probability and tables of an expression of time."""
COUNTED = ("two", "three", "many", "every")


@dataclass(frozen=True, slots=True)
class Scene:
    """Properties of a clause that are fixed before it is drawn."""

    depth: int = 0
    past: bool = False
    """Whether the tense must be past."""
    subject: Nominal | None = None
    noun: Noun | None = None
    """Noun of the subject; None for pronouns and names."""


def draw_clause(dice: Random, scene: Scene, verbs: Verbs, styles: tuple[str, ...]) -> Clause:
    """Clause with subject, verb, tense and time; randomly negated."""
    noun, suited = scene.noun, [*verbs.values()]
    verb = dice.choice([verb for verb in suited if noun in verb.subjects] if noun else suited)
    subject = scene.subject or draw_subject(dice, verb.subjects)
    tense, time = moment(dice, "past" if scene.past else dice.choice(styles), verb)
    fronts = scene.depth == 0 and is_late(time) and dice.random() < 0.45
    vague = isinstance(subject, NounPhrase) and subject.determiner in ("a", *COUNTED)
    deniable = not (vague or tense == "like to" or (time and time.inner))
    negative = deniable and dice.random() < 0.15
    return Clause(subject, verb, tense, negative, time=time, fronted="time" if fronts else "")


def moment(dice: Random, style: str, verb: Verb) -> tuple[Tense, Expression | None]:
    """Tense, and optionally an expression of time that goes with it."""

    def maybe(probability: float, *tables: dict[str, Expression]) -> Expression | None:
        return dice.choice([*dice.choice(tables).values()]) if dice.random() < probability else None

    if style == "past" and verb.english.past == verb.english.base:
        return "perfect", None  # "they read" does not show that it is past
    if style in ("like", "state"):
        return "like to" if style == "like" else "present", None
    tenses, probability, *tables = STYLES[style]
    return dice.choice(tenses) if len(tenses) > 1 else tenses[0], maybe(probability, *tables)


def with_object(dice: Random, clause: Clause) -> Clause:
    if not clause.verb.objects:
        return clause
    node = draw_other(dice, clause.verb.objects, clause.subject)
    if clause.negative and isinstance(node, NounPhrase) and node.determiner in COUNTED:
        node = replace(node, determiner="the")
    return replace(clause, object=node)


def with_place(dice: Random, clause: Clause) -> Clause:
    must = clause.verb is lexicon.ACTS["sit"]
    if clause.verb.places and (must or dice.random() < 0.5):
        return replace(clause, place=spot(dice, clause.verb.places))
    return clause


def described(dice: Random, clause: Clause, qualities: tuple[Adjective, ...]) -> Clause:
    """Clause with an adjective: is very tired · was too long · is red."""
    quality, subject = dice.choice(qualities), clause.subject
    if isinstance(subject, NounPhrase):
        subject = replace(subject, adjective=None)  # no sad man is sad
    degrees = ("very", "too", "") if quality in lexicon.EXCESSIVE else ("very", "")
    degree = "" if clause.negative or quality in lexicon.COLOURS else dice.choice(degrees)
    return replace(clause, subject=subject, predicate=quality, degree=degree)


def errand(dice: Random, subject: Nominal, verbs: dict[str, Verb]) -> Clause:
    """Infinitive clause without time: to buy a book."""
    return with_object(dice, Clause(subject, dice.choice([*verbs.values()])))


def timeless(clause: Clause) -> Clause:
    return replace(clause, time=None, fronted="")


def is_late(time: Expression | None) -> bool:
    """Whether an expression of time ends an English clause, unless it is fronted."""
    return time is not None and not time.inner


def ends_late(clause: Clause) -> bool:
    return is_late(clause.time) and clause.fronted != "time"
