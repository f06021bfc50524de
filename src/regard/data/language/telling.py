"""What is said of them: clauses and sentences drawn at random, of parts that go together."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from random import Random

from regard.data.language import lexicon, naming
from regard.data.language.entries import Adjective, Expression, Noun, Verb
from regard.data.language.lexicon import (
    ACTS,
    BE,
    CHANGES,
    DEEDS,
    EVENTS,
    GIVING,
    LIVING,
    MOVING,
    PASTIMES,
    SAYING,
    STATES,
)
from regard.data.language.tree import Adjunct, Clause, Gap, Nominal, NounPhrase, Pronoun, Sentence

DOING = ("habit", "now", "now", "past", "past", "past", "perfect", "future", "plan", "plan")
ENJOYING = (*DOING, "like")
CHANGING = ("habit", "past", "past", "perfect", "future", "plan")
HAPPENING = ("often", "past", "past", "perfect")
LASTING = ("state", "state", "state", "past")
"""How each kind of verb is told: nobody is busy losing a key, or likes to wake up."""
PLANS = ("can", "must", "should", "want to", "want to", "allowed to")
GOALS = ("nature", "water", "town", "shops", "travel", "books", "culture", "work", "dining", "home")
JOURNEYS = ("town", "town", "work", "books", "culture", "shops")
REASONS = {
    "present": ("because", "when", "when"),
    "progressive": ("because", "because", "although"),
    "past": ("although", "when", "when"),
    "will": ("because", "if"),
    "going to": ("because", "if"),
    "like to": ("because", "when", "when"),
} | dict.fromkeys(PLANS, ("because", "because", "although", "if"))
"""The conjunctions that may follow a clause, by its tense."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a clause already knows when it is drawn."""

    depth: int = 0
    past: bool = False
    """It must be told in the past."""
    subject: Nominal | None = None
    noun: Noun | None = None
    """What the given subject stands for; None for people at large."""


# --- sentences ------------------------------------------------------------------------------------


def sentence(dice: Random) -> Sentence:
    roll = dice.random()
    if roll < 0.1:
        return question(dice)
    clause = statement(dice, Scene())
    scene = next_scene(clause, depth=1) if roll < 0.17 and is_plain_action(clause) else None
    if scene:
        contrast = mood if scene.past else dice.choice((mood, refusal))
        return Sentence(clause, but=timeless(contrast(dice, scene)))
    return Sentence(clause)


def question(dice: Random) -> Sentence:
    """Does the boy sing? · Why is the boy singing?"""
    clause = dice.choice((act, pastime, deed, giving, moving))(dice, Scene(depth=9))
    clause = replace(clause, negative=False)
    if clause.time and clause.time.inner or dice.random() < 0.5:
        return Sentence(clause, question=True)
    word = dice.choice(("why", "when", "where"))
    if word == "when" and clause.tense not in ("past", "will", "going to"):
        word = "why"
    if word == "where" and (not clause.verb.places or clause.tense == "like to"):
        word = "why"
    place = None if word == "where" else clause.place
    asked = replace(clause, time=lexicon.ASKING[word], fronted="time", place=place)
    return Sentence(asked, question=True)


def statement(dice: Random, scene: Scene) -> Clause:
    """Any clause, often with another that gives its reason or occasion."""
    clause = dice.choices(TELLERS, cum_weights=WEIGHTS)[0](dice, scene)
    if is_plain_action(clause) and dice.random() < 0.35 / (1 + scene.depth):
        return with_reason(dice, clause, scene)
    return clause


# --- kinds of clauses -----------------------------------------------------------------------------


def act(dice: Random, scene: Scene) -> Clause:
    return with_place(dice, begin(dice, scene, ACTS, ENJOYING))


def change(dice: Random, scene: Scene) -> Clause:
    return with_place(dice, begin(dice, scene, CHANGES, CHANGING))


def pastime(dice: Random, scene: Scene) -> Clause:
    return with_place(dice, with_object(dice, begin(dice, scene, PASTIMES, ENJOYING), scene))


