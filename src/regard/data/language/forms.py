"""German endings: articles, adjectives, nouns, pronouns and the present of verbs."""

from regard.data.language.entries import Noun

CASES = ("nominative", "accusative", "dative", "genitive")
KINDS = ("masculine", "feminine", "neuter", "plural")


def _table(text: str) -> dict[str, dict[str, str]]:
    """Rows are cases, columns the three genders and the plural."""
    lines = text.strip().splitlines()
    return {
        case: dict(zip(KINDS, line.split(), strict=True))
        for case, line in zip(CASES, lines, strict=False)
    }


ENDING = _table("""
    er  e   es  e
    en  e   es  e
    em  er  em  en
    es  er  es  er
""")
ARTICLE = _table("""
    der die das die
    den die das die
    dem der dem den
    des der des der
""")
RELATIVE = _table("""
    der die das die
    den die das die
    dem der dem denen
""")
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
CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}
_PERSONAL = {
    "I": "ich mich mir",
    "he": "er ihn ihm",
    "she": "sie sie ihr",
    "es": "es es ihm",
    "we": "wir uns uns",
    "they": "sie sie ihnen",
}
_IT = {"masculine": "he", "feminine": "she", "neuter": "es"}
PERSONAL = {
    (english, gender): dict(
        zip(CASES, _PERSONAL[same if english == "it" else english].split(), strict=False)
    )
    for english in ("I", "he", "she", "it", "we", "they")
    for gender, same in _IT.items()
}
REFLEXIVE = {(1, False): "mich", (1, True): "uns", (3, False): "sich", (3, True): "sich"}
HELPERS = {
    "hat": ("haben", "hat"),
    "ist": ("sein", "ist"),
    "will": ("werden", "wird"),
    "going to": ("werden", "wird"),
    "can": ("können", "kann"),
    "must": ("müssen", "muss"),
    "should": ("sollen", "soll"),
    "want to": ("wollen", "will"),
    "may": ("dürfen", "darf"),
}


def determiner_form(english: str, case: str, kind: str) -> tuple[str, bool]:
    """The German determiner, and whether the adjective after it must show the strong ending."""
    if english == "the":
        return ARTICLE[case][kind], False
    if english in NUMBERS:
        return NUMBERS[english], True
    if english == "many":
        return "viel" + ENDING[case][kind], True
    if not english or (english == "a" and kind == "plural"):
        return "", True
    stem = STEMS[english]
    if stem not in ("dies", "jed") and (case, kind) in _BARE:
        return stem, True
    return stem + ENDING[case][kind], False


_BARE = {("nominative", "masculine"), ("nominative", "neuter"), ("accusative", "neuter")}
"""Where ein, kein and mein have no ending of their own."""


def adjective_form(stem: str, strong: bool, case: str, kind: str) -> str:
    """The strong ending is shown once: by the determiner or, failing that, by the adjective."""
    if strong:
        return stem + ENDING[case][kind]
    if kind != "plural" and (case == "nominative" or (case == "accusative" and kind in "feminine neuter".split())):
        return stem + "e"
    return stem + "en"


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dative" and form[-1] not in "ns" else form
    weak = noun.gender == "masculine" and noun.genitive.endswith("n")
    if case == "genitive" or (weak and case != "nominative"):
        return noun.genitive
    return noun.german


def present(infinitive: str, third: str, person: tuple[int, bool]) -> str:
    first, plural = person
    if plural:
        return "sind" if infinitive == "sein" else infinitive
    if first == 3:
        return third
    if infinitive == "sein":
        return "bin"
    if third[-1] != "t" and infinitive != "werden":
        return third
    return infinitive[:-1] if infinitive.endswith("en") else infinitive[:-1] + "e"


def preterite(third: str, person: tuple[int, bool]) -> str:
    if not person[1]:
        return third
    return third + "n" if third.endswith("e") else third + "en"
