"""German clauses, by topological fields: a bracket of verbs opens and closes the middle field.

main clause   Gestern  hat    der Junge den Hund im Garten  gesehen     , weil er ...
subordinate            weil   der Junge den Hund im Garten  gesehen hat , weil er ...
infinitive             um     den Hund im Garten            zu sehen
"""

from functools import cache
from typing import Literal

from regard.data.toy_language.lexicon import WORDS, Case, Expression, Gender, GermanVerb, Noun
from regard.data.toy_language.syntax_tree import (
    Both,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Person,
    Place,
    Pronoun,
    Sentence,
    Word,
    Words,
    person,
    say,
)

Agreement = Gender | Literal["plural"]
"""Agreement of articles and adjectives: a gender, or the plural."""
CASES: tuple[Case, ...] = ("nominative", "accusative", "dative", "genitive")
COLUMNS: tuple[Agreement, ...] = ("masculine", "feminine", "neuter", "plural")


def _table(text: str) -> dict[Case, dict[Agreement, str]]:
    """Table of forms: rows are cases, columns the three genders and the plural."""
    lines = [line.split() for line in text.strip().splitlines()]
    return {
        case: dict(zip(COLUMNS, line, strict=True))
        for case, line in zip(CASES, lines, strict=False)
    }


ARTICLE = _table("""
    der die das die
    den die das die
    dem der dem den
    des der des der
""")
ENDING = _table("""
    er  e   es  e
    en  e   es  e
    em  er  em  en
    es  er  es  er
""")
RELATIVE = _table("""
    der die das die
    den die das die
    dem der dem denen
""")
FORMS: dict[str, dict[str, str]] = WORDS["german"]
PERSONAL = {
    name: dict(zip(CASES, forms.split(), strict=False)) for name, forms in FORMS["pronouns"].items()
}
"""Pronouns by the English one; ``it`` by the gender of its noun."""
REFLEXIVE = {(1, False): "mich", (1, True): "uns", (3, False): "sich", (3, True): "sich"}
STEMS, NUMBERS, CONTRACTIONS = FORMS["stems"], FORMS["numbers"], FORMS["contractions"]
ENDINGLESS = {("nominative", "masculine"), ("nominative", "neuter"), ("accusative", "neuter")}
"""Cases and genders in which ein, kein and mein have no ending."""
WEAK_E = {(case, column) for case in CASES[:2] for column in COLUMNS[:3]}
WEAK_E -= {("accusative", "masculine")}
"""Cases and genders in which the weak ending of adjectives is -e, not -en."""
HELPERS = {name: forms.split() for name, forms in FORMS["helpers"].items()}
"""Infinitive and third person of the auxiliaries, by the English tense or the German name."""


def determiner_form(english: str, case: Case, agrees: Agreement) -> tuple[str, bool]:
    """German determiner, and whether the adjective takes the strong ending."""
    if english == "the":
        return ARTICLE[case][agrees], False
    if not english or (english == "a" and agrees == "plural"):
        return "", True
    if english in NUMBERS:
        return NUMBERS[english], True
    if english == "many":
        return "viel" + ENDING[case][agrees], True
    if english not in ("this", "every") and (case, agrees) in ENDINGLESS:
        return STEMS[english], True
    return STEMS[english] + ENDING[case][agrees], False


def adjective_form(stem: str, strong: bool, case: Case, agrees: Agreement) -> str:
    """Adjective with its ending: ein alter Mann (``strong``), der alte Mann."""
    if strong:
        return stem + ENDING[case][agrees]
    return stem + ("e" if (case, agrees) in WEAK_E else "en")


def noun_form(noun: Noun, case: Case, plural: bool) -> str:
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dative" and form[-1] not in "ns" else form
    is_weak = noun.gender == "masculine" and noun.genitive.endswith("n")  # den, dem, des Jungen
    if case == "genitive" or (is_weak and case != "nominative"):
        return noun.genitive
    return noun.german


