"""English noun phrases, pronouns and fixed expressions."""

from typing import Literal

from regard.data.toy_language.grammar.tree import (
    Both,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Word,
    Words,
    say,
)
from regard.data.toy_language.lexicon.entries import HUMAN, Expression

OBJECT_FORM = {"I": "me", "he": "him", "she": "her", "it": "it", "we": "us", "they": "them"}
PLURAL_FORM = {"a": "", "this": "these"}


def nominal(
    node: Nominal, role: Literal["subject", "object"] = "subject", denied: bool = False
) -> Words:
    if isinstance(node, Pronoun):
        return say(node.english if role == "subject" else OBJECT_FORM[node.english], node, "noun")
    if isinstance(node, Name):
        return say(node.text, node, "noun")
    if isinstance(node, Both):
        return nominal(node.first) + say("and", node, "and") + nominal(node.second)
    if isinstance(node, Gap):
        return ()
    return noun_phrase(node, denied)


def noun_phrase(node: NounPhrase, denied: bool = False) -> Words:
    noun = node.noun.plural if node.plural else node.noun.singular
    adjective = node.adjective.english if node.adjective else ""
    words = say(adjective, node, "adjective") + say(noun, node, "noun")
    if isinstance(node.owner, Name):
        return say(f"{node.owner.text}'s", node.owner, "noun") + words
    if node.owner and node.owner.noun.kind in HUMAN:
        return possessive(node.owner) + words
    words = determiner(node, words[0].text, denied) + words
    return words + say("of", node.owner, "of") + noun_phrase(node.owner) if node.owner else words


def possessive(node: NounPhrase) -> Words:
    """the teacher's: the ending says what the German genitive article says."""
    *before, head = noun_phrase(node)
    return (*before, Word(f"{head.text}'s", (*head.meanings, (node, "of"))))


def determiner(node: NounPhrase, following: str, denied: bool) -> Words:
    text = PLURAL_FORM.get(node.determiner, node.determiner) if node.plural else node.determiner
    if denied and not text:
        text = "any"
    if text == "a" and following[0] in "aeiou":
        text = "an"
    return say(text, node, "determiner")


def place(node: Place | Expression, clause: Clause) -> Words:
    if isinstance(node, Expression):
        return expression(node, clause, "place")
    return say(node.english, node, "preposition") + noun_phrase(node.where)


def expression(node: Expression, clause: Clause, role: str) -> Words:
    return tuple(Word(text, ((clause, role + part),)) for text, part in node.english)
