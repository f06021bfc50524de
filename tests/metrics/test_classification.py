"""Accuracy, macro-F1, Matthews and F1 of one class, by hand and against scikit-learn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.metrics.classification import (
    LabelScore,
    class_table,
    classification_scores,
    confusion,
    several_scores,
    top_score,
)

GOLDS = ["a", "a", "a", "b", "b", "c"]
FOUND = ["a", "a", "b", "b", "c", "c"]
LABELS = st.sampled_from("abcd")


def values(golds, found, **options):
    return {one.name: one.value for one in classification_scores(golds, found, **options)}


def test_by_hand():
    classes, counts = confusion(GOLDS, FOUND)
    assert classes == ["a", "b", "c"]
    assert counts.tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    found = values(GOLDS, FOUND)
    assert found["accuracy"] == pytest.approx(100 * 4 / 6)
    assert found["macro-F1"] == pytest.approx(100 * (4 / 5 + 2 / 4 + 2 / 3) / 3)
    two = values(["n", "n", "n", "p", "p"], ["n", "n", "p", "p", "p"])
    assert two["Matthews"] == pytest.approx(100 * (2 * 2 - 1 * 0) / (3 * 2 * 3 * 2) ** 0.5)


def test_the_most_frequent_mistakes_come_first():
    golds, found = ["a"] * 5 + ["b"] * 2 + ["c"], ["b", "c", "c", "c", "a", "a", "b", "c"]
    assert confusion(golds, found).mistakes() == [
        ("a", "c", 3, 0.6),
        ("b", "a", 1, 0.5),
        ("a", "b", 1, 0.2),
    ]
    assert confusion(["a"], ["b"]).shares.tolist() == [[0, 1], [0, 0]]


def test_each_class_and_what_it_is_taken_for():
    third = pytest.approx(200 / 3)
    assert class_table(GOLDS, FOUND) == [
        LabelScore("a", 100, third, pytest.approx(80), 3, (("b", 1),)),
        LabelScore("b", 50, 50, 50, 2, (("c", 1),)),
        LabelScore("c", 50, 100, third, 1),
    ]
    often = class_table(["a"] * 5, ["b", "c", "c", "c", "d"])[0]
    assert often.taken_for == (("c", 3), ("b", 1), ("d", 1))


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40))
def test_as_scikit_learn_has_them(pairs):
    import sklearn.metrics as learn  # takes a second

    golds, found = map(list, zip(*pairs, strict=True))
    ours = values(golds, found)
    assert ours["accuracy"] == pytest.approx(100 * learn.accuracy_score(golds, found))
    wanted = learn.f1_score(golds, found, average="macro", zero_division=0)
    assert ours["macro-F1"] == pytest.approx(100 * wanted)
    if len({*golds, *found}) > 1:  # of a single class scikit-learn only warns
        assert ours["Matthews"] == pytest.approx(100 * learn.matthews_corrcoef(golds, found))


def test_f1_of_the_positive_class_by_hand():
    golds, found = list("111100"), list("110010")
    assert values(golds, found, positive="1")["F1"] == pytest.approx(100 * 4 / (4 + 3))
    assert values(golds, found, positive="0")["F1"] == pytest.approx(100 * 2 / (2 + 3))
    assert values(["1"], ["1"], positive="1")["F1"] == 100
    assert "F1" not in values(golds, found)


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40), LABELS)
def test_f1_of_one_class_as_scikit_learn_has_it(pairs, positive):
    import sklearn.metrics as learn  # takes a second

    golds, found = map(list, zip(*pairs, strict=True))
    golden, named = ([one == positive for one in each] for each in (golds, found))
    ours = values(golds, found, positive=positive)
    assert ours["F1"] == pytest.approx(100 * learn.f1_score(golden, named, zero_division=0))


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=40))
def test_a_positive_class_that_never_occurs_moves_nothing_else(pairs):
    golds, found = map(list, zip(*pairs, strict=True))
    with_positive = values(golds, found, positive="never")
    assert with_positive.pop("F1") == 0
    assert with_positive == pytest.approx(values(golds, found))


def test_the_signature_names_the_positive_class():
    scores = classification_scores(GOLDS * 5, FOUND * 5, with_interval=True, positive="a")
    assert [one.name for one in scores] == ["accuracy", "macro-F1", "Matthews", "F1"]
    assert scores[3].signature == "examples:30|classes:3|positive:a|bs:1000|seed:12345"
    assert scores[0].signature == "examples:30|classes:3|bs:1000|seed:12345"
    assert scores[3].interval.low < scores[3].value < scores[3].interval.high


def test_one_class_has_no_correlation():
    assert values(["a", "a"], ["a", "a"])["Matthews"] == 0


def test_intervals_hold_the_score_and_shrink_with_more_examples():
    few = classification_scores(GOLDS * 5, FOUND * 5, with_interval=True)
    many = classification_scores(GOLDS * 200, FOUND * 200, with_interval=True)
    for one, other in zip(few, many, strict=True):
        assert one.interval.low <= one.value <= one.interval.high
        assert other.interval.high - other.interval.low < one.interval.high - one.interval.low
    assert str(few[0]).startswith("accuracy 66.67 [")
    assert few[0].signature == "examples:30|classes:3|bs:1000|seed:12345"
    assert classification_scores(GOLDS, FOUND)[0].interval is None


def test_several_labels_by_hand():
    golds, found = [{"a", "b"}, {"a"}, set(), {"c"}], [{"a"}, {"a"}, {"b"}, set()]
    f1, exact = several_scores(golds, found)
    assert (f1.name, f1.value) == ("micro-F1", pytest.approx(100 * 2 * 2 / (4 + 3)))
    assert (exact.name, exact.value) == ("accuracy", 25)
    assert f1.interval is None and f1.signature == "examples:4|several"
    for one in several_scores(golds * 5, found * 5, with_interval=True):
        assert one.interval.low < one.value < one.interval.high
        assert one.signature == "examples:20|several|bs:1000|seed:12345"
    assert [one.value for one in several_scores([set()], [set()])] == [0, 100]
    with pytest.raises(BadInput, match="1 predictions for 2 labels"):
        several_scores([{"a"}, {"b"}], [{"a"}])


def test_what_cannot_be_scored_is_reported():
    with pytest.raises(BadInput, match="1 predictions for 2 labels"):
        classification_scores(["a", "b"], ["a"])
    with pytest.raises(BadInput, match="no labels"):
        classification_scores([], [])


def test_the_gold_class_may_be_among_the_five_most_probable():
    ranked = ["abcdefg", "gfedcba", "abcdefg", "fabcdeg"]
    score = top_score(["a", "a", "e", "g"], ranked, with_interval=True)
    assert (score.name, score.value) == ("top-5", 50.0)
    assert score.signature.startswith("examples:4|bs:")
    with pytest.raises(BadInput, match="4 predictions for 1 labels"):
        top_score(["a"], ranked)
