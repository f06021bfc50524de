"""English clauses (subject, auxiliary, verb, object, receiver, place, time) and noun phrases."""

from functools import cache
from typing import Literal

from regard.data.toy_language.lexicon import HUMAN, EnglishVerb, Expression
from regard.data.toy_language.syntax_tree import (
    Both,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Sentence,
    Word,
    Words,
    person,
    say,
)


def sentence(tree: Sentence) -> Words:
    """Words of a sentence."""
    words = main(tree.clause, tree.question)
    if tree.but:
        words += say(",", tree, "comma") + say("but", tree, "but") + main(tree.but)
    return words + say("?" if tree.question else ".", tree, "end")


def main(clause: Clause, question: bool = False) -> Words:
    return fronted(clause) + statement(clause, question)


def fronted(clause: Clause) -> Words:
    if clause.fronted == "time" and clause.time:
        return expression(clause.time, clause, "time")
    if clause.fronted == "adjunct":
        return adjunct(clause) + say(",", clause.adjunct, "comma")
    return ()


def statement(clause: Clause, question: bool = False) -> Words:
    """Clause without its fronted part."""
    subject = with_relative(clause.subject, nominal(clause.subject))
    auxiliary, verb = verb_group(clause, question)
    opening = auxiliary + subject if question else subject + auxiliary
    often = expression(clause.time, clause, "time") if clause.time and clause.time.inner else ()
    return opening + often + verb + complements(clause) + after(clause)


def infinitive(clause: Clause) -> Words:
    return say("to", clause, "to") + verb(clause, clause.verb.english.base) + complements(clause)


def with_relative(node: Nominal, words: Words) -> Words:
    if isinstance(node, NounPhrase) and node.relative:
        return words + relative(node.relative)
    return words


def relative(clause: Clause) -> Words:
    """Relative clause: who lives in the village · that the boy is waiting for."""
    gap = clause.subject if isinstance(clause.subject, Gap) else clause.object
    assert isinstance(gap, Gap)
    person_acts = gap is clause.subject and gap.noun.kind in HUMAN
    return say("who" if person_acts else "that", gap, "relative") + statement(clause)


def adjunct(clause: Clause) -> Words:
    assert clause.adjunct is not None
    conjunction = say(clause.adjunct.conjunction, clause.adjunct, "conjunction")
    return conjunction + statement(clause.adjunct.clause)


def complements(clause: Clause) -> Words:
    words: Words = ()
    if clause.predicate:
        words += say(clause.degree, clause, "degree")
        words += say(clause.predicate.english, clause, "predicate")
    if clause.object:
        words += say(clause.verb.english.preposition, clause, "preposition")
        denied = clause.negative and clause.verb.direct
        words += with_relative(clause.object, nominal(clause.object, "object", denied))
    if clause.receiver:
        words += say("to", clause, "receiver") + nominal(clause.receiver, "object")
    if clause.place:
        words += place(clause.place, clause)
    if clause.means:
        words += expression(clause.means, clause, "means")
    if clause.time and not clause.time.inner and clause.fronted != "time":
        words += expression(clause.time, clause, "time")
    return words


def after(clause: Clause) -> Words:
    """Clauses that follow the verb and its complements."""
    words: Words = ()
    for purpose in filter(None, (clause.task, clause.aim)):
        words += infinitive(purpose)
    if clause.content:
        words += say("that", clause, "that") + statement(clause.content)
    if clause.adjunct and clause.fronted != "adjunct":
        words += adjunct(clause)
    return words


# --- verbs ----------------------------------------------------------------------------------------


def verb_group(clause: Clause, question: bool) -> tuple[Words, Words]:
    """Auxiliary with its ``not``, and the verb."""
    number, plural = person(clause.subject)
    be = "are" if plural else "am" if number == 1 else "is"
    third = number == 3 and not plural
    forms, tense = clause.verb.english, clause.tense
    if tense == "progressive":
        return auxiliary(clause, be), verb(clause, forms.ing)
    if tense == "perfect":
        return auxiliary(clause, "has" if third else "have"), verb(clause, forms.participle)
    if tense in ("will", "can", "must", "should"):
        return auxiliary(clause, tense), verb(clause, forms.base)
    if tense in ("going to", "allowed to"):
        return auxiliary(clause, be), say(tense, clause, "tense") + verb(clause, forms.base)
    if tense in ("want to", "like to"):
        wish = tense.removesuffix(" to")
        do, form = plain(clause, question, wish, wish + "s" if third else wish)
        return do, say(f"{form} to", clause, "tense") + verb(clause, forms.base)
    if forms.base == "be":
        form = ("were" if plural else "was") if tense == "past" else be
        return auxiliary(clause, form, "verb"), say(forms.particle, clause, "particle")
    finite = forms.past if tense == "past" else forms.third if third else forms.base
    do, form = plain(clause, question, forms.base, finite)
    return do, verb(clause, form, () if do else ("tense",))


def plain(clause: Clause, question: bool, base: str, finite: str) -> tuple[Words, str]:
    """``do`` and the form of a verb without auxiliary: questions and ``not`` need ``do``."""
    if not (question or clause.negative):
        return (), finite
    number, plural = person(clause.subject)
    present = "does" if number == 3 and not plural else "do"
    return auxiliary(clause, "did" if clause.tense == "past" else present), base


def auxiliary(clause: Clause, text: str, *parts: str) -> Words:
    if clause.negative and text == "can":
        return say("cannot", clause, "tense", "not")
    negation = say("not", clause, "not") if clause.negative else ()
    return say(text, clause, "tense", *parts) + negation


def verb(clause: Clause, form: str, more: tuple[str, ...] = ()) -> Words:
    forms = clause.verb.english
    return say(form, clause, *carried(forms), *more) + say(forms.particle, clause, "particle")


@cache
def carried(verb: EnglishVerb) -> tuple[str, ...]:
    """Parts that the verb expresses beside itself: those that are separate words in German only."""
    particle = () if verb.particle else ("particle",)
    preposition = () if verb.preposition else ("preposition",)
    return ("verb", "reflexive", *particle, *preposition)


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
    """Possessive (the teacher's), whose ending is linked to the German genitive article."""
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
