"""The German reading of a tree, by topological fields: a clause is an opening, a bracket of verbs
around a middle field, and an after-field.

    main clause     Gestern    hat | der Junge den Hund im Garten     | gesehen    , der bellt.
    subordinate     , weil         | der Junge den Hund im Garten     | gesehen hat
    infinitive      , um           | den Hund im Garten               | zu sehen
"""

from functools import lru_cache

from regard.data.language.entries import Expression, GermanVerb, Noun
from regard.data.language.forms import (
    CONTRACTIONS,
    HELPERS,
    PERSONAL,
    REFLEXIVE,
    RELATIVE,
    adjective_form,
    determiner_form,
    noun_form,
    present,
    preterite,
)
from regard.data.language.tree import (
    Both,
    Clause,
    Gap,
    Meaning,
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

COMMA = (Word(","),)
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "if": "wenn"}
DEGREES = {"very": "sehr", "too": "zu"}


def sentence(tree: Sentence) -> Words:
    words = main(tree.clause, tree.question)
    if tree.but:
        words += (Word(",", ((tree, "comma"),)), Word("aber", ((tree, "but"),))) + main(tree.but)
    return tidy((*words, Word("?" if tree.question else ".", ((tree, "end"),))))


def tidy(words: Words) -> Words:
    """Clauses ask for a comma on both sides; one is enough, and none before the full stop."""
    kept: list[Word] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            word = Word(word.text, kept.pop().meanings + word.meanings)
        if kept or word.text != ",":
            kept.append(word)
    return tuple(kept)


# --- the order of a clause -----------------------------------------------------------------------------


def main(clause: Clause, question: bool = False) -> Words:
    """The finite verb is second: what is fronted sends the subject behind it."""
    finite, prefix, end = verbs(clause)
    subject = nominal(clause.subject, "nominative")
    first = fronted(clause)
    if not first and not question:
        first, subject = subject, ()
    return first + finite + subject + middle(clause) + prefix + end + after(clause)


def fronted(clause: Clause) -> Words:
    if clause.fronted == "time" and clause.time:
        return expression(clause.time, clause, "time")
    if clause.fronted == "adjunct" and clause.adjunct:
        return (*adjunct(clause), Word(",", ((clause.adjunct, "comma"),)))
    return ()


def verb_final(opening: Words, clause: Clause) -> Words:
    """A subordinate clause: the finite verb comes last and takes its prefix back (anruft)."""
    finite, prefix, end = verbs(clause)
    subject = () if isinstance(clause.subject, Gap) else nominal(clause.subject, "nominative")
    last = joined(prefix + finite) if prefix else end + finite
    return COMMA + opening + subject + middle(clause) + last + after(clause) + COMMA


def infinitive(opening: Words, clause: Clause) -> Words:
    """..., um den Hund zu sehen · ..., die Tür aufzumachen."""
    verb = clause.verb.german
    to = (Word("zu", ((clause, "to"),)),)
    stem = (Word(verb.stem, carried(clause)),)
    last = joined(prefix_of(clause) + to + stem) if verb.prefix else to + stem
    return COMMA + opening + middle(clause) + last + after(clause) + COMMA


def relative(clause: Clause) -> Words:
    """The relative pronoun opens the clause, with its preposition: ..., auf den der Mann wartet."""
    if isinstance(clause.subject, Gap):
        return verb_final(nominal(clause.subject, "nominative"), clause)
    return verb_final(governed(clause), clause)


def adjunct(clause: Clause) -> Words:
    assert clause.adjunct
    english, inside = clause.adjunct.conjunction, clause.adjunct.clause
    once = "als" if inside.tense == "past" else "wenn"
    german = once if english == "when" else CONJUNCTIONS[english]
    return verb_final((Word(german, ((clause.adjunct, "conjunction"),)),), inside)