def present(infinitive: str, third: str, person: Person) -> str:
    if person.plural:
        return "sind" if infinitive == "sein" else infinitive
    if person.number == 3:
        return third
    if infinitive == "sein":
        return "bin"
    if third[-1] not in "td":  # ich kann, er kann
        return third
    return infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"


def preterite(third: str, person: Person) -> str:
    """Preterite form: war, waren · hatte, hatten."""
    if not person.plural:
        return third
    return third + "n" if third.endswith("e") else third + "en"


def nominal(node: Nominal, case: Case, denied: bool = False) -> Words:
    if isinstance(node, Pronoun):
        name = node.gender if node.english == "it" else node.english
        return say(PERSONAL[name][case], node, "noun")
    if isinstance(node, Name):
        return say(node.text, node, "noun")
    if isinstance(node, Both):
        return nominal(node.first, case) + say("und", node, "and") + nominal(node.second, case)
    if isinstance(node, Gap):
        return say(RELATIVE[case][agreement(node)], node, "relative")
    return noun_phrase(node, case, denied)


def noun_phrase(node: NounPhrase, case: Case, denied: bool = False) -> Words:
    """Noun phrase: das alte Haus des Lehrers · Annas altes Haus · kein altes Haus."""
    agrees, owner = agreement(node), node.owner
    if isinstance(owner, Name):
        words, strong = say(f"{owner.text}s", owner, "noun"), True
    else:
        english = "no" if denied else "the" if owner else node.determiner
        form, strong = determiner_form(english, case, agrees)
        words = say(form, node, "determiner")
    if node.adjective:
        form = adjective_form(node.adjective.stem, strong, case, agrees)
        words += say(form, node, "adjective")
    words += say(noun_form(node.noun, case, node.plural), node, "noun")
    if isinstance(owner, NounPhrase):
        words += also(noun_phrase(owner, "genitive"), owner, "of")
    return words


def agreement(node: NounPhrase | Gap) -> Agreement:
    return "plural" if node.plural else node.noun.gender


def also(words: Words, node: object, part: str) -> Words:
    """Words whose first one has a further meaning: des expresses both ``of`` and ``the``."""
    first, *rest = words
    return (Word(first.text, (*first.meanings, (node, part))), *rest)


def place(node: Place | Expression, clause: Clause) -> Words:
    if isinstance(node, Expression):
        return expression(node, clause, "place")
    return contracted(say(node.german, node, "preposition"), noun_phrase(node.where, node.case))


def contracted(preposition: Words, words: Words) -> Words:
    """Preposition and words, contracted (im Garten) except before a pronoun alone (in dem)."""
    if preposition and len(words) > 1:
        (before,), (article, *rest) = preposition, words
        if short := CONTRACTIONS.get(f"{before.text} {article.text}"):
            return (Word(short, before.meanings + article.meanings), *rest)
    return preposition + words


def expression(node: Expression, clause: Clause, role: str) -> Words:
    return tuple(Word(text, ((clause, role + part),)) for text, part in node.german)


COMMA = (Word(",", ()),)
CONJUNCTIONS = {"because": "weil", "although": "obwohl", "if": "wenn"}
DEGREES = {"": "", "very": "sehr", "too": "zu"}
NEW = ("a", "", "two", "three", "many", "every")
"""Determiners of nouns that are new in the text."""


def sentence(tree: Sentence) -> Words:
    """Words of a sentence."""
    words = main(tree.clause, tree.question)
    if tree.but:
        words += say(",", tree, "comma") + say("aber", tree, "but") + main(tree.but)
    return tidy(words + say("?" if tree.question else ".", tree, "end"))


def tidy(words: Words) -> Words:
    """Words without double commas, and without commas at either end."""
    tidied: list[Word] = []
    for word in words:
        if tidied and tidied[-1].text == "," and word.text in ",.?":
            word = Word(word.text, tidied.pop().meanings + word.meanings)
        if tidied or word.text != ",":
            tidied.append(word)
    return tuple(tidied)


# --- the order of a clause ------------------------------------------------------------------------


