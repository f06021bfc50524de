"""Random sentences: types of clauses, and recursion, less probable with each level."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

from regard.tour.toy_language import lexicon, phrases
from regard.tour.toy_language.lexicon import (
    ASKING,
    BELONGINGS,
    HARDSHIPS,
    MEANS,
    MOODS,
    PEOPLE,
    QUALITIES,
)
from regard.tour.toy_language.phrases import (
    COUNTED,
    PLURAL,
    SINGULAR,
    Scene,
    begin,
    described,
    ends_late,
    errand,
    timeless,
    with_object,
    with_place,
)
from regard.tour.toy_language.tree import (
    Adjunct,
    Clause,
    Gap,
    Nominal,
    NounPhrase,
    Pronoun,
    Sentence,
    Tense,
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
    return replace(clause, place=phrases.spot(dice, clause.verb.places))


def giving(dice: Random, scene: Scene) -> Clause:
    """gives a book to the child."""
    clause = begin(dice, scene, lexicon.GIVING, DOING)
    receiver = phrases.draw_other(dice, _PEOPLE, clause.subject, known=True)
    return with_object(dice, replace(clause, receiver=receiver))


def moving(dice: Random, scene: Scene) -> Clause:
    """travels to the city by train · runs to the market to buy an apple."""
    clause = begin(dice, scene, lexicon.MOVING, DOING)
    if phrases.is_animal(scene.noun or phrases.noun_of(clause.subject)):
        return replace(clause, place=phrases.goal(dice, ANIMAL_GOALS))
    if clause.verb is lexicon.MOVING["travel"]:
        means = dice.choice(_MEANS)
        return replace(clause, place=phrases.goal(dice, JOURNEYS), means=means)
    aim = errand(dice, clause.subject, lexicon.ERRANDS) if dice.random() < 0.3 else None
    return replace(clause, place=phrases.goal(dice, GOALS), aim=aim)


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
    animal = phrases.is_animal(scene.noun or phrases.noun_of(clause.subject))
    return described(dice, replace(clause, verb=lexicon.BE), HARDSHIPS if animal else MOODS)


def describing(dice: Random, scene: Scene) -> Clause:
    """This book is very interesting · The car belongs to my uncle."""
    noun = scene.noun or dice.choice(_BELONGINGS)
    subject = scene.subject or phrases.noun_phrase(dice, noun, known=True)
    tenses: tuple[Tense, ...] = ("past",) if scene.past else ("present", "present", "past")
    clause = Clause(subject, lexicon.BE, dice.choice(tenses))
    if dice.random() < 0.65:
        return described(dice, clause, QUALITIES[noun.kind])
    owner = phrases.draw_other(dice, _PEOPLE, subject, known=True)
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
    verbs = lexicon.ACTS if phrases.is_animal(scene.noun) else lexicon.PASTIMES
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


REASONS: dict[Tense, tuple[str, ...]] = {
    "present": ("because", "when", "when"),
    "progressive": ("because", "because", "although"),
    "past": ("although", "when", "when"),
    "will": ("because", "if"),
    "going to": ("because", "if"),
    "can": ("if",),
    "must": ("because", "although"),
    "should": ("if",),
    "want to": ("because", "although"),
    "allowed to": ("if",),
    "like to": ("because", "when", "when"),
}
"""The conjunctions that may follow a clause, by its tense."""
BODILY = frozenset((lexicon.ACTS | lexicon.CHANGES).values())
ACTIONS = BODILY | frozenset(
    verb
    for table in (
        lexicon.PASTIMES,
        lexicon.DEEDS,
        lexicon.THOUGHTS,
        lexicon.EVENTS,
        lexicon.GIVING,
        lexicon.MOVING,
    )
    for verb in table.values()
)


def sentence(dice: Random) -> Sentence:
    roll = dice.random()
    if roll < 0.1:
        return question(dice)
    clause = statement(dice, Scene())
    scene = same_subject(clause, depth=1) if roll < 0.17 and is_plain_action(clause) else None
    if scene:
        contrasts = (hardship,) if scene.past else (hardship, refusal)
        return Sentence(clause, but=dice.choice(contrasts)(dice, scene))
    return Sentence(clause)


def question(dice: Random) -> Sentence:
    """Does the boy sing? · Why is the boy singing?"""
    kinds = act, pastime, deed, giving, moving
    clause = replace(dice.choice(kinds)(dice, Scene(depth=1)), negative=False)
    if (clause.time and clause.time.inner) or dice.random() < 0.5:
        return Sentence(clause, question=True)
    words = ["why"]
    if clause.tense in ("past", "will", "going to"):
        words.append("when")
    if clause.verb.places and clause.tense != "like to":
        words.append("where")
    word = dice.choice(words)
    place = None if word == "where" else clause.place
    clause = replace(clause, time=ASKING[word], fronted="time", place=place)
    return Sentence(clause, question=True)


def statement(dice: Random, scene: Scene) -> Clause:
    """Any clause; its nouns may be told apart by another, and another may give its reason."""
    (kind,) = dice.choices(KINDS, cum_weights=WEIGHTS)
    clause = with_relatives(dice, kind(dice, scene), scene.depth)
    if is_plain_action(clause) and dice.random() < 0.35 / (1 + scene.depth):
        return with_reason(dice, clause, scene.depth)
    return clause


def saying(dice: Random, scene: Scene) -> Clause:
    """thinks that ... : any clause."""
    clause = begin(dice, scene, lexicon.SAYING, ("state", "state", "past"))
    content = statement(dice, Scene(scene.depth + 1, past=clause.tense == "past"))
    return replace(timeless(clause) if ends_late(clause) else clause, content=content)


_WEIGHED: dict[Callable[[Random, Scene], Clause], int] = {
    act: 12,
    change: 8,
    pastime: 24,
    deed: 16,
    thought: 4,
    event: 9,
    state: 7,
    giving: 9,
    moving: 9,
    living: 2,
    trying: 2,
    mood: 2,
    describing: 2,
    saying: 8,
}
KINDS, WEIGHTS = tuple(_WEIGHED), tuple(accumulate(_WEIGHED.values()))


# --- relative clauses -----------------------------------------------------------------------------


def with_relatives(dice: Random, clause: Clause, depth: int) -> Clause:
    """The object gets one only if nothing follows that a relative clause could swallow."""
    subject, object_ = with_relative(dice, clause.subject, depth), clause.object
    follows = clause.place or clause.receiver or ends_late(clause) or clause.tense == "like to"
    if object_ and not follows:
        object_ = with_relative(dice, object_, depth)
    if subject is clause.subject and object_ is clause.object:
        return clause
    return replace(clause, subject=subject, object=object_)


def with_relative(dice: Random, node: Nominal, depth: int) -> Nominal:
    if not isinstance(node, NounPhrase) or node.determiner not in SINGULAR + PLURAL:
        return node
    if node.noun.kind == "mass" or dice.random() > 0.2 / (1 + 2 * depth):
        return node
    inside = relative(dice, node, depth + 1)
    return replace(node, relative=with_relatives(dice, inside, depth + 1)) if inside else node


def relative(dice: Random, node: NounPhrase, depth: int) -> Clause | None:
    """who lives in the village · that is too big · that my sister has lost."""
    gap, roll = Gap(node.noun, node.plural), dice.random()
    scene = Scene(depth, subject=gap, noun=node.noun)
    if node.noun.kind == "animals" and roll < 0.5:
        return dice.choice((act, mood))(dice, scene)
    if node.noun.kind in ("adults", "children") and roll < 0.6:
        return dice.choice((act, pastime, living))(dice, scene)
    if node.noun in BELONGINGS.values() and not node.adjective and roll < 0.3:
        return describing(dice, scene)
    suited = {name: v for name, v in lexicon.RELATED.items() if node.noun in v.objects}
    if not suited:
        return None
    clause = begin(dice, Scene(depth), suited, ("past", "past", "perfect"))
    if clause.verb in lexicon.STATES.values():
        tenses: tuple[Tense, ...] = ("present", "past")
        clause = replace(timeless(clause), tense=dice.choice(tenses))
    return replace(clause, object=gap)


# --- reasons and occasions ------------------------------------------------------------------------


def with_reason(dice: Random, clause: Clause, depth: int) -> Clause:
    """because she is tired · although it is raining · when the teacher came back."""
    if clause.tense not in REASONS:
        return clause
    conjunction = dice.choice(REASONS[clause.tense])
    first = depth == 0 and not clause.fronted and dice.random() < 0.35
    return replace(
        clause,
        adjunct=Adjunct(conjunction, reason(dice, clause, conjunction, depth + 1)),
        fronted="adjunct" if first else clause.fronted,
    )


def reason(dice: Random, clause: Clause, conjunction: str, depth: int) -> Clause:
    scene, past = same_subject(clause, depth), clause.tense == "past"
    if conjunction == "when" and past:
        return occasion(dice)
    if scene is None or dice.random() < 0.25:
        if past:
            return weather(dice, "past")
        return weather(dice, "present" if conjunction in ("if", "when") else "progressive")
    if conjunction == "because":
        return (condition if clause.verb in BODILY else wish)(dice, scene)
    return (hardship if conjunction == "although" else condition)(dice, scene)


def same_subject(clause: Clause, depth: int) -> Scene | None:
    """The scene of another clause about the same subject, which a pronoun takes up."""
    pronoun = phrases.pronoun_for(clause.subject)
    past = clause.tense in ("past", "perfect")
    return Scene(depth, past, pronoun, phrases.noun_of(clause.subject)) if pronoun else None


def is_plain_action(clause: Clause) -> bool:
    """An action by itself, to which a reason or a contrast can be added."""
    nested = isinstance(clause.object, NounPhrase) and clause.object.relative
    return clause.verb in ACTIONS and not (clause.aim or clause.adjunct or nested)
