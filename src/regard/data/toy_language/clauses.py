"""Random sentences: kinds of clauses, nested with a probability that falls with depth."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

from regard.data.toy_language import lexicon, phrases, syntax_tree
from regard.data.toy_language.phrases import Scene, draw_clause, timeless, with_object, with_place
from regard.data.toy_language.syntax_tree import (
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
"""Styles (tense and time) of each kind of clause: nobody is busy losing a key."""

FAMILIAR = tuple(lexicon.STATES[name] for name in ("know", "like", "love"))
GOALS = ("nature", "water", "town", "shops", "travel", "books", "culture", "work", "dining", "home")
ANIMAL_GOALS = ("nature", "water", "home")
JOURNEYS = ("town", "town", "work", "books", "culture", "shops")
_PEOPLE, _BELONGINGS = tuple(lexicon.PEOPLE.values()), tuple(lexicon.BELONGINGS.values())
_WEATHER, _MEANS = tuple(lexicon.WEATHER.values()), tuple(lexicon.MEANS.values())


def _kind(
    verbs: dict[str, lexicon.Verb], styles: tuple[str, ...], *, places: bool = True
) -> Callable[[Random, Scene], Clause]:
    """Kind of clause: a verb in one of the styles, its object, and optionally a place."""

    def draw(dice: Random, scene: Scene) -> Clause:
        clause = with_object(dice, draw_clause(dice, scene, verbs, styles))
        return with_place(dice, clause) if places else clause

    return draw


act = _kind(lexicon.ACTS, ENJOYING)  # sleeps in the garden
change = _kind(lexicon.CHANGES, CHANGING)  # wakes up
pastime = _kind(lexicon.PASTIMES, ENJOYING)  # reads a book in the park
deed = _kind(lexicon.DEEDS, DOING)  # opens the window
thought = _kind(lexicon.THOUGHTS, MUSING, places=False)  # dreams of the horse
event = _kind(lexicon.EVENTS, HAPPENING)  # loses the ball


def state(dice: Random, scene: Scene) -> Clause:
    """State: needs a coat · likes the coat (a known object, hence definite)."""
    clause = with_object(dice, timeless(draw_clause(dice, scene, lexicon.STATES, LASTING)))
    node, known = clause.object, clause.verb in FAMILIAR
    if known and isinstance(node, NounPhrase) and node.determiner in ("a", *phrases.COUNTED):
        return replace(clause, object=replace(node, determiner="the"))
    return clause


def living(dice: Random, scene: Scene) -> Clause:
    """Home: lives in a small village."""
    clause = timeless(draw_clause(dice, scene, lexicon.LIVING, LASTING))
    return replace(clause, place=phrases.spot(dice, clause.verb.places))


def giving(dice: Random, scene: Scene) -> Clause:
    """Gift: gives a book to the child."""
    clause = draw_clause(dice, scene, lexicon.GIVING, DOING)
    receiver = phrases.draw_other(dice, _PEOPLE, clause.subject, known=True)
    return with_object(dice, replace(clause, receiver=receiver))


def moving(dice: Random, scene: Scene) -> Clause:
    """Motion: travels to the city by train · runs to the market to buy an apple."""
    clause = draw_clause(dice, scene, lexicon.MOVING, DOING)
    if phrases.is_animal(scene.noun or phrases.noun_of(clause.subject)):
        return replace(clause, place=phrases.goal(dice, ANIMAL_GOALS))
    if clause.verb is lexicon.MOVING["travel"]:
        means = dice.choice(_MEANS)
        return replace(clause, place=phrases.goal(dice, JOURNEYS), means=means)
    aim = phrases.errand(dice, clause.subject, lexicon.ERRANDS) if dice.random() < 0.3 else None
    return replace(clause, place=phrases.goal(dice, GOALS), aim=aim)


def trying(dice: Random, scene: Scene) -> Clause:
    """Attempt: tries to open the door."""
    clause = draw_clause(dice, scene, lexicon.TRYING, HAPPENING)
    task = phrases.errand(dice, clause.subject, lexicon.TASKS)
    return replace(timeless(clause) if phrases.ends_late(clause) else clause, task=task)


def mood(dice: Random, scene: Scene) -> Clause:
    """Mood: is very tired · is hungry."""
    clause = draw_clause(dice, scene, lexicon.NEEDS, ("state", "past"))
    if dice.random() < 0.35:
        return clause
    animal = phrases.is_animal(scene.noun or phrases.noun_of(clause.subject))
    moods = lexicon.HARDSHIPS if animal else lexicon.MOODS
    return phrases.described(dice, replace(clause, verb=lexicon.BE), moods)


def describing(dice: Random, scene: Scene) -> Clause:
    """Description: This book is very interesting · The car belongs to my uncle."""
    noun = scene.noun or dice.choice(_BELONGINGS)
    subject = scene.subject or phrases.noun_phrase(dice, noun, known=True)
    tenses: tuple[Tense, ...] = ("past",) if scene.past else ("present", "present", "past")
    clause = Clause(subject, lexicon.BE, dice.choice(tenses))
    if dice.random() < 0.65:
        return phrases.described(dice, clause, lexicon.QUALITIES[noun.kind])
    owner = phrases.draw_other(dice, _PEOPLE, subject, known=True)
    return replace(clause, verb=lexicon.BELONG, object=owner)


# --- clauses that go with another -----------------------------------------------------------------


def condition(dice: Random, scene: Scene) -> Clause:
    """Mood at the time of another clause."""
    tense: Tense = "past" if scene.past else "present"
    return timeless(replace(mood(dice, scene), tense=tense, negative=False))


def hardship(dice: Random, scene: Scene) -> Clause:
    clause = condition(dice, scene)
    return phrases.described(dice, clause, lexicon.HARDSHIPS) if clause.predicate else clause


def wish(dice: Random, scene: Scene) -> Clause:
    """Wish: wants to buy a coat · must help her friend."""
    verbs = lexicon.ACTS if phrases.is_animal(scene.noun) else lexicon.PASTIMES
    clause = draw_clause(dice, scene, verbs, ("state",))
    tenses: tuple[Tense, ...] = ("want to", "want to", "must")
    clause = replace(clause, tense=dice.choice(tenses), negative=False)
    return with_place(dice, with_object(dice, clause))


def refusal(dice: Random, scene: Scene) -> Clause:
    """Refusal: does not want to dance · cannot sleep."""
    clause = draw_clause(dice, scene, lexicon.ACTS, ("state",))
    tenses: tuple[Tense, ...] = ("want to", "can")
    return with_place(dice, replace(clause, tense=dice.choice(tenses), negative=True))


def occasion(dice: Random) -> Clause:
    """Occasion: when the teacher came back."""
    clause = draw_clause(dice, Scene(depth=1, past=True), lexicon.CHANGES, ())
    return timeless(replace(clause, negative=False))


def weather(dice: Random, tense: Tense) -> Clause:
    """Weather: it is raining."""
    return Clause(Pronoun("it"), dice.choice(_WEATHER), tense)


REASONS = {tense: words.split() for tense, words in lexicon.WORDS["reasons"].items()}
"""Conjunctions that may follow a clause, by its tense."""
BODILY = frozenset((lexicon.ACTS | lexicon.CHANGES).values())
_OTHERS = lexicon.PASTIMES, lexicon.DEEDS, lexicon.THOUGHTS, lexicon.EVENTS, lexicon.GIVING
ACTIONS = BODILY.union(*(verbs.values() for verbs in (*_OTHERS, lexicon.MOVING)))


def sentence(dice: Random) -> Sentence:
    """Draw a random sentence."""
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
    """Question: Does the boy sing? · Why is the boy singing?"""
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
    clause = replace(clause, time=lexicon.ASKING[word], fronted="time", place=place)
    return Sentence(clause, question=True)


def statement(dice: Random, scene: Scene) -> Clause:
    """Clause of any kind, optionally with relative clauses and with a reason."""
    (kind,) = dice.choices(KINDS, cum_weights=WEIGHTS)
    clause = with_relatives(dice, kind(dice, scene), scene.depth)
    if is_plain_action(clause) and dice.random() < 0.35 / (1 + scene.depth):
        return with_reason(dice, clause, scene.depth)
    return clause


def saying(dice: Random, scene: Scene) -> Clause:
    """Statement with a clause of any kind: thinks that …"""
    clause = draw_clause(dice, scene, lexicon.SAYING, ("state", "state", "past"))
    content = statement(dice, Scene(scene.depth + 1, past=clause.tense == "past"))
    return replace(timeless(clause) if phrases.ends_late(clause) else clause, content=content)


_WEIGHED: dict[Callable[[Random, Scene], Clause], int] = {
    **{act: 12, change: 8, pastime: 24, deed: 16, thought: 4, event: 9, state: 7, giving: 9},
    **{moving: 9, living: 2, trying: 2, mood: 2, describing: 2, saying: 8},
}
KINDS, WEIGHTS = tuple(_WEIGHED), tuple(accumulate(_WEIGHED.values()))


# --- relative clauses -----------------------------------------------------------------------------


def with_relatives(dice: Random, clause: Clause, depth: int) -> Clause:
    """Clause with relative clauses on its subject and, if nothing follows, on its object."""
    subject, object_ = with_relative(dice, clause.subject, depth), clause.object
    late = phrases.ends_late(clause) or clause.tense == "like to"
    if object_ and not (clause.place or clause.receiver or late):
        object_ = with_relative(dice, object_, depth)
    if subject is clause.subject and object_ is clause.object:
        return clause
    return replace(clause, subject=subject, object=object_)


def with_relative(dice: Random, node: Nominal, depth: int) -> Nominal:
    if not isinstance(node, NounPhrase) or node.determiner not in phrases.SINGULAR + phrases.PLURAL:
        return node
    if node.noun.kind == "mass" or dice.random() > 0.2 / (1 + 2 * depth):
        return node
    inside = relative(dice, node, depth + 1)
    return replace(node, relative=with_relatives(dice, inside, depth + 1)) if inside else node


def relative(dice: Random, node: NounPhrase, depth: int) -> Clause | None:
    """Relative clause: who lives in the village · that is too big · that my sister has lost."""
    gap, roll = Gap(node.noun, node.plural), dice.random()
    scene = Scene(depth, subject=gap, noun=node.noun)
    if node.noun.kind == "animals" and roll < 0.5:
        return dice.choice((act, mood))(dice, scene)
    if node.noun.kind in ("adults", "children") and roll < 0.6:
        return dice.choice((act, pastime, living))(dice, scene)
    if node.noun in lexicon.BELONGINGS.values() and not node.adjective and roll < 0.3:
        return describing(dice, scene)
    suited = {name: v for name, v in lexicon.RELATED.items() if node.noun in v.objects}
    if not suited:
        return None
    clause = draw_clause(dice, Scene(depth), suited, ("past", "past", "perfect"))
    if clause.verb in lexicon.STATES.values():
        tenses: tuple[Tense, ...] = ("present", "past")
        clause = replace(timeless(clause), tense=dice.choice(tenses))
    return replace(clause, object=gap)


# --- reasons and occasions ------------------------------------------------------------------------


def with_reason(dice: Random, clause: Clause, depth: int) -> Clause:
    """Clause with a reason: because she is tired · although it is raining."""
    if clause.tense not in REASONS:
        return clause
    conjunction = dice.choice(REASONS[clause.tense])
    first = depth == 0 and not clause.fronted and dice.random() < 0.35
    adjunct = syntax_tree.Adjunct(conjunction, reason(dice, clause, conjunction, depth + 1))
    return replace(clause, adjunct=adjunct, fronted="adjunct" if first else clause.fronted)


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
    """Scene of another clause about the same subject, as a pronoun."""
    pronoun = phrases.pronoun_for(clause.subject)
    past = clause.tense in ("past", "perfect")
    return Scene(depth, past, pronoun, phrases.noun_of(clause.subject)) if pronoun else None


def is_plain_action(clause: Clause) -> bool:
    """Whether a clause is an action to which a reason or a contrast can be added."""
    nested = isinstance(clause.object, NounPhrase) and clause.object.relative
    return clause.verb in ACTIONS and not (clause.aim or clause.adjunct or nested)