def deed(dice: Random, scene: Scene) -> Clause:
    return with_place(dice, with_object(dice, begin(dice, scene, DEEDS, DOING), scene))


def event(dice: Random, scene: Scene) -> Clause:
    return with_place(dice, with_object(dice, begin(dice, scene, EVENTS, HAPPENING), scene))


def state(dice: Random, scene: Scene) -> Clause:
    return with_object(dice, timeless(begin(dice, scene, STATES, LASTING)), scene)


def living(dice: Random, scene: Scene) -> Clause:
    clause = timeless(begin(dice, scene, LIVING, LASTING))
    return replace(clause, place=naming.spot(dice, clause.verb.places))


def giving(dice: Random, scene: Scene) -> Clause:
    clause = begin(dice, scene, GIVING, DOING)
    receiver = naming.other(dice, _PEOPLE, clause.subject, known=True)
    return with_object(dice, replace(clause, receiver=receiver), scene)


def moving(dice: Random, scene: Scene) -> Clause:
    """goes to the park · travels to the city by train · runs to the market to buy an apple."""
    clause = begin(dice, scene, MOVING, DOING)
    if clause.verb is MOVING["travel"]:
        means = dice.choice(_MEANS)
        return replace(clause, place=naming.goal(dice, JOURNEYS), means=means)
    clause = replace(clause, place=naming.goal(dice, GOALS))
    if dice.random() < 0.3 and naming.noun_of(clause.subject) not in _ANIMALS:
        return replace(clause, aim=errand(dice, clause.subject, lexicon.ERRANDS))
    return clause


def saying(dice: Random, scene: Scene) -> Clause:
    """The clause inside may hold another: here the language has no bottom."""
    clause = without_late_time(begin(dice, scene, SAYING, ("state", "state", "past")))
    inside = Scene(scene.depth + 1, past=clause.tense == "past")
    return replace(clause, content=statement(dice, inside))


def trying(dice: Random, scene: Scene) -> Clause:
    clause = without_late_time(begin(dice, scene, lexicon.TRYING, HAPPENING))
    return replace(clause, task=errand(dice, clause.subject, lexicon.TASKS))


def mood(dice: Random, scene: Scene) -> Clause:
    """is very tired · is hungry."""
    clause = begin(dice, scene, lexicon.NEEDS, ("state", "past"))
    if dice.random() < 0.35:
        return clause
    is_animal = (scene.noun or naming.noun_of(clause.subject)) in _ANIMALS
    moods = lexicon.ANIMAL_MOODS if is_animal else lexicon.MOODS
    return described(dice, replace(clause, verb=BE), moods)


def describing(dice: Random, scene: Scene) -> Clause:
    """This book is very interesting · The car belongs to my uncle."""
    noun = scene.noun or dice.choice(_BELONGINGS)
    subject = scene.subject or naming.noun_phrase(dice, noun, known=True)
    tense = "past" if scene.past else dice.choice(("present", "present", "past"))
    if dice.random() < 0.35:
        owner = naming.other(dice, _PEOPLE, subject, known=True)
        return Clause(subject, lexicon.BELONG, tense, object=owner)
    return described(dice, Clause(subject, BE, tense), lexicon.QUALITIES[noun.kind])


def described(dice: Random, clause: Clause, qualities: tuple[Adjective, ...]) -> Clause:
    quality = dice.choice(qualities)
    degrees = ("very", "too", "") if quality in lexicon.EXCESSIVE else ("very", "")
    degree = "" if clause.negative else dice.choice(degrees)
    return replace(clause, predicate=quality, degree=degree)


def wish(dice: Random, scene: Scene) -> Clause:
    """wants to buy a coat · must help her friend."""
    verbs = ACTS if scene.noun in _ANIMALS else PASTIMES
    clause = replace(begin(dice, scene, verbs, ("state",)), negative=False)
    clause = replace(clause, tense=dice.choice(("want to", "want to", "must")))
    return with_place(dice, with_object(dice, clause, scene))


def refusal(dice: Random, scene: Scene) -> Clause:
    """does not want to dance · cannot sleep."""
    clause = begin(dice, scene, ACTS, ("state",))
    return with_place(dice, replace(clause, tense=dice.choice(("want to", "can")), negative=True))


