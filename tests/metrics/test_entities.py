"""Entities: schemes and spans, against the CoNLL scorer restated as a machine, and seqeval."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.classification import LabelScore
from regard.metrics.entities import (
    SCHEMES,
    LabelledSpan,
    entity_scores,
    entity_table,
    spans,
    tags_of,
    to_scheme,
)


def tags_with(marks: str):
    labelled = [f"{mark}-{label}" for mark in marks for label in ("PER", "LOC")]
    return st.sampled_from(["O", *labelled])


ALL_MARKS = st.lists(tags_with("BIES"), max_size=12)
CONLL_MARKS = tags_with("BI")
SENTENCE_PAIRS = st.lists(
    st.lists(st.tuples(CONLL_MARKS, CONLL_MARKS), min_size=1, max_size=12), min_size=1, max_size=6
)


def valid(tags, scheme):
    """Whether these are the very tags that ``scheme`` writes for the entities they mean."""
    return to_scheme(tags, scheme) == tags


def values(golds, found, **options):
    return {one.name: one.value for one in entity_scores(golds, found, **options)}


def unzipped(sentences):
    return tuple([[pair[side] for pair in one] for one in sentences] for side in (0, 1))


class Scorer:
    """The CoNLL-2000 scorer word by word: is a chunk right so far, and does it end right?"""

    ENDS = ("BB", "BO", "IB", "IO", "EE", "EI", "EO")
    STARTS = ("BB", "IB", "OB", "OI", "EE", "EI", "OE")

    def __init__(self):
        self.right = self.golden = self.named = 0

    @staticmethod
    def split(tag):
        return (tag[0], tag[2:]) if tag != "O" else ("O", "")

    def ends(self, before, now):
        return before[0] + now[0] in self.ENDS or (before[0] != "O" and before[1] != now[1])

    def starts(self, before, now):
        return before[0] + now[0] in self.STARTS or (now[0] != "O" and before[1] != now[1])

    def read(self, gold_tags, found_tags):
        inside_right = False
        gold_before = found_before = ("O", "")
        for one, two in zip([*gold_tags, "O"], [*found_tags, "O"], strict=True):
            gold, found = self.split(one), self.split(two)
            ends = self.ends(gold_before, gold), self.ends(found_before, found)
            starts = self.starts(gold_before, gold), self.starts(found_before, found)
            if inside_right and all(ends) and gold_before[1] == found_before[1]:
                self.right += 1
                inside_right = False
            elif ends[0] != ends[1] or gold[1] != found[1]:
                inside_right = False
            if all(starts) and gold[1] == found[1]:
                inside_right = True
            self.golden += starts[0]
            self.named += starts[1]
            gold_before, found_before = gold, found

    def scores(self):
        precision = 100 * self.right / self.named if self.named else 0
        recall = 100 * self.right / self.golden if self.golden else 0
        both = precision + recall
        f1 = 2 * precision * recall / both if both else 0
        return {"precision": precision, "recall": recall, "F1": f1}


def test_by_hand():
    tags = ["B-PER", "I-PER", "O", "B-LOC", "B-LOC", "I-LOC"]
    assert spans(tags) == [
        LabelledSpan(0, 2, "PER"),
        LabelledSpan(3, 4, "LOC"),
        LabelledSpan(4, 6, "LOC"),
    ]
    golds = [tags, ["O", "B-PER"]]
    found = [["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "I-LOC"], ["O", "B-LOC"]]
    scores = values(golds, found)
    assert scores["precision"] == pytest.approx(100 / 3)
    assert scores["recall"] == pytest.approx(100 / 4)
    assert scores["F1"] == pytest.approx(100 * 2 / 7)
    assert entity_table(golds, found) == [
        LabelScore("LOC", 0, 0, 0, count=2),
        LabelScore("PER", 100, 50, pytest.approx(200 / 3), count=2),
    ]


def test_adjacent_entities_of_one_type_in_every_scheme():
    written = {
        "IOB1": "I-PER I-PER B-PER I-LOC O I-LOC B-LOC I-LOC",
        "IOB2": "B-PER I-PER B-PER B-LOC O B-LOC B-LOC I-LOC",
        "BIOES": "B-PER E-PER S-PER S-LOC O S-LOC B-LOC E-LOC",
        "BILOU": "B-PER L-PER U-PER U-LOC O U-LOC B-LOC L-LOC",
    }
    wanted = [
        LabelledSpan(0, 2, "PER"),
        LabelledSpan(2, 3, "PER"),
        LabelledSpan(3, 4, "LOC"),
        LabelledSpan(5, 6, "LOC"),
        LabelledSpan(6, 8, "LOC"),
    ]
    for scheme, tags in written.items():
        assert spans(tags.split()) == wanted
        for other, others in written.items():
            assert to_scheme(tags.split(), other) == others.split()
            assert valid(tags.split(), other) == (scheme == other)


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("O I-PER I-PER", [(1, 3, "PER")]),
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("I-PER O I-PER", [(0, 1, "PER"), (2, 3, "PER")]),
        ("E-PER E-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("B-PER E-PER B-PER E-PER", [(0, 2, "PER"), (2, 4, "PER")]),
        ("S-PER I-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
        ("B-part-of I-part-of", [(0, 2, "part-of")]),
        ("", []),
    ],
)
def test_tags_that_a_scheme_may_not_allow_still_mean_entities(tags, wanted):
    assert spans(tags.split()) == wanted


@given(SENTENCE_PAIRS)
def test_as_the_scorer_counts(sentences):
    golds, found = unzipped(sentences)
    scorer = Scorer()
    for one, two in zip(golds, found, strict=True):
        scorer.read(one, two)
    assert values(golds, found) == pytest.approx(scorer.scores())


@given(ALL_MARKS)
def test_spans_as_seqeval_has_them(tags):
    from seqeval.metrics import sequence_labeling as labelling

    theirs = [(start, last + 1, label) for label, start, last in labelling.get_entities(tags)]
    assert spans(tags) == theirs


@given(SENTENCE_PAIRS)
def test_scores_as_seqeval_has_them(sentences):
    import seqeval.metrics as seqeval

    golds, found = unzipped(sentences)
    ours = values(golds, found)
    for name, theirs in [
        ("precision", seqeval.precision_score),
        ("recall", seqeval.recall_score),
        ("F1", seqeval.f1_score),
    ]:
        assert ours[name] == pytest.approx(100 * theirs(golds, found, zero_division=0))


@given(ALL_MARKS, st.sampled_from(list(SCHEMES)), st.sampled_from(list(SCHEMES)))
def test_conversions_keep_entities_and_come_back(tags, one, other):
    once = to_scheme(tags, one)
    assert valid(once, one)
    assert spans(once) == spans(tags)
    assert to_scheme(to_scheme(once, other), one) == once
    assert tags_of(reversed(spans(tags)), len(tags), one) == once


@given(ALL_MARKS)
def test_what_is_valid_in_bioes_by_neighbours(tags):
    """A machine over neighbouring tags: first and inner ones want a follower of their label."""

    def follows(before, now):
        if before[0] in "BI":
            return now[0] in "IE" and before[1:] == now[1:]
        return now[0] in "OBS"

    by_neighbours = all(map(follows, ["O", *tags], [*tags, "O"]))
    assert valid(tags, "BIOES") == by_neighbours


@given(st.lists(CONLL_MARKS, max_size=12))
def test_what_is_valid_in_iob_by_neighbours(tags):
    goes_on = [
        before != "O" and before[2:] == now[2:]
        for before, now in zip(["O", *tags], tags, strict=False)
    ]
    marked = [(now[0], on) for now, on in zip(tags, goes_on, strict=True)]
    assert valid(tags, "IOB1") == all(on for mark, on in marked if mark == "B")
    assert valid(tags, "IOB2") == all(on for mark, on in marked if mark == "I")


@given(SENTENCE_PAIRS)
def test_the_table_adds_up(sentences):
    golds, found = unzipped(sentences)
    table = entity_table(golds, found)
    assert [row.label for row in table] == sorted({row.label for row in table})
    assert sum(row.count for row in table) == sum(len(spans(one)) for one in golds)
    for row in table:
        only = [
            [
                tags_of([it for it in spans(one) if it.label == row.label], len(one), "IOB2")
                for one in each
            ]
            for each in (golds, found)
        ]
        alone = values(*only)
        shown = {"precision": row.precision, "recall": row.recall, "F1": row.f1}
        assert shown == pytest.approx(alone)


def test_nothing_found_is_nothing_right():
    zero = {"precision": 0, "recall": 0, "F1": 0}
    assert values([["O"]], [["O"]]) == zero
    assert values([["B-PER"]], [["O"]]) == zero
    assert values([["O"]], [["B-PER"]]) == zero


def test_intervals_hold_the_score_and_shrink_with_more_sentences():
    chance = random.Random(0)
    golds = [[chance.choice(["O", "B-PER", "B-LOC"]) for _ in range(6)] for _ in range(300)]
    found = [[tag if chance.random() < 0.7 else "O" for tag in tags] for tags in golds]
    few = entity_scores(golds[:30], found[:30], with_interval=True)
    many = entity_scores(golds, found, with_interval=True)
    for one, other in zip(few[1:], many[1:], strict=True):  # all that is found is right
        assert one.interval.low < one.value < one.interval.high
        assert other.interval.high - other.interval.low < one.interval.high - one.interval.low
    entities = sum(len(spans(tags)) for tags in golds)
    assert many[2].signature == f"sentences:300|entities:{entities}|bs:1000|seed:12345"
    assert entity_scores(golds, found)[0].interval is None


def test_what_cannot_be_scored_is_reported():
    with pytest.raises(BadInput, match="tags for 1 sentences, but there are 2"):
        entity_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(BadInput, match="no sentences"):
        entity_scores([], [])
    with pytest.raises(BadInput, match="sentence 2: 1 tags for 2 words"):
        entity_scores([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(BadInput, match="tag 'NOUN' is neither"):
        spans(["NOUN"])
    with pytest.raises(BadInput, match="no scheme 'IOB3'; there are IOB1, IOB2, BIOES, BILOU"):
        to_scheme(["O"], "IOB3")
    with pytest.raises(BadInput, match="tag 'O-PER' is neither"):
        spans(["O-PER"])
