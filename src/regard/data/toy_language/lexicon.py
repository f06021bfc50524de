"""Bilingual lexicon: types of entries, their parsing, and the words of ``words.toml``."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

Case = Literal["nominative", "accusative", "dative", "genitive"]
Gender = Literal["masculine", "feminine", "neuter"]

WORDS = tomllib.loads((files(__package__) / "words.toml").read_text(encoding="utf-8"))
HUMAN = ("adults", "children", "family")
"""Kinds of nouns for people."""


@dataclass(frozen=True, eq=False, slots=True)
class Noun:
    """Noun: ``boy | der Junge, des Jungen, die Jungen``; the plural may be missing."""

    singular: str
    plural: str
    gender: Gender
    german: str
    genitive: str
    german_plural: str
    kind: str
    pronoun: str
    """English pronoun in the singular; empty if none is natural (a child)."""


@dataclass(frozen=True, eq=False, slots=True)
class Adjective:
    """Adjective: ``expensive | teuer / teur``; the second German form is the stem with endings."""

    english: str
    german: str
    stem: str


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """Fixed expression: words in both languages, each with the number of the part it expresses."""

    english: tuple[tuple[str, str], ...]
    german: tuple[tuple[str, str], ...]
    inner: bool
    """Whether its place is beside the verb (often, already), not at either end of the sentence."""


@dataclass(frozen=True, eq=False, slots=True)
class EnglishVerb:
    base: str
    third: str
    past: str
    participle: str
    ing: str
    particle: str
    preposition: str


@dataclass(frozen=True, eq=False, slots=True)
class GermanVerb:
    infinitive: str
    stem: str
    """Infinitive without its separable prefix."""
    third: str
    prefix: str
    preterite: str
    """Past in one word, for the few verbs that are not used in the perfect."""
    auxiliary: str
    participle: str
    reflexive: bool
    complement: str
    no_complement: str
    """Word that negates the complement: *keinen* Hunger."""
    preposition: str
    case: Case


@dataclass(frozen=True, eq=False, slots=True)
class Verb:
    """Verb in both languages, with its possible subjects, objects and places."""

    english: EnglishVerb
    german: GermanVerb
    subjects: tuple[Noun, ...]
    objects: tuple[Noun, ...]
    places: tuple[str, ...]

    @property
    def direct(self) -> bool:
        """Whether neither language puts a preposition before the object."""
        return not (self.english.preposition or self.german.preposition)


def rows(table: str, columns: int) -> Iterator[list[str]]:
    """Rows of a table, split at ``|`` and padded with empty cells."""
    for line in table.strip().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        yield cells + [""] * (columns - len(cells))


_GENDERS: dict[str, Gender] = {"der": "masculine", "die": "feminine", "das": "neuter"}
_NATURAL = {"masculine": "he", "feminine": "she", "neuter": ""}
_CASES: dict[str, Case] = {"Akk": "accusative", "Dat": "dative"}


def nouns(kind: str, table: str) -> dict[str, Noun]:
    """Nouns of a table: English (irregular plural after a slash), German, pronoun."""
    entries = {}
    for english, german, pronoun in rows(table, 3):
        singular, _, plural = english.partition("/")
        nominative, genitive, *plurals = [form.split()[-1] for form in german.split(",")]
        gender = _GENDERS[german.split()[0]]
        forms = singular, plural or plural_of(singular)
        german_forms = nominative, genitive, plurals[0] if plurals else ""
        pronoun = pronoun or (_NATURAL[gender] if kind in HUMAN else "it")
        entries[singular] = Noun(*forms, gender, *german_forms, kind, pronoun)
    return entries


def adjectives(table: str) -> dict[str, tuple[Adjective, tuple[str, ...]]]:
    """Adjectives of a table: English, German (stem after a slash), kinds of nouns."""
    entries = {}
    for english, german, kinds in rows(table, 3):
        form, _, stem = german.replace(" ", "").partition("/")
        entries[english] = Adjective(english, form, stem or form), tuple(kinds.split())
    return entries


def expressions(name: str, inner: bool = False) -> dict[str, Expression]:
    """Expressions of a table: ``in¹ the¹ evening² | am¹ Abend²``; equal numbers are linked."""
    entries = {}
    for english, german in rows(WORDS["expressions"][name], 2):
        entry = Expression(_numbered(english), _numbered(german), inner)
        entries[" ".join(word for word, _ in entry.english)] = entry
    return entries


def _numbered(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((word.rstrip("¹²³"), word[len(word.rstrip("¹²³")) :]) for word in text.split())


def verbs(name: str) -> dict[str, Verb]:
    """Verbs of a table: English, German, objects, places, subjects, which name pools."""
    entries = {}
    for english, german, objects, places, subjects in rows(WORDS["verbs"][name], 5):
        what, who = (
            tuple(noun for name in names.split(", ") if name for noun in POOLS[name])
            for names in (objects, subjects or "people")
        )
        verb = Verb(english_verb(english), german_verb(german), who, what, tuple(places.split()))
        parts = verb.english.base, verb.english.particle, verb.english.preposition
        entries[" ".join(filter(None, parts))] = verb
    return entries


def english_verb(text: str) -> EnglishVerb:
    """Parse ``help`` · ``see saw seen`` · ``get got got +up``, a particle · ``wait (for)``."""
    base, *irregular = re.findall(r"(?<![+(\w])\w+", text)
    past, participle = irregular or [past_of(base)] * 2
    third = {"be": "is", "have": "has"}.get(base) or plural_of(base)
    matches = re.search(r"\+(\w+)", text), re.search(r"\((\w+)\)", text)
    particle, preposition = (match[1] if match else "" for match in matches)
    return EnglishVerb(base, third, past, participle, ing_of(base), particle, preposition)


def german_verb(text: str) -> GermanVerb:
    """Parse ``anrufen, ruft an, hat angerufen`` · ``sich freuen, freut, hat gefreut, auf Akk`` ·
    ``(keinen) Hunger haben, hat, hatte``, whose past is one word."""
    name, present, past, *governed = [form.split() for form in text.split(",")]
    infinitive, prefix = name[-1], "".join(present[1:])
    *preposition, case = governed[0] if governed else ["Akk"]
    denial, complement = name[:2] if name[0].startswith("(") else ("", "")
    preterite, auxiliary = (past[0], "") if len(past) == 1 else ("", past[0])
    forms = infinitive, infinitive.removeprefix(prefix), present[0], prefix, preterite, auxiliary
    negated = name[0] == "sich", complement, denial.strip("()")
    return GermanVerb(*forms, past[-1], *negated, "".join(preposition), _CASES[case])


def plural_of(word: str) -> str:
    """Plural of a noun, or third person of a verb: the spelling rule is the same."""
    if re.search(r"(s|x|ch|sh|o)$", word):
        return word + "es"
    return re.sub(r"(?<![aeiou])y$", "ie", word) + "s"


def past_of(base: str) -> str:
    return re.sub(r"(?<![aeiou])y$", "i", base).removesuffix("e") + "ed"


def ing_of(base: str) -> str:
    """Form in -ing: write, writing · sit, sitting · travel, travelling · see, seeing."""
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]|.*get|travel", base):
        return base + base[-1] + "ing"
    return re.sub(r"(?<=[a-z][^e])e$", "", base) + "ing"


# --- nouns ----------------------------------------------------------------------------------------


def _groups() -> dict[str, dict[str, Noun]]:
    """Groups of nouns by name: tables, and groups that consist of other groups."""
    tables = [(kind, *named) for kind, part in WORDS["nouns"].items() for named in part.items()]
    groups = {name: nouns(kind, table) for kind, name, table in tables}
    groups["nouns"] = {name: noun for group in groups.values() for name, noun in group.items()}
    for name, parts in WORDS["groups"].items():
        groups[name] = {key: noun for part in parts.split() for key, noun in groups[part].items()}
    return groups


_GROUPS = _groups()
NOUNS, PEOPLE, BELONGINGS = _GROUPS["nouns"], _GROUPS["people"], _GROUPS["belongings"]
NAMES: dict[str, str] = WORDS["names"]
POOLS = {name: tuple(group.values()) for name, group in _GROUPS.items()}
POOLS |= {name: (noun,) for name, noun in NOUNS.items()}
"""Pools of subjects and objects of verbs: groups by name, and each noun by its own."""


# --- adjectives -----------------------------------------------------------------------------------

_ADJECTIVES = adjectives(WORDS["adjectives"]["all"])
ADJECTIVES = {name: adjective for name, (adjective, _) in _ADJECTIVES.items()}
QUALITIES = {
    kind: tuple(adjective for adjective, kinds in _ADJECTIVES.values() if kind in kinds)
    for _, kinds in _ADJECTIVES.values()
    for kind in kinds
}
MOODS, HARDSHIPS, COLOURS, EXCESSIVE = (
    tuple(ADJECTIVES[word] for word in WORDS["adjectives"][name].split(", "))
    for name in ("moods", "hardships", "colours", "excessive")
)

# --- fixed expressions, by the tense they go with -------------------------------------------------

OFTEN, ALREADY, SOON = (expressions(name, inner=True) for name in ("often", "already", "soon"))
HABITS, NOW, PAST, FUTURE = map(expressions, ("habits", "now", "past", "future"))
MEANS, ASKING = map(expressions, ("means", "asking"))
AT_HOME, HOMEWARD = expressions("homes").values()

# --- places, by group -----------------------------------------------------------------------------

Spot = tuple[str, str, Noun]
"""English preposition, German preposition, noun."""


def _spots(column: int) -> dict[str, tuple[Spot, ...]]:
    groups: dict[str, tuple[Spot, ...]] = {}
    for group, english, german, prepositions in rows(WORDS["places"]["all"], 4):
        noun = nouns(group, f"{english} | {german}")[english]
        before, after = prepositions.split(", ")[column].split(" = ")
        groups[group] = (*groups.get(group, ()), (before, after, noun))
    return groups


WHERE, TO_WHERE = _spots(0), _spots(1)

# --- verbs ----------------------------------------------------------------------------------------

ACTS, CHANGES, PASTIMES, DEEDS = map(verbs, ("acts", "changes", "pastimes", "deeds"))
THOUGHTS, EVENTS, STATES, NEEDS = map(verbs, ("thoughts", "events", "states", "needs"))
GIVING, MOVING, SAYING, TRYING = map(verbs, ("giving", "moving", "saying", "trying"))
WEATHER, LIVING = map(verbs, ("weather", "living"))
(BE,), (BELONG,) = verbs("be").values(), verbs("belong").values()
VERBS = ACTS | CHANGES | PASTIMES | DEEDS | THOUGHTS | EVENTS | STATES | NEEDS | GIVING | MOVING
ERRANDS, TASKS, RELATED = (
    {name: VERBS[name] for name in WORDS["selections"][selection].split(", ")}
    for selection in ("errands", "tasks", "related")
)
"""Verbs of errands, of tasks (try to, forget to), and of relative clauses on objects."""
