"""Random subjects, objects and places."""

from random import Random

from regard.data.toy_language.grammar.tree import (
    Both,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
)
from regard.data.toy_language.lexicon.adjectives import QUALITIES
from regard.data.toy_language.lexicon.entries import HUMAN, Adjective, Case, Expression, Noun
from regard.data.toy_language.lexicon.nouns import NAMES, PEOPLE
from regard.data.toy_language.lexicon.places import AT_HOME, HOMEWARD, TO_WHERE, WHERE

KNOWN = ("the", "the", "the", "this")
SINGULAR = ("the", "the", "the", "the", "a", "a", "a", "this")
PLURAL = ("the", "the", "the", "two", "two", "three", "many", "this")
FAMILIAR = ("my", "my", "our", "his", "her")
POSSESSIVE = {"I": "my", "he": "his", "she": "her", "we": "our", "they": "their"}
_PEOPLE, _NAMES = tuple(PEOPLE.values()), tuple(NAMES.items())


def subject(dice: Random, pool: tuple[Noun, ...]) -> Nominal:
    noun, roll = dice.choice(pool), dice.random()
    if noun.kind in HUMAN:
        if roll < 0.18:
            return Pronoun(dice.choice(("I", "he", "she", "we", "they")))
        if roll < 0.28:
            return name(dice)
        if roll < 0.34:
            return Both(name(dice), noun_phrase(dice, noun, of=Pronoun("I"), known=True))
    return noun_phrase(dice, noun)


def other(dice: Random, pool: tuple[Noun, ...], of: Nominal, known: bool = False) -> Nominal:
    """An object or receiver; ``of`` is the subject, who may own it."""
    noun, own, roll = dice.choice(pool), noun_of(of), dice.random()
    if noun is own:
        noun = dice.choice([noun for noun in pool if noun is not own])
    if noun.kind in HUMAN:
        if roll < 0.12:
            mine = isinstance(of, Pronoun) and of.english in ("I", "we")
            return Pronoun(dice.choice(("he", "she", "they") if mine else tuple(POSSESSIVE)))
        if roll < 0.22:
            return name(dice, but=of)
    if not known and roll < 0.25 and noun.kind in ("food", "reading", "animals"):
        return NounPhrase(noun, "", plural=True, adjective=quality(dice, noun))
    return noun_phrase(dice, noun, of, known)


def name(dice: Random, but: Nominal | None = None) -> Name:
    taken = but.text if isinstance(but, Name) else ""
    return Name(*dice.choice([(text, pronoun) for text, pronoun in _NAMES if text != taken]))


def noun_phrase(
    dice: Random, noun: Noun, of: Nominal | None = None, known: bool = False
) -> NounPhrase:
    """``of`` may own it; what is ``known`` is definite."""
    plural = bool(noun.german_plural) and dice.random() < 0.3
    adjective, roll = quality(dice, noun), dice.random()
    if noun.kind == "mass":
        return NounPhrase(noun, "the" if known or roll < 0.3 else "", False, adjective)
    if noun.kind == "family":
        if roll < 0.15 and of is None:
            return NounPhrase(noun, "", plural, adjective, owner=name(dice))
        return NounPhrase(noun, possessive(of) or dice.choice(FAMILIAR), plural, adjective)
    if noun.kind in ("animals", "things", "reading"):
        if roll < 0.1 and possessive(of):
            return NounPhrase(noun, possessive(of), plural, adjective)
        if roll < 0.2:
            return NounPhrase(noun, "", plural, adjective, owner=owner(dice, of))
    if noun.kind in HUMAN and roll < 0.04 and not known:
        return NounPhrase(noun, "every", False, adjective)
    determiners = KNOWN if known else PLURAL if plural else SINGULAR
    return NounPhrase(noun, dice.choice(determiners), plural, adjective)


def quality(dice: Random, noun: Noun) -> Adjective | None:
    qualities = QUALITIES.get(noun.kind, ())
    return dice.choice(qualities) if qualities and dice.random() < 0.2 else None


def owner(dice: Random, of: Nominal | None) -> Name | NounPhrase:
    """Anna's · the teacher's · my uncle's."""
    if dice.random() < 0.4:
        return name(dice, but=of)
    noun = dice.choice(_PEOPLE)
    return NounPhrase(noun, (possessive(of) or "my") if noun.kind == "family" else "the")


def pronoun_for(node: Nominal) -> Pronoun | None:
    """The pronoun that takes up ``node`` in the next clause, where a natural one exists."""
    if isinstance(node, Pronoun):
        return Pronoun(node.english, node.gender)
    if isinstance(node, Name):
        return Pronoun(node.pronoun)
    if isinstance(node, Both) or node.plural:
        return Pronoun("they")
    if isinstance(node, NounPhrase) and node.determiner == "every":
        return None
    return Pronoun(node.noun.pronoun, node.noun.gender) if node.noun.pronoun else None


def possessive(of: Nominal | None) -> str:
    """my, his, her, ...; none for animals and where no pronoun is natural."""
    pronoun = pronoun_for(of) if of and not is_animal(noun_of(of)) else None
    return POSSESSIVE.get(pronoun.english, "") if pronoun else ""


def noun_of(node: Nominal) -> Noun | None:
    """The noun behind a subject, to which a verb must be suited; None for people at large."""
    return node.noun if isinstance(node, NounPhrase | Gap) else None


def is_animal(noun: Noun | None) -> bool:
    return noun is not None and noun.kind == "animals"


def spot(dice: Random, groups: tuple[str, ...]) -> Place | Expression:
    """in the garden · on the bank of the river · at home."""
    group = dice.choice(groups)
    if group == "home" and dice.random() < 0.3:
        return AT_HOME
    english, german, noun = dice.choice(WHERE[group])
    if group == "shore":
        _, _, water = dice.choice(WHERE["water"])
        return Place(english, german, "dative", NounPhrase(noun, owner=NounPhrase(water)))
    return Place(english, german, "dative", location(dice, noun))


def goal(dice: Random, groups: tuple[str, ...]) -> Place | Expression:
    """into the garden · to the train station · home."""
    if dice.random() < 0.1:
        return HOMEWARD
    english, german, noun = dice.choice(TO_WHERE[dice.choice(groups)])
    case: Case = "dative" if german == "zu" else "accusative"
    return Place(english, german, case, location(dice, noun))


def location(dice: Random, noun: Noun) -> NounPhrase:
    adjective = quality(dice, noun)
    return NounPhrase(noun, dice.choice(("the", "a")) if adjective else "the", False, adjective)
