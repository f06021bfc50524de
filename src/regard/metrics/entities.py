"""Entity spans from tags such as B-PER, and their F1 as in the CoNLL-2003 scorer.

Tags of all schemes are read by the rules of that scorer for B and I, extended to E (L) and S (U);
they also cover invalid sequences.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from regard.core.errors import BadInput
from regard.metrics.classification import ITEM_MEASURES, LabelScore, label_table, share_scores
from regard.metrics.translation import MetricScore

SCHEMES = {
    "IOB1": ("I", "I", "I", "I"),
    "IOB2": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
}
"""How a scheme marks the first, an inner, the last and the only word of an entity.

Where two entities of one label touch, IOB1 marks the first word of the second one as B.
"""
OUTSIDE = "O"
_ALWAYS_FIRST, _ALWAYS_LAST = frozenset("BSU"), frozenset("ESLU")
_MARKS = frozenset("BIESLU")


class LabelledSpan(NamedTuple):
    """Words ``start`` to ``end`` (exclusive), counted from 0, and the label."""

    start: int
    end: int
    label: str


def spans(tags: Sequence[str]) -> list[LabelledSpan]:
    """The entities of a tag sequence.

    An entity begins where the label changes, after an outside or last word, and at a word that can
    only be first; it ends before the next entity or outside word.
    """
    entities: list[LabelledSpan] = []
    last_mark, last_label = _parsed(OUTSIDE)
    for place, (mark, label) in enumerate(map(_parsed, tags)):
        cut = mark in _ALWAYS_FIRST or last_mark in _ALWAYS_LAST or label != last_label
        if label is not None and cut:
            entities.append(LabelledSpan(place, place + 1, label))
        elif label is not None:
            entities[-1] = entities[-1]._replace(end=place + 1)
        last_mark, last_label = mark, label
    return entities


def to_scheme(tags: Sequence[str], scheme: str) -> list[str]:
    """The tags of the same entities in ``scheme``."""
    return tags_of(spans(tags), len(tags), scheme)


def tags_of(entities: Iterable[LabelledSpan], words: int, scheme: str) -> list[str]:
    """The tags of a sentence of ``words`` words; entities must not overlap."""
    if scheme not in SCHEMES:
        raise BadInput(f"tags: no scheme {scheme!r}; there are {', '.join(SCHEMES)}")
    first, inner, last, only = SCHEMES[scheme]
    tags = [OUTSIDE] * words
    closed = set()
    for start, end, label in sorted(entities):
        marks = [first, *[inner] * (end - start - 2), last] if end - start > 1 else [only]
        if scheme == "IOB1" and (start, label) in closed:
            marks[0] = "B"
        tags[start:end] = [_written(mark, label) for mark in marks]
        closed.add((end, label))
    return tags


def scheme_tags(tags: Iterable[str], scheme: str) -> set[str]:
    """All tags of ``scheme`` for the labels of these tags, and the tag of outside words."""
    labels = {label for _, label in map(_parsed, tags) if label is not None}
    marks = {"B", *SCHEMES[scheme]}  # IOB1 has B too, where entities touch
    return {OUTSIDE, *(_written(mark, label) for mark in marks for label in labels)}


def entity_scores(
    golds: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], with_interval: bool = False
) -> list[MetricScore]:
    """Precision, recall and F1 over the entities of all sentences, in percent.

    An entity is correct if its words and its label are. Each sentence is a list of tags.
    """
    sentences = _entities(golds, predicted)
    counts = [(len(gold & named), len(gold), len(named)) for gold, named in sentences]
    entities = sum(gold for _, gold, _ in counts)
    signature = f"sentences:{len(golds)}|entities:{entities}"
    return share_scores(ITEM_MEASURES, np.array(counts, dtype=np.float64), signature, with_interval)


def entity_table(
    golds: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[LabelScore]:
    """The scores of each label that occurs, sorted."""
    return label_table(_entities(golds, predicted))


def _entities(
    golds: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[tuple[set[LabelledSpan], set[LabelledSpan]]]:
    """The gold and the predicted entities of each sentence."""
    if len(golds) != len(predicted):
        raise BadInput(f"tags for {len(predicted)} sentences, but there are {len(golds)} sentences")
    if not golds:
        raise BadInput("no sentences to score against")
    for number, (gold, prediction) in enumerate(zip(golds, predicted, strict=True), start=1):
        if len(gold) != len(prediction):
            raise BadInput(f"sentence {number}: {len(prediction)} tags for {len(gold)} words")
    pairs = zip(golds, predicted, strict=True)
    return [({*spans(gold)}, {*spans(prediction)}) for gold, prediction in pairs]


def _parsed(tag: str) -> tuple[str, str | None]:
    """Prefix and label of a tag; None for an outside word, "" for a tag without a label."""
    if tag == OUTSIDE:
        return tag, None
    mark, _, label = tag.partition("-")
    if mark not in _MARKS:
        raise BadInput(f"tag {tag!r} is neither O nor a mark and a label such as B-PER or I-PER")
    return mark, label


def _written(mark: str, label: str) -> str:
    return f"{mark}-{label}" if label else mark
