"""Semantic roles by the rules of srl-eval.pl: worked examples, and a slow scorer word by word."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.entities import LabelledSpan, spans
from regard.metrics.roles import Argument, join_continuations, predicate_f1, role_scores, role_table

LABELS = ("A0", "A1", "R-A0", "C-A0", "C-A1", "V", "C-V")


def frame(*arguments):
    return [LabelledSpan(first, last + 1, label) for first, last, label in arguments]


def values(golds, predicted, **options):
    return {score.name: score.value for score in role_scores(golds, predicted, **options)}


def test_continuations_join_the_last_argument_of_their_label():
    whole = frame((0, 1, "A1"), (3, 3, "V"), (4, 4, "C-A1"), (6, 6, "A1"), (8, 9, "C-A1"))
    assert join_continuations(reversed(whole)) == [
        Argument("A1", ((0, 2), (4, 5))),
        Argument("V", ((3, 4),)),
        Argument("A1", ((6, 7), (8, 10))),
    ]
    assert join_continuations(frame((2, 2, "C-A0"), (4, 4, "A0"))) == [
        Argument("A0", ((2, 3),)),
        Argument("A0", ((4, 5),)),
    ]


def test_a_part_of_a_continued_argument_is_wrong_twice():
    gold = {2: frame((0, 1, "A1"), (2, 2, "V"), (3, 4, "C-A1"), (6, 6, "A0"))}
    half = {2: frame((0, 1, "A1"), (2, 2, "V"), (6, 6, "A0"))}
    scores = values([gold], [half])
    assert scores["precision"] == scores["recall"] == scores["F1"] == 50
    assert scores["perfect frames"] == 0
    assert values([gold], [gold]) == {
        **dict.fromkeys(("precision", "recall", "F1", "perfect frames"), 100)
    }


def test_the_verb_does_not_count_and_references_are_labels():
    gold = {1: frame((0, 0, "A0"), (1, 1, "V"), (3, 3, "C-V"))}
    other = {1: frame((0, 0, "R-A0"), (1, 3, "V"))}
    assert values([gold], [other])["F1"] == 0
    without = {1: frame((0, 0, "A0"))}
    assert values([gold], [without]) == values([gold], [gold])
    table = {score.label: score for score in role_table([gold], [other])}
    assert {*table} == {"A0", "R-A0"}
    assert (table["A0"].count, table["A0"].recall, table["R-A0"].precision) == (1, 0, 0)


def test_missed_frames_miss_all_arguments_and_excess_frames_are_left_out():
    gold = {1: frame((0, 0, "A0"), (1, 1, "V")), 4: frame((3, 3, "A0"), (4, 4, "V"))}
    found = {1: gold[1], 6: frame((5, 5, "A0"))}
    scores = values([gold], [found])
    assert (scores["precision"], scores["recall"], scores["perfect frames"]) == (100, 50, 50)
    (score,) = predicate_f1([gold], [found])
    assert (score.name, score.value) == ("predicate F1", 50)


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(BadInput, match="frames for 1 of 2 sentences"):
        role_scores([{}, {}], [{}])
    with pytest.raises(BadInput, match="no sentences"):
        role_scores([], [])
    assert values([{}], [{}])["F1"] == 0


def test_intervals_resample_sentences():
    gold = {1: frame((0, 0, "A0"), (1, 1, "V"))}
    golds, predicted = [gold] * 40, [gold, {}] * 20
    by_name = {score.name: score for score in role_scores(golds, predicted, with_interval=True)}
    low, high = by_name["recall"].interval
    assert low < by_name["recall"].value == 50 < high
    assert by_name["recall"].signature.startswith("sentences:40|predicates:40|arguments:40|bs:")
    assert by_name["F1"].statistics is not None


class SlowScorer:
    """The script as a walk over words: the pieces of an argument are found for every label."""

    def __init__(self):
        self.correct = self.excess = self.missed = self.perfect = self.frames = 0

    @staticmethod
    def pieces(tags, label):
        """(first, last) of every piece of that label, by looking at every pair of words."""
        found = []
        for first in range(len(tags)):
            for last in range(first, len(tags)):
                inside = all(tag == f"I-{label}" for tag in tags[first + 1 : last + 1])
                ended = last + 1 == len(tags) or tags[last + 1] != f"I-{label}"
                if tags[first] == f"B-{label}" and inside and ended:
                    found.append((first, last))
        return found

    def arguments(self, tags):
        found = []
        for label in ("A0", "A1", "R-A0"):
            heads = [(piece, False) for piece in self.pieces(tags, label)]
            later = [(piece, True) for piece in self.pieces(tags, f"C-{label}")]
            own = []
            for piece, continues in sorted(heads + later):
                if continues and own:
                    own[-1].append(piece)
                else:
                    own.append([piece])
            found += [(label, pieces) for pieces in own]
        return found

    def add(self, gold, predicted):
        ours, theirs = self.arguments(gold), self.arguments(predicted)
        correct = sum(argument in ours for argument in theirs)
        self.correct += correct
        self.excess += len(theirs) - correct
        self.missed += len(ours) - correct
        self.perfect += len(ours) == len(theirs) == correct
        self.frames += 1

    def scores(self):
        named, golden = self.correct + self.excess, self.correct + self.missed
        precision = 100 * self.correct / named if named else 0
        recall = 100 * self.correct / golden if golden else 0
        both = precision + recall
        f1 = 2 * precision * recall / both if both else 0
        perfect = 100 * self.perfect / self.frames
        return {"precision": precision, "recall": recall, "F1": f1, "perfect frames": perfect}


def legal(draw, length):
    """Random BIO tags without an I that continues nothing."""
    tags = []
    while len(tags) < length:
        label = draw.choice([None, *LABELS])
        room = length - len(tags)
        if label is None:
            tags.append("O")
        else:
            tags += [f"B-{label}", *[f"I-{label}"] * draw.randrange(min(room, 3))]
    return tags[:length]


@settings(max_examples=60)
@given(seed=st.integers(0, 10**9), sentences=st.integers(1, 6))
def test_random_frames_score_as_the_slow_scorer_says(seed, sentences):
    draw, slow = random.Random(seed), SlowScorer()
    golds, predicted = [], []
    for _ in range(sentences):
        gold, named = {}, {}
        length = draw.randint(1, 9)
        for place in range(draw.randint(1, 3)):
            tags = legal(draw, length)
            changed = [*tags] if draw.random() < 0.5 else legal(draw, length)
            gold[place], named[place] = spans(tags), spans(changed)
            slow.add(tags, changed)
        golds.append(gold)
        predicted.append(named)
    assert values(golds, predicted) == pytest.approx(slow.scores())
    table = role_table(golds, predicted)
    assert sum(score.count for score in table) == slow.correct + slow.missed
