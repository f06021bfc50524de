"""German clauses, by topological fields: a bracket of verbs opens and closes the middle field.

main clause   Gestern  hat    der Junge den Hund im Garten  gesehen     , weil er ...
subordinate            weil   der Junge den Hund im Garten  gesehen hat , weil er ...
infinitive             um     den Hund im Garten            zu sehen
"""

from functools import cache

from regard.tour.toy_language.german_nouns import (
    HELPERS,
    REFLEXIVE,
    also,
    contracted,
    expression,
    nominal,
    place,
    present,
    preterite,
)
from regard.tour.toy_language.lexicon import GermanVerb
from regard.tour.toy_language.tree import (
    Clause,
    Gap,
    NounPhrase,
    Pronoun,
    Sentence,
    Word,
    Words,
    person,
    say,
)

COMMA = (Word(",", ()),)
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "if": "wenn"}
DEGREES = {"": "", "very": "sehr", "too": "zu"}
NEW = ("a", "", "two", "three", "many", "every")
"""Determiners of what has not been talked about."""


def sentence(tree: Sentence) -> Words:
    words = main(tree.clause, tree.question)
    if tree.but:
        words += say(",", tree, "comma") + say("aber", tree, "but") + main(tree.but)
    return tidy(words + say("?" if tree.question else ".", tree, "end"))


def tidy(words: Words) -> Words:
    """Clauses ask for a comma on both sides; one is enough, and none at either end."""
    kept: list[Word] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            word = Word(word.text, kept.pop().meanings + word.meanings)
        if kept or word.text != ",":
            kept.append(word)
    return tuple(kept)


# --- the order of a clause ------------------------------------------------------------------------


def main(clause: Clause, question: bool = False) -> Words:
    """The finite verb is second: what is fronted sends the subject behind it."""
    finite, prefix, end = bracket(clause)
    first, subject = fronted(clause), subject_of(clause)
    if not (first or question):
        first, subject = subject, ()
    return first + finite + subject + middle(clause) + prefix + end + after(clause)


def verb_final(opening: Words, clause: Clause) -> Words:
    """A subordinate clause: the finite verb comes last and takes its prefix back (anruft)."""
    finite, prefix, end = bracket(clause)
    subject = () if isinstance(clause.subject, Gap) else subject_of(clause)
    last = joined(prefix + finite) if prefix else end + finite
    return COMMA + opening + subject + middle(clause) + last + after(clause) + COMMA


def infinitive(opening: Words, clause: Clause) -> Words:
    """um den Hund zu sehen · die Tür aufzumachen."""
    verb, zu = clause.verb.german, say("zu", clause, "to")
    stem = say(verb.stem, clause, *carried(verb))
    last = joined(prefix_of(clause) + zu + stem) if verb.prefix else zu + stem
    return COMMA + opening + middle(clause) + last + after(clause) + COMMA


def fronted(clause: Clause) -> Words:
    if clause.fronted == "time" and clause.time:
        return expression(clause.time, clause, "time")
    if clause.fronted == "adjunct":
        return adjunct(clause) + say(",", clause.adjunct, "comma")
    return ()


def subject_of(clause: Clause) -> Words:
    words = nominal(clause.subject, "nominative")
    if isinstance(clause.subject, NounPhrase) and clause.subject.relative:
        return words + relative(clause.subject.relative)
    return words


def relative(clause: Clause) -> Words:
    """The relative pronoun comes first, with its preposition: auf den der Mann wartet."""
    is_subject = isinstance(clause.subject, Gap)
    opening = nominal(clause.subject, "nominative") if is_subject else governed(clause)
    return verb_final(opening, clause)


def adjunct(clause: Clause) -> Words:
    assert clause.adjunct is not None
    inside, english = clause.adjunct.clause, clause.adjunct.conjunction
    when = "als" if inside.tense == "past" else "wenn"
    german = when if english == "when" else CONJUNCTIONS[english]
    return verb_final(say(german, clause.adjunct, "conjunction"), inside)


def after(clause: Clause) -> Words:
    """The after-field: the clauses that hang on this one."""
    words: Words = ()
    if isinstance(clause.object, NounPhrase) and clause.object.relative:
        words += relative(clause.object.relative)
    if clause.task:
        words += infinitive((), clause.task)
    if clause.aim:
        words += infinitive(say("um", clause.aim, "to"), clause.aim)
    if clause.content:
        words += verb_final(say("dass", clause, "that"), clause.content)
    if clause.adjunct and clause.fronted != "adjunct":
        words += adjunct(clause)
    return words


# --- the middle field -----------------------------------------------------------------------------


