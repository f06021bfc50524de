"""The English reading of a tree: subject, auxiliary, verb, objects, place, time."""

from functools import lru_cache

from regard.data.language.entries import HUMAN, EnglishVerb, Expression
from regard.data.language.tree import (
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
)

OBJECT_FORM = {"I": "me", "he": "him", "she": "her", "it": "it", "we": "us", "they": "them"}
_PLURAL_DETERMINER = {"a": "", "this": "these"}


def sentence(tree: Sentence) -> Words:
    words = main(tree.clause, tree.question)
    if tree.but:
        words += (Word(",", ((tree, "comma"),)), Word("but", ((tree, "but"),))) + main(tree.but)
    return (*words, Word("?" if tree.question else ".", ((tree, "end"),)))


def main(clause: Clause, question: bool = False) -> Words:
    if clause.fronted == "time" and clause.time:
        return expression(clause.time, clause, "time") + statement(clause, question)
    if clause.fronted == "adjunct" and clause.adjunct:
        comma = Word(",", ((clause.adjunct, "comma"),))
        return (*adjunct(clause), comma, *statement(clause, question))
    return statement(clause, question)


def statement(clause: Clause, question: bool = False) -> Words:
    """All of a clause but what is fronted."""
    subject = nominal(clause.subject)
    auxiliary, verb = verb_group(clause, question)
    opening = auxiliary + subject if question else subject + auxiliary
    return opening + inner(clause) + verb + complements(clause) + after(clause)


def infinitive(clause: Clause) -> Words:
    verb = clause.verb.english
    to = Word("to", ((clause, "to"),))
    return (to, *main_verb(clause, verb.base, finite=False), *complements(clause))


def relative(clause: Clause) -> Words:
    """who lives here · that the boy is waiting for: the preposition stays behind."""
    gap = next(part for part in (clause.subject, clause.object) if isinstance(part, Gap))
    is_who = gap is clause.subject and gap.noun.kind in HUMAN
    return (Word("who" if is_who else "that", ((gap, "relative"),)), *statement(clause))


def complements(clause: Clause) -> Words:
    words: Words = ()
    if clause.predicate:
        if clause.degree:
            words += (Word(clause.degree, ((clause, "degree"),)),)
        words += (Word(clause.predicate.english, ((clause, "predicate"),)),)
    if clause.object:
        if clause.verb.english.preposition:
            words += (Word(clause.verb.english.preposition, ((clause, "preposition"),)),)
        words += nominal(clause.object, "object", clause.negative and clause.verb.direct)
    if clause.receiver:
        words += (Word("to", ((clause.receiver, "receiver"),)), *nominal(clause.receiver, "object"))
    if clause.place:
        words += place(clause.place, clause)
    if clause.means:
        words += expression(clause.means, clause, "means")
    if clause.time and not clause.time.inner and clause.fronted != "time":
        words += expression(clause.time, clause, "time")
    return words


def after(clause: Clause) -> Words:
    """The clauses that follow the verb and its complements."""
    words: Words = ()
    if clause.task:
        words += infinitive(clause.task)
    if clause.aim:
        words += infinitive(clause.aim)
    if clause.content:
        words += (Word("that", ((clause, "that"),)), *statement(clause.content))
    if clause.adjunct and clause.fronted != "adjunct":
        words += adjunct(clause)
    return words


def adjunct(clause: Clause) -> Words:
    assert clause.adjunct
    opening = Word(clause.adjunct.conjunction, ((clause.adjunct, "conjunction"),))
    return (opening, *statement(clause.adjunct.clause))


def inner(clause: Clause) -> Words:
    """What stands between auxiliary and verb: often, never, already."""
    if clause.time and clause.time.inner:
        return expression(clause.time, clause, "time")
    return ()


# --- verbs -------------------------------------------------------------------------------------------


def verb_group(clause: Clause, question: bool) -> tuple[Words, Words]:
    """The auxiliary with its ``not``, and the verb. A plain verb has no auxiliary of its own:
    ``do`` comes in for questions and for ``not``."""
    first, plural = person(clause.subject)
    verb, tense = clause.verb.english, clause.tense
    be = "are" if plural else "am" if first == 1 else "is"
    third = first == 3 and not plural
    if tense == "progressive":
        return helper(clause, be), main_verb(clause, verb.ing)
    if tense == "perfect":
        return helper(clause, "has" if third else "have"), main_verb(clause, verb.participle)
    if tense in ("will", "can", "must", "should"):
        return helper(clause, tense), main_verb(clause, verb.base)
    if tense in ("going to", "allowed to"):
        rest = tuple(Word(text, ((clause, "tense"),)) for text in tense.split())
        return helper(clause, be), rest + main_verb(clause, verb.base)
    if tense in ("want to", "like to"):
        wish = tense.split()[0]
        doing, form = plain(clause, question, wish, wish + "s" if third else wish)
        rest = (Word(form, ((clause, "tense"),)), Word("to", ((clause, "tense"),)))
        return doing, rest + main_verb(clause, verb.base)
    if verb.base == "be":
        past = "were" if plural else "was"
        carried = ((clause, "verb"), (clause, "tense"))
        return helper(clause, past if tense == "past" else be, *carried), particle(clause)
    finite = verb.past if tense == "past" else verb.third if third else verb.base
    doing, form = plain(clause, question, verb.base, finite)
    return doing, main_verb(clause, form, finite=not doing)


