"""German noun phrases, pronouns and fixed expressions, in a given case."""

from regard.data.toy_language.grammar.forms import (
    CONTRACTIONS,
    PERSONAL,
    RELATIVE,
    Agreement,
    adjective_form,
    determiner_form,
    noun_form,
)
from regard.data.toy_language.grammar.tree import (
    Both,
    Clause,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Word,
    Words,
    say,
)
from regard.data.toy_language.lexicon.entries import Case, Expression


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
