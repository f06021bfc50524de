"""Types of clauses."""

from dataclasses import replace
from random import Random

from regard.data.toy_language.grammar.tree import Clause, NounPhrase, Pronoun, Tense
from regard.data.toy_language.lexicon import verbs as lexicon
from regard.data.toy_language.lexicon.adjectives import HARDSHIPS, MOODS, QUALITIES
from regard.data.toy_language.lexicon.expressions import MEANS
from regard.data.toy_language.lexicon.nouns import BELONGINGS, PEOPLE
from regard.data.toy_language.sampling import naming
from regard.data.toy_language.sampling.steps import (
    COUNTED,
    Scene,
    begin,
    described,
    ends_late,
    errand,
    timeless,
    with_object,
    with_place,
)

DOING = ("habit", "now", "now", "past", "past", "past", "perfect", "future", "plan", "plan")
ENJOYING = (*DOING, "like")
CHANGING = ("habit", "past", "past", "perfect", "future", "plan")
MUSING = ("often", "now", "now", "past")
HAPPENING = ("often", "past", "past", "perfect")
LASTING = ("state", "state", "state", "past")
"""How each kind is told: nobody is busy losing a key, or likes to wake up."""

FAMILIAR = tuple(lexicon.STATES[name] for name in ("know", "like", "love"))
GOALS = ("nature", "water", "town", "shops", "travel", "books", "culture", "work", "dining", "home")
ANIMAL_GOALS = ("nature", "water", "home")
JOURNEYS = ("town", "town", "work", "books", "culture", "shops")
_PEOPLE, _BELONGINGS = tuple(PEOPLE.values()), tuple(BELONGINGS.values())
_WEATHER, _MEANS = tuple(lexicon.WEATHER.values()), tuple(MEANS.values())


def act(dice: Random, scene: Scene) -> Clause:
    """sleeps in the garden."""
    return with_place(dice, begin(dice, scene, lexicon.ACTS, ENJOYING))


def change(dice: Random, scene: Scene) -> Clause:
    """wakes up."""
    return with_place(dice, begin(dice, scene, lexicon.CHANGES, CHANGING))


def pastime(dice: Random, scene: Scene) -> Clause:
    """reads a book in the park."""
    return with_place(dice, with_object(dice, begin(dice, scene, lexicon.PASTIMES, ENJOYING)))


def deed(dice: Random, scene: Scene) -> Clause:
    """opens the window."""
    return with_place(dice, with_object(dice, begin(dice, scene, lexicon.DEEDS, DOING)))


def thought(dice: Random, scene: Scene) -> Clause:
    """dreams of the horse."""
    return with_object(dice, begin(dice, scene, lexicon.THOUGHTS, MUSING))


def event(dice: Random, scene: Scene) -> Clause:
    """loses the ball."""
    return with_place(dice, with_object(dice, begin(dice, scene, lexicon.EVENTS, HAPPENING)))


def state(dice: Random, scene: Scene) -> Clause:
    """needs a coat · likes the coat, which must be known."""
    clause = with_object(dice, timeless(begin(dice, scene, lexicon.STATES, LASTING)))
    node, known = clause.object, clause.verb in FAMILIAR
    if known and isinstance(node, NounPhrase) and node.determiner in ("a", *COUNTED):
        return replace(clause, object=replace(node, determiner="the"))
    return clause


def living(dice: Random, scene: Scene) -> Clause:
    """lives in a small village."""
    clause = timeless(begin(dice, scene, lexicon.LIVING, LASTING))
    return replace(clause, place=naming.spot(dice, clause.verb.places))


def giving(dice: Random, scene: Scene) -> Clause:
    """gives a book to the child."""
    clause = begin(dice, scene, lexicon.GIVING, DOING)
    receiver = naming.other(dice, _PEOPLE, clause.subject, known=True)
    return with_object(dice, replace(clause, receiver=receiver))


def moving(dice: Random, scene: Scene) -> Clause:
    """travels to the city by train · runs to the market to buy an apple."""
    clause = begin(dice, scene, lexicon.MOVING, DOING)
    if naming.is_animal(scene.noun or naming.noun_of(clause.subject)):
        return replace(clause, place=naming.goal(dice, ANIMAL_GOALS))
    if clause.verb is lexicon.MOVING["travel"]:
        means = dice.choice(_MEANS)
        return replace(clause, place=naming.goal(dice, JOURNEYS), means=means)
    aim = errand(dice, clause.subject, lexicon.ERRANDS) if dice.random() < 0.3 else None
    return replace(clause, place=naming.goal(dice, GOALS), aim=aim)


def trying(dice: Random, scene: Scene) -> Clause:
    """tries to open the door."""
    clause = begin(dice, scene, lexicon.TRYING, HAPPENING)
    task = errand(dice, clause.subject, lexicon.TASKS)
    return replace(timeless(clause) if ends_late(clause) else clause, task=task)


def mood(dice: Random, scene: Scene) -> Clause:
    """is very tired · is hungry."""
    clause = begin(dice, scene, lexicon.NEEDS, ("state", "past"))
    if dice.random() < 0.35:
        return clause
    animal = naming.is_animal(scene.noun or naming.noun_of(clause.subject))
    return described(dice, replace(clause, verb=lexicon.BE), HARDSHIPS if animal else MOODS)


def describing(dice: Random, scene: Scene) -> Clause:
    """This book is very interesting · The car belongs to my uncle."""
    noun = scene.noun or dice.choice(_BELONGINGS)
    subject = scene.subject or naming.noun_phrase(dice, noun, known=True)
    tenses: tuple[Tense, ...] = ("past",) if scene.past else ("present", "present", "past")
    clause = Clause(subject, lexicon.BE, dice.choice(tenses))
    if dice.random() < 0.65:
        return described(dice, clause, QUALITIES[noun.kind])
    owner = naming.other(dice, _PEOPLE, subject, known=True)
    return replace(clause, verb=lexicon.BELONG, object=owner)


# --- clauses that go with another -----------------------------------------------------------------


def condition(dice: Random, scene: Scene) -> Clause:
    """A mood at the time of the other clause."""
    tense: Tense = "past" if scene.past else "present"
    return timeless(replace(mood(dice, scene), tense=tense, negative=False))


def hardship(dice: Random, scene: Scene) -> Clause:
    clause = condition(dice, scene)
    return described(dice, clause, HARDSHIPS) if clause.predicate else clause


def wish(dice: Random, scene: Scene) -> Clause:
    """wants to buy a coat · must help her friend."""
    verbs = lexicon.ACTS if naming.is_animal(scene.noun) else lexicon.PASTIMES
    clause = begin(dice, scene, verbs, ("state",))
    tenses: tuple[Tense, ...] = ("want to", "want to", "must")
    clause = replace(clause, tense=dice.choice(tenses), negative=False)
    return with_place(dice, with_object(dice, clause))


def refusal(dice: Random, scene: Scene) -> Clause:
    """does not want to dance · cannot sleep."""
    clause = begin(dice, scene, lexicon.ACTS, ("state",))
    tenses: tuple[Tense, ...] = ("want to", "can")
    return with_place(dice, replace(clause, tense=dice.choice(tenses), negative=True))


def occasion(dice: Random) -> Clause:
    """when the teacher came back."""
    clause = begin(dice, Scene(depth=1, past=True), lexicon.CHANGES, ())
    return timeless(replace(clause, negative=False))


def weather(dice: Random, tense: Tense) -> Clause:
    """it is raining."""
    return Clause(Pronoun("it"), dice.choice(_WEATHER), tense)