def plain(clause: Clause, question: bool, base: str, finite: str) -> tuple[Words, str]:
    if not (question or clause.negative):
        return (), finite
    first, plural = person(clause.subject)
    present = "does" if first == 3 and not plural else "do"
    return helper(clause, "did" if clause.tense == "past" else present), base


def helper(clause: Clause, text: str, *meanings: tuple[object, str]) -> Words:
    meanings = meanings or ((clause, "tense"),)
    if not clause.negative:
        return (Word(text, meanings),)
    if text == "can":
        return (Word("cannot", (*meanings, (clause, "not"))),)
    return (Word(text, meanings), Word("not", ((clause, "not"),)))


def main_verb(clause: Clause, form: str, finite: bool = False) -> Words:
    """The verb expresses all that has no word of its own: the tense when it is finite, and what
    is a prefix, a preposition or ``sich`` in German."""
    names = _carried(clause.verb.english) + (("tense",) if finite else ())
    return (Word(form, tuple((clause, name) for name in names)), *particle(clause))


@lru_cache(maxsize=None)
def _carried(verb: EnglishVerb) -> tuple[str, ...]:
    names = ["verb", "reflexive"]
    if not verb.particle:
        names.append("particle")
    if not verb.preposition:
        names.append("preposition")
    return tuple(names)


def particle(clause: Clause) -> Words:
    text = clause.verb.english.particle
    return (Word(text, ((clause, "particle"),)),) if text else ()


# --- nouns ---------------------------------------------------------------------------------------------


def nominal(node: Nominal, role: str = "subject", negative: bool = False) -> Words:
    if isinstance(node, Pronoun):
        text = node.english if role == "subject" else OBJECT_FORM[node.english]
        return (Word(text, ((node, "noun"),)),)
    if isinstance(node, Name):
        return (Word(node.text, ((node, "noun"),)),)
    if isinstance(node, Both):
        return (*nominal(node.first), Word("and", ((node, "and"),)), *nominal(node.second))
    if isinstance(node, Gap):
        return ()
    return noun_phrase(node, negative)


def noun_phrase(node: NounPhrase, negative: bool = False, possessive: bool = False) -> Words:
    """``possessive`` adds the ending of the teacher's book."""
    noun = node.noun.plural if node.plural else node.noun.singular
    described = ((node.adjective.english, "adjective"),) if node.adjective else ()
    tail: Words = ()
    if node.owner is None:
        opening = determiner(node, negative, described[0][0] if described else noun)
    elif isinstance(node.owner, Name):
        opening = (Word(node.owner.text + "'s", ((node.owner, "noun"),)),)
    elif node.owner.noun.kind in HUMAN:
        opening = noun_phrase(node.owner, possessive=True)
    else:
        opening = determiner(node, negative, noun)
        tail = (Word("of", ((node.owner, "of"),)), *noun_phrase(node.owner))
    *compound, head = noun.split()
    carried = ((node, "noun"), (node, "of")) if possessive else ((node, "noun"),)
    return (
        *opening,
        *(Word(text, ((node, name),)) for text, name in described),
        *(Word(text, ((node, "noun"),)) for text in compound),
        Word(head + "'s" if possessive else head, carried),
        *tail,
        *(relative(node.relative) if node.relative else ()),
    )


def determiner(node: NounPhrase, negative: bool, following: str) -> Words:
    text = node.determiner
    if node.plural:
        text = _PLURAL_DETERMINER.get(text, text)
    if negative and not text:
        text = "any"
    if text == "a" and following[0] in "aeiou":
        text = "an"
    return (Word(text, ((node, "determiner"),)),) if text else ()


def place(node: Place | Expression, clause: Clause) -> Words:
    if isinstance(node, Expression):
        return expression(node, clause, "place")
    return (Word(node.english, ((node, "preposition"),)), *noun_phrase(node.where))


def expression(node: Expression, clause: Clause, role: str) -> Words:
    return tuple(Word(text, ((clause, role + part),)) for text, part in node.english)
