"""Random sentences: recursive clauses, less probable with each level."""

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random

from regard.data.toy_language.grammar.tree import (
    Adjunct,
    Clause,
    Gap,
    Nominal,
    NounPhrase,
    Sentence,
    Tense,
)
from regard.data.toy_language.lexicon import verbs as lexicon
from regard.data.toy_language.lexicon.expressions import ASKING
from regard.data.toy_language.lexicon.nouns import BELONGINGS
from regard.data.toy_language.sampling import clauses, naming
from regard.data.toy_language.sampling.clauses import Scene
from regard.data.toy_language.sampling.naming import PLURAL, SINGULAR
from regard.data.toy_language.sampling.steps import begin, ends_late, timeless

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
        contrasts = (clauses.hardship,) if scene.past else (clauses.hardship, clauses.refusal)
        return Sentence(clause, but=dice.choice(contrasts)(dice, scene))
    return Sentence(clause)


def question(dice: Random) -> Sentence:
    """Does the boy sing? · Why is the boy singing?"""
    kinds = clauses.act, clauses.pastime, clauses.deed, clauses.giving, clauses.moving
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
    clauses.act: 12,
    clauses.change: 8,
    clauses.pastime: 24,
    clauses.deed: 16,
    clauses.thought: 4,
    clauses.event: 9,
    clauses.state: 7,
    clauses.giving: 9,
    clauses.moving: 9,
    clauses.living: 2,
    clauses.trying: 2,
    clauses.mood: 2,
    clauses.describing: 2,
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
        return dice.choice((clauses.act, clauses.mood))(dice, scene)
    if node.noun.kind in ("adults", "children") and roll < 0.6:
        return dice.choice((clauses.act, clauses.pastime, clauses.living))(dice, scene)
    if node.noun in BELONGINGS.values() and not node.adjective and roll < 0.3:
        return clauses.describing(dice, scene)
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
        return clauses.occasion(dice)
    if scene is None or dice.random() < 0.25:
        if past:
            return clauses.weather(dice, "past")
        return clauses.weather(dice, "present" if conjunction in ("if", "when") else "progressive")
    if conjunction == "because":
        return (clauses.condition if clause.verb in BODILY else clauses.wish)(dice, scene)
    return (clauses.hardship if conjunction == "although" else clauses.condition)(dice, scene)


def same_subject(clause: Clause, depth: int) -> Scene | None:
    """The scene of another clause about the same subject, which a pronoun takes up."""
    pronoun = naming.pronoun_for(clause.subject)
    past = clause.tense in ("past", "perfect")
    return Scene(depth, past, pronoun, naming.noun_of(clause.subject)) if pronoun else None


def is_plain_action(clause: Clause) -> bool:
    """An action by itself, to which a reason or a contrast can be added."""
    nested = isinstance(clause.object, NounPhrase) and clause.object.relative
    return clause.verb in ACTIONS and not (clause.aim or clause.adjunct or nested)
