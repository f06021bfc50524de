"""German endings: articles, adjectives, nouns, pronouns, and the present and past of verbs."""

from typing import Literal

from regard.data.toy_language.grammar.tree import Person
from regard.data.toy_language.lexicon.entries import Case, Gender, Noun

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
