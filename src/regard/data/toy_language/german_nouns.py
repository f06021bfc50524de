"""German endings, noun phrases, pronouns and fixed expressions, in a given case."""

from typing import Literal

from regard.data.toy_language.lexicon import WORDS, Case, Expression, Gender, Noun
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
    Word,
    Words,
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