def main(clause: Clause, question: bool = False) -> Words:
    """Main clause: the finite verb is second, and a fronted part moves the subject behind it."""
    finite, prefix, end = bracket(clause)
    first, subject = fronted(clause), subject_of(clause)
    if not (first or question):
        first, subject = subject, ()
    return first + finite + subject + middle(clause) + prefix + end + after(clause)


def verb_final(opening: Words, clause: Clause) -> Words:
    """Subordinate clause: the finite verb comes last, joined with its prefix (anruft)."""
    finite, prefix, end = bracket(clause)
    subject = () if isinstance(clause.subject, Gap) else subject_of(clause)
    last = joined(prefix + finite) if prefix else end + finite
    return COMMA + opening + subject + middle(clause) + last + after(clause) + COMMA


def infinitive(opening: Words, clause: Clause) -> Words:
    """Infinitive clause: um den Hund zu sehen · die Tür aufzumachen."""
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
    """Relative clause, with pronoun and preposition first: auf den der Mann wartet."""
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
    """After-field: the clauses that depend on this one."""
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
    """Middle field: light before heavy, known before new, time before place, dative first."""
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
    """Slot of the object in the middle field; empty if it opens a relative clause."""
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
    """Object in the case, and with the preposition, that the verb requires."""
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
    """Expression of time, unless it is fronted; with ``inner`` of frequency, and ``gern``."""
    words = say("gern", clause, "tense") if inner and clause.tense == "like to" else ()
    if clause.time and clause.time.inner == inner and clause.fronted != "time":
        words += expression(clause.time, clause, "time")
    return words


def negation(clause: Clause) -> Words:
    if not clause.negative or clause.verb.german.complement or denies_object(clause):
        return ()
    return say("nicht", clause, "not")


def denies_object(clause: Clause) -> bool:
    """Whether kein replaces nicht: not a dog, not any milk."""
    node = clause.object
    indefinite = isinstance(node, NounPhrase) and not node.owner and node.determiner in ("a", "")
    return clause.negative and clause.verb.direct and indefinite


def complement(clause: Clause) -> Words:
    """Complement: the adjective of sein, the noun of Hunger haben."""
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
    """Finite verb, its prefix, and the infinitive or participle at the end."""
    verb, tense, subject = clause.verb.german, clause.tense, person(clause.subject)
    if tense in ("present", "progressive", "like to"):
        form = present(verb.stem, verb.third, subject)
        parts = carried(verb) if tense == "like to" else (*carried(verb), "tense")  # gern says it
        return say(form, clause, *parts), prefix_of(clause), ()
    is_past = tense in ("past", "perfect")
    if is_past and verb.preterite:
        form = preterite(verb.preterite, subject)
        return say(form, clause, *carried(verb), "tense"), (), ()
    helper = verb.auxiliary if is_past else "allowed to" if is_forbidden(clause) else tense
    infinitive, third = HELPERS[helper]
    finite = say(present(infinitive, third, subject), clause, "tense")
    joint = ("particle",) if verb.prefix else ()
    end = verb.participle if is_past else verb.infinitive
    return finite, (), say(end, clause, *carried(verb), *joint)


def is_forbidden(clause: Clause) -> bool:
    """Whether a clause forbids: ``must not`` is darf nicht."""
    return clause.tense == "must" and clause.negative


def prefix_of(clause: Clause) -> Words:
    return say(clause.verb.german.prefix, clause, "particle")


def joined(words: Words) -> Words:
    """Words joined to one: auf, zu, machen: aufzumachen."""
    meanings = tuple(meaning for word in words for meaning in word.meanings)
    return (Word("".join(word.text for word in words), meanings),)


@cache
def carried(verb: GermanVerb) -> tuple[str, ...]:
    """Parts that the verb expresses beside itself: separate words in English only."""
    particle = () if verb.prefix or verb.complement else ("particle",)
    preposition = () if verb.preposition else ("preposition",)
    return ("verb", *particle, *preposition)
