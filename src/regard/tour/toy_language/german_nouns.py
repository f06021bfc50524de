"""German endings, noun phrases, pronouns and fixed expressions, in a given case."""

from typing import Literal

from regard.tour.toy_language.lexicon import Case, Expression, Gender, Noun
from regard.tour.toy_language.tree import (
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
"""What articles and adjectives agree with: the plural has no gender."""
CASES: tuple[Case, ...] = ("nominative", "accusative", "dative", "genitive")
COLUMNS: tuple[Agreement, ...] = ("masculine", "feminine", "neuter", "plural")


def _table(text: str) -> dict[Case, dict[Agreement, str]]:
    """Rows are cases, columns the three genders and the plural."""
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
PERSONAL = {
    name: dict(zip(CASES, forms.split(), strict=False))
    for name, forms in {
        "I": "ich mich mir",
        "he": "er ihn ihm",
        "she": "sie sie ihr",
        "we": "wir uns uns",
        "they": "sie sie ihnen",
        "masculine": "er ihn ihm",
        "feminine": "sie sie ihr",
        "neuter": "es es ihm",
    }.items()
}
"""By the English pronoun; ``it`` by the gender of what it stands for."""
REFLEXIVE = {(1, False): "mich", (1, True): "uns", (3, False): "sich", (3, True): "sich"}
STEMS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
    "this": "dies",
    "every": "jed",
}
NUMBERS = {"two": "zwei", "three": "drei"}
ENDINGLESS = {("nominative", "masculine"), ("nominative", "neuter"), ("accusative", "neuter")}
"""Where ein, kein and mein have no ending."""
WEAK_E = {(case, column) for case in CASES[:2] for column in COLUMNS[:3]}
WEAK_E -= {("accusative", "masculine")}
"""Where the weak ending of adjectives is -e, not -en."""
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}
HELPERS = {
    "hat": ("haben", "hat"),
    "ist": ("sein", "ist"),
    "will": ("werden", "wird"),
    "going to": ("werden", "wird"),
    "can": ("können", "kann"),
    "must": ("müssen", "muss"),
    "should": ("sollen", "soll"),
    "want to": ("wollen", "will"),
    "allowed to": ("dürfen", "darf"),
}
"""Infinitive and third person of the auxiliaries, by the English tense or the German name."""


def determiner_form(english: str, case: Case, agrees: Agreement) -> tuple[str, bool]:
    """The German determiner, and whether it leaves the strong ending to the adjective."""
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
    """ein alter Mann, der alte Mann: the strong ending is shown once, here or before."""
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
    """war, waren · hatte, hatten."""
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
    """das alte Haus des Lehrers · Annas altes Haus · kein altes Haus."""
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
    """The first word expresses one thing more: des says both ``of`` and ``the``."""
    first, *rest = words
    return (Word(first.text, (*first.meanings, (node, part))), *rest)


def place(node: Place | Expression, clause: Clause) -> Words:
    if isinstance(node, Expression):
        return expression(node, clause, "place")
    return contracted(say(node.german, node, "preposition"), noun_phrase(node.where, node.case))


def contracted(preposition: Words, words: Words) -> Words:
    """in dem Garten: im Garten. A pronoun that stands alone keeps its preposition: in dem."""
    if not preposition or len(words) == 1:
        return preposition + words
    (before,), (article, *rest) = preposition, words
    short = CONTRACTIONS.get((before.text, article.text))
    return (
        (Word(short, before.meanings + article.meanings), *rest) if short else preposition + words
    )


def expression(node: Expression, clause: Clause, role: str) -> Words:
    return tuple(Word(text, ((clause, role + part),)) for text, part in node.german)