def weather(dice: Random, tense: str) -> Clause:
    return Clause(Pronoun("it"), dice.choice(_WEATHER), tense)


Teller = Callable[[Random, Scene], Clause]
_WEIGHED: dict[Teller, int] = {
    act: 12,
    change: 8,
    pastime: 22,
    deed: 20,
    event: 9,
    state: 7,
    giving: 9,
    moving: 9,
    living: 2,
    saying: 7,
    trying: 2,
    mood: 2,
    describing: 2,
}
TELLERS, WEIGHTS = tuple(_WEIGHED), tuple(accumulate(_WEIGHED.values()))
_PEOPLE, _BELONGINGS = tuple(lexicon.PEOPLE.values()), tuple(lexicon.BELONGINGS.values())
_WEATHER, _MEANS = tuple(lexicon.WEATHER.values()), tuple(lexicon.MEANS.values())
_ANIMALS, _STATES = frozenset(lexicon.ANIMALS.values()), frozenset(STATES.values())
_BODILY = frozenset((ACTS | CHANGES | MOVING).values())
_ACTIONS = frozenset((ACTS | CHANGES | PASTIMES | DEEDS | EVENTS | GIVING | MOVING).values())


# --- steps: each adds something to a clause ---------------------------------------------------------


def begin(
    dice: Random, scene: Scene, verbs: dict[str, Verb], styles: tuple[str, ...]
) -> Clause:
    """Subject, verb, tense and time."""
    noun = scene.noun
    verb = dice.choice([v for v in verbs.values() if noun is None or noun in v.subjects])
    subject = scene.subject or with_relative(dice, naming.subject(dice, verb.subjects), scene)
    tense, time = moment(dice, "past" if scene.past else dice.choice(styles), verb)
    late = time is not None and not time.inner
    fronted = "time" if late and scene.depth == 0 and dice.random() < 0.45 else ""
    can_deny = (late or not time) and tense != "like to" and is_definite(subject)
    negative = can_deny and dice.random() < 0.15
    return Clause(subject, verb, tense, negative, time=time, fronted=fronted)


def moment(dice: Random, style: str, verb: Verb) -> tuple[str, Expression | None]:
    """A tense, and perhaps an expression of time that goes with it."""

    def maybe(chance: float, *tables: dict[str, Expression]) -> Expression | None:
        return dice.choice([*dice.choice(tables).values()]) if dice.random() < chance else None

    if style == "past" and verb.english.past == verb.english.base:
        return "perfect", None  # they read: nobody could see that it is past
    match style:
        case "habit":
            return "present", maybe(1.0, lexicon.OFTEN, lexicon.HABITS)
        case "often":
            return "present", maybe(1.0, lexicon.OFTEN)
        case "now":
            return "progressive", maybe(0.4, lexicon.NOW)
        case "past":
            return "past", maybe(0.5, lexicon.PAST)
        case "perfect":
            return "perfect", maybe(0.5, lexicon.ALREADY)
        case "future":
            tense = dice.choice(("will", "will", "going to"))
            return tense, maybe(0.5, lexicon.FUTURE, lexicon.FUTURE, lexicon.SOON)
        case "plan":
            return dice.choice(PLANS), maybe(0.25, lexicon.FUTURE)
        case "like":
            return "like to", None
        case _:
            return "present", None


def with_object(dice: Random, clause: Clause, scene: Scene) -> Clause:
    if not clause.verb.objects:
        return clause
    node = naming.other(dice, clause.verb.objects, clause.subject, known=False)
    if clause.negative and isinstance(node, NounPhrase) and node.determiner in _COUNTED:
        node = replace(node, determiner="the")
    late = clause.time and not clause.time.inner and clause.fronted != "time"
    if not (late or clause.receiver):  # a relative clause would swallow what follows it
        node = with_relative(dice, node, scene)
    return replace(clause, object=node)