def middle(clause: Clause) -> Words:
    """Light before heavy, known before new, time before place."""
    slot = object_slot(clause)
    object_ = governed(clause) if slot else ()
    receiver = receiver_of(clause)
    light_receiver = isinstance(clause.receiver, Pronoun)
    return (
        reflexive(clause)
        + (object_ if slot == "light" else ())
        + (receiver if light_receiver else ())
        + time(clause, inner=False)
        + (() if light_receiver else receiver)
        + (object_ if slot == "known" else ())
        + time(clause, inner=True)
        + (object_ if slot == "given" else ())
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
    if isinstance(node, NounPhrase) and not node.owner and node.determiner in _NEW:
        return "new"
    return "given" if clause.receiver else "known"


_NEW = ("a", "", "two", "three", "many", "every")


def reflexive(clause: Clause) -> Words:
    if not clause.verb.german.reflexive:
        return ()
    return (Word(REFLEXIVE[person(clause.subject)], ((clause, "reflexive"),)),)


def receiver_of(clause: Clause) -> Words:
    if clause.receiver is None:
        return ()
    return nominal(clause.receiver, "dative", carried=((clause.receiver, "receiver"),))


def time(clause: Clause, inner: bool) -> Words:
    """When, unless it is fronted; or how often, and ``gern``."""
    gern = inner and clause.tense == "like to"
    words: Words = (Word("gern", ((clause, "tense"),)),) if gern else ()
    if clause.time and clause.time.inner == inner and clause.fronted != "time":
        return words + expression(clause.time, clause, "time")
    return words


def after(clause: Clause) -> Words:
    """The after-field: every clause that hangs on this one, each between commas."""
    words: Words = ()
    if isinstance(clause.object, NounPhrase) and clause.object.relative:
        words += relative(clause.object.relative)
    if clause.task:
        words += infinitive((), clause.task)
    if clause.aim:
        words += infinitive((Word("um", ((clause.aim, "to"),)),), clause.aim)
    if clause.content:
        words += verb_final((Word("dass", ((clause, "that"),)),), clause.content)
    if clause.adjunct and clause.fronted != "adjunct":
        words += adjunct(clause)
    return words


# --- verbs -------------------------------------------------------------------------------------------


def verbs(clause: Clause) -> tuple[Words, Words, Words]:
    """The bracket: the finite verb, its prefix, and the infinitive or participle at the end."""
    verb, tense, subject = clause.verb.german, clause.tense, person(clause.subject)
    if tense in ("present", "progressive", "like to"):
        finite = present(verb.stem, verb.third, subject)
    elif tense in ("past", "perfect") and verb.preterite:
        finite = preterite(verb.preterite, subject)
    else:
        past = tense in ("past", "perfect")
        name = verb.auxiliary if past else "may" if is_forbidden(clause) else tense
        finite = present(*HELPERS[name], subject)
        end = verb.participle if past else verb.infinitive
        joint = carried(clause) + (((clause, "particle"),) if verb.prefix else ())
        return (Word(finite, ((clause, "tense"),)),), (), (Word(end, joint),)
    return (Word(finite, (*carried(clause), (clause, "tense"))),), prefix_of(clause), ()


def is_forbidden(clause: Clause) -> bool:
    """``must not`` is not the negation of ``must``: darf nicht."""
    return clause.tense == "allowed to" or (clause.tense == "must" and clause.negative)


def prefix_of(clause: Clause) -> Words:
    prefix = clause.verb.german.prefix
    return (Word(prefix, ((clause, "particle"),)),) if prefix else ()


def joined(words: Words) -> Words:
    meanings = tuple(meaning for word in words for meaning in word.meanings)
    return (Word("".join(word.text for word in words), meanings),)


def carried(clause: Clause) -> tuple[Meaning, ...]:
    """The verb expresses all that has no word of its own."""
    return tuple((clause, name) for name in _carried(clause.verb.german))


@lru_cache(maxsize=None)
def _carried(verb: GermanVerb) -> tuple[str, ...]:
    names = ["verb"]
    if not (verb.prefix or verb.complement):
        names.append("particle")
    if not verb.preposition:
        names.append("preposition")
    return tuple(names)


def negation(clause: Clause) -> Words:
    if not clause.negative or clause.verb.german.complement or says_no(clause):
        return ()
    return (Word("nicht", ((clause, "not"),)),)


def says_no(clause: Clause) -> bool:
    """not a dog, not any milk: kein takes the place of nicht."""
    node = clause.object
    indefinite = isinstance(node, NounPhrase) and not node.owner and node.determiner in ("a", "")
    return clause.negative and clause.verb.direct and indefinite


def complement(clause: Clause) -> Words:
    """The adjective after sein, the noun of Hunger haben."""
    words: Words = ()
    verb = clause.verb.german
    if clause.predicate:
        if clause.degree:
            words += (Word(DEGREES[clause.degree], ((clause, "degree"),)),)
        words += (Word(clause.predicate.german, ((clause, "predicate"),)),)
    if verb.complement:
        if clause.negative:
            words += (Word(verb.no_complement, ((clause, "not"),)),)
        words += (Word(verb.complement, ((clause, "particle"),)),)
    return words


# --- nouns ---------------------------------------------------------------------------------------------


def governed(clause: Clause) -> Words:
    """The object in the case, and with the preposition, that the verb asks for."""
    verb = clause.verb.german
    assert clause.object
    negative = ((clause, "not"),) if says_no(clause) else ()
    words = nominal(clause.object, verb.case, carried=negative, negative=bool(negative))
    if not verb.preposition:
        return words
    return contracted(Word(verb.preposition, ((clause, "preposition"),)), words)


def nominal(
    node: Nominal, case: str, carried: tuple[Meaning, ...] = (), negative: bool = False
) -> Words:
    """``carried`` are meanings that the first word expresses beside its own."""
    if isinstance(node, Pronoun):
        return (Word(PERSONAL[node.english, node.gender][case], ((node, "noun"), *carried)),)
    if isinstance(node, Name):
        return (Word(node.text, ((node, "noun"), *carried)),)
    if isinstance(node, Gap):
        return (Word(RELATIVE[case][agreement(node)], ((node, "relative"),)),)
    if isinstance(node, Both):
        and_ = Word("und", ((node, "and"),))
        return (*nominal(node.first, case, carried), and_, *nominal(node.second, case))
    words = noun_phrase(node, case, carried, negative)
    inside = relative(node.relative) if node.relative and case == "nominative" else ()
    return words + inside


def noun_phrase(
    node: NounPhrase, case: str, carried: tuple[Meaning, ...] = (), negative: bool = False
) -> Words:
    kind, owner = agreement(node), node.owner
    tail: Words = ()
    if isinstance(owner, Name):
        article, strong = owner.text + "s", True
        opening: Words = (Word(article, ((owner, "noun"), *carried)),)
    else:
        text = "no" if negative else "the" if owner else node.determiner
        article, strong = determiner_form(text, case, kind)
        own = ((node, "determiner"), *carried)
        opening = (Word(article, own),) if article else ()
        tail = noun_phrase(owner, "genitive", ((owner, "of"),)) if owner else ()
    if node.adjective:
        form = adjective_form(node.adjective.stem, strong, case, kind)
        opening += (Word(form, ((node, "adjective"),)),)
    noun = Word(noun_form(node.noun, case, node.plural), ((node, "noun"),))
    return (*opening, noun, *tail)


def agreement(node: NounPhrase | Gap) -> str:
    return "plural" if node.plural else node.noun.gender


def place(node: Place | Expression, clause: Clause) -> Words:
    if isinstance(node, Expression):
        return expression(node, clause, "place")
    preposition = Word(node.german, ((node, "preposition"),))
    return contracted(preposition, noun_phrase(node.where, node.case))


def contracted(preposition: Word, words: Words) -> Words:
    """in dem Garten: im Garten."""
    short = CONTRACTIONS.get((preposition.text, words[0].text))
    if short and len(words) > 1:
        return (Word(short, preposition.meanings + words[0].meanings), *words[1:])
    return (preposition, *words)


def expression(node: Expression, clause: Clause, role: str) -> Words:
    return tuple(Word(text, ((clause, role + part),)) for text, part in node.german)