def middle(clause: Clause) -> Words:
    """Light before heavy, known before new, time before place, dative before accusative."""
    slot = object_slot(clause)
    object_ = governed(clause) if slot else ()
    receiver, is_light = receiver_of(clause), isinstance(clause.receiver, Pronoun)
    return (
        reflexive(clause)
        + (object_ if slot == "light" else ())
        + (receiver if is_light else ())
        + time(clause, inner=False)
        + (() if is_light else receiver)
        + (object_ if slot == "known" else ())
        + time(clause, inner=True)
        + (object_ if slot == "known beside receiver" else ())
        + negation(clause)
        + complement(clause)
        + (expression(clause.means, clause, "means") if clause.means else ())
        + (place(clause.place, clause) if clause.place else ())
        + (object_ if slot == "new" else ())
    )


def object_slot(clause: Clause) -> str:
    """Where the object stands in the middle field; nowhere if it has opened a relative clause."""
    node = clause.object
    if node is None or isinstance(node, Gap):
        return ""
    if clause.verb.german.preposition:
        return "new"
    if isinstance(node, Pronoun):
        return "light"
    if isinstance(node, NounPhrase) and not node.owner and node.determiner in NEW:
        return "new"
    return "known beside receiver" if clause.receiver else "known"


def governed(clause: Clause) -> Words:
    """The object in the case, and with the preposition, that the verb asks for."""
    verb, denied = clause.verb.german, denies_object(clause)
    assert clause.object is not None
    words = nominal(clause.object, verb.case, denied)
    if denied:
        words = also(words, clause, "not")
    return contracted(say(verb.preposition, clause, "preposition"), words)


def receiver_of(clause: Clause) -> Words:
    if clause.receiver is None:
        return ()
    return also(nominal(clause.receiver, "dative"), clause, "receiver")


def reflexive(clause: Clause) -> Words:
    if not clause.verb.german.reflexive:
        return ()
    return say(REFLEXIVE[person(clause.subject)], clause, "reflexive")


def time(clause: Clause, inner: bool) -> Words:
    """When, unless it is fronted; or how often, and ``gern``."""
    words = say("gern", clause, "tense") if inner and clause.tense == "like to" else ()
    if clause.time and clause.time.inner == inner and clause.fronted != "time":
        words += expression(clause.time, clause, "time")
    return words


def negation(clause: Clause) -> Words:
    if not clause.negative or clause.verb.german.complement or denies_object(clause):
        return ()
    return say("nicht", clause, "not")


def denies_object(clause: Clause) -> bool:
    """not a dog, not any milk: kein takes the place of nicht."""
    node = clause.object
    indefinite = isinstance(node, NounPhrase) and not node.owner and node.determiner in ("a", "")
    return clause.negative and clause.verb.direct and indefinite


def complement(clause: Clause) -> Words:
    """The adjective of sein, the noun of Hunger haben."""
    words: Words = ()
    verb = clause.verb.german
    if clause.predicate:
        words += say(DEGREES[clause.degree], clause, "degree")
        words += say(clause.predicate.german, clause, "predicate")
    if clause.negative:
        words += say(verb.no_complement, clause, "not")
    return words + say(verb.complement, clause, "particle")


# --- verbs ----------------------------------------------------------------------------------------


def bracket(clause: Clause) -> tuple[Words, Words, Words]:
    """The finite verb, its prefix, and the infinitive or participle at the end."""
    verb, tense, subject = clause.verb.german, clause.tense, person(clause.subject)
    if tense in ("present", "progressive"):
        finite = say(present(verb.stem, verb.third, subject), clause, *carried(verb), "tense")
        return finite, prefix_of(clause), ()
    if tense == "like to":  # said by gern
        finite = say(present(verb.stem, verb.third, subject), clause, *carried(verb))
        return finite, prefix_of(clause), ()
    is_past = tense in ("past", "perfect")
    if is_past and verb.preterite:
        return say(preterite(verb.preterite, subject), clause, *carried(verb), "tense"), (), ()
    helper = verb.auxiliary if is_past else "allowed to" if is_forbidden(clause) else tense
    finite = say(present(*HELPERS[helper], subject), clause, "tense")
    joint = ("particle",) if verb.prefix else ()
    end = verb.participle if is_past else verb.infinitive
    return finite, (), say(end, clause, *carried(verb), *joint)


def is_forbidden(clause: Clause) -> bool:
    """``must not`` does not deny ``must``: darf nicht."""
    return clause.tense == "must" and clause.negative


def prefix_of(clause: Clause) -> Words:
    return say(clause.verb.german.prefix, clause, "particle")


def joined(words: Words) -> Words:
    """auf, zu, machen: aufzumachen."""
    meanings = tuple(meaning for word in words for meaning in word.meanings)
    return (Word("".join(word.text for word in words), meanings),)


@cache
def carried(verb: GermanVerb) -> tuple[str, ...]:
    """What the verb expresses beside itself: all that is a word of its own only in English."""
    particle = () if verb.prefix or verb.complement else ("particle",)
    preposition = () if verb.preposition else ("preposition",)
    return ("verb", *particle, *preposition)