def with_place(dice: Random, clause: Clause) -> Clause:
    needed = clause.verb is ACTS["sit"]
    if has_relative(clause.object) or not clause.verb.places:
        return clause
    if not needed and dice.random() < 0.5:
        return clause
    return replace(clause, place=naming.spot(dice, clause.verb.places))


def errand(dice: Random, subject: Nominal, verbs: tuple[Verb, ...]) -> Clause:
    verb = dice.choice(verbs)
    return Clause(subject, verb, object=naming.other(dice, verb.objects, subject))


def timeless(clause: Clause) -> Clause:
    return replace(clause, time=None, fronted="")


def without_late_time(clause: Clause) -> Clause:
    """A time at the end would seem to belong to the clause inside."""
    return clause if clause.fronted or not clause.time or clause.time.inner else timeless(clause)


def with_relative(dice: Random, node: Nominal, scene: Scene) -> Nominal:
    """The man who lives in the village · the book that my sister has lost."""
    if not isinstance(node, NounPhrase) or node.determiner in ("", "every"):
        return node
    if node.noun.kind in ("family", "mass") or dice.random() > 0.18 / (1 + 2 * scene.depth):
        return node
    gap, depth = Gap(node.noun, node.plural), scene.depth + 1
    inside = Scene(depth, subject=gap, noun=node.noun)
    roll = dice.random()
    if node.noun.kind == "animals" and roll < 0.5:
        return replace(node, relative=dice.choice((act, mood))(dice, inside))
    if node.noun.kind in ("adults", "children") and roll < 0.6:
        return replace(node, relative=dice.choice((act, pastime, living))(dice, inside))
    if node.noun in _BELONGINGS and roll < 0.2 and not node.adjective:
        return replace(node, relative=describing(dice, inside))
    verbs = {str(i): v for i, v in enumerate(lexicon.RELATED) if node.noun in v.objects}
    if not verbs:
        return node
    clause = begin(dice, Scene(depth), verbs, ("past", "past", "perfect"))
    if clause.verb in _STATES:
        clause = replace(timeless(clause), tense=dice.choice(("present", "past")))
    return replace(node, relative=replace(clause, object=gap))


def with_reason(dice: Random, clause: Clause, scene: Scene) -> Clause:
    """because she is tired · although it is raining · when the teacher came back."""
    if clause.tense not in REASONS:
        return clause
    conjunction, past = dice.choice(REASONS[clause.tense]), clause.tense == "past"
    follower, roll = next_scene(clause, scene.depth + 1), dice.random()
    if conjunction == "when" and past:
        reason = begin(dice, Scene(9, past=True), CHANGES, ())
    elif follower is None or roll < 0.25:
        now = "present" if conjunction in ("if", "when") else "progressive"
        reason = weather(dice, "past" if past else now)
    elif conjunction == "because" and not past and (roll < 0.6 or clause.verb not in _BODILY):
        reason = wish(dice, follower)
    else:
        reason = replace(mood(dice, follower), negative=False)
        reason = reason if past else replace(reason, tense="present")
    first = scene.depth == 0 and not clause.fronted and dice.random() < 0.35
    fronted = "adjunct" if first else clause.fronted
    return replace(clause, adjunct=Adjunct(conjunction, timeless(reason)), fronted=fronted)


def next_scene(clause: Clause, depth: int) -> Scene | None:
    """The scene of another clause about the same subject."""
    pronoun = naming.pronoun_for(clause.subject)
    past = clause.tense in ("past", "perfect")
    return Scene(depth, past, pronoun, naming.noun_of(clause.subject)) if pronoun else None


def is_plain_action(clause: Clause) -> bool:
    """An action by itself, to which a reason or a contrast can be added."""
    return clause.verb in _ACTIONS and not (
        clause.task or clause.aim or clause.adjunct or has_relative(clause.object)
    )


def has_relative(node: Nominal | None) -> bool:
    return isinstance(node, NounPhrase) and node.relative is not None


def is_definite(node: Nominal) -> bool:
    """The dog does not sleep; but hardly: a dog does not sleep."""
    return not isinstance(node, NounPhrase) or node.determiner not in ("a", *_COUNTED)


_COUNTED = ("two", "three", "many", "every")
