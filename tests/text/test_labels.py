"""Label sets: names, targets, and files that give them back."""

import json
from math import isnan

import pytest

from regard.core.batch import IGNORED
from regard.core.errors import BadInput
from regard.text.label_sets import (
    LABEL_SETS,
    MultiLabelSet,
    RegressionSet,
    SingleLabelSet,
    labels_from_config,
    load_labels,
)

WRITTEN = {"0": "negative", "1": "positive"}
each_kind = pytest.mark.parametrize("labels", LABEL_SETS.values(), ids=list(LABEL_SETS))


def test_labels_are_numbered_by_name():
    labels = SingleLabelSet.of(["1", "0", "1"], WRITTEN)
    assert labels.names == ("negative", "positive") and len(labels) == 2
    assert [labels.encode([name], "") for name in ("1", "0", " positive")] == [[1], [0], [1]]
    assert labels.name("1") == "positive"
    with pytest.raises(BadInput, match=r"^a\.tsv:3: no label is called '2'; known: neg"):
        labels.name("2", "a.tsv:3")
    with pytest.raises(BadInput, match="at least two labels"):
        SingleLabelSet.of(["a", "a"], {})


def test_a_single_label_is_an_index():
    labels = SingleLabelSet(("a", "b"))
    assert labels.encode(["b"], "") == [1] and labels.gold([" b "], "") == "b"
    assert labels.classes == ("a", "b") and set(labels.no_targets(3)) == {IGNORED}
    for wrong in ([], ["a", "b"]):
        with pytest.raises(BadInput, match=r"^x:1: \d labels; this task needs exactly one"):
            labels.encode(wrong, "x:1")


def test_several_labels_are_zeros_and_ones():
    labels = MultiLabelSet(("a", "b", "c"), {"1": "c"})
    assert labels.encode(["1", "a"], "") == [1.0, 0.0, 1.0] and labels.encode([], "") == [0.0] * 3
    assert labels.gold(["1", "a"], "") == ["c", "a"]
    with pytest.raises(BadInput, match="has one label, not several"):
        MultiLabelSet.of_benchmark(("a", "b"), {})


def test_a_number_is_its_own_target():
    labels = RegressionSet.of([], {})
    assert labels.names == ("value",) and labels.classes == ()
    assert labels.encode(["2.5"], "") == [2.5] and all(map(isnan, labels.no_targets(2)))
    assert RegressionSet.of_benchmark(("a", "b"), {}) == labels
    for wrong, said in ((["much"], "much"), ([], "nothing"), (["1", "2"], "1, 2")):
        with pytest.raises(BadInput, match=f"^x:1: {said} is not a number"):
            labels.encode(wrong, "x:1")


def test_the_same_labels_in_another_order():
    labels = SingleLabelSet(("a", "b", "c"))
    assert labels.order_in(SingleLabelSet(("c", "a", "b"), {"1": "a"})) == [1, 2, 0]
    for other in (None, SingleLabelSet(("a", "b")), MultiLabelSet(("a", "b", "c"))):
        assert labels.order_in(other) is None


@each_kind
def test_a_folder_gives_them_back(labels, tmp_path):
    assert load_labels(tmp_path) is None
    written = labels(("a", "b"), {"1": "a"})
    written.save(tmp_path)
    assert load_labels(tmp_path) == written


@each_kind
def test_a_configuration_gives_them_back(labels):
    for names in (("a", "b"), ("a",)):
        assert labels_from_config(labels(names).config()) == labels(names)


def test_a_configuration_that_names_no_kind():
    assert labels_from_config({}) == SingleLabelSet(("LABEL_0", "LABEL_1"))
    assert labels_from_config({"num_labels": 1}) == RegressionSet(("LABEL_0",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"names": "ab", "written": {}}, "names or written is missing"),
        ({"names": ["a"]}, "names or written is missing"),
        ({"names": ["a", 1], "written": {}}, "every label must be a string"),
        ({"names": ["a", "b"], "written": {}, "kind": "x"}, "labels of unknown kind 'x'"),
        ({"names": ["a"], "written": {}, "kind": ["x"]}, r"labels of unknown kind \['x'\]"),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, content, said):
    (tmp_path / "labels.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=f"labels.json: {said}"):
        load_labels(tmp_path)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_number_is_finite(number):
    with pytest.raises(BadInput, match=f"^a.csv:3: {number} is not a finite number"):
        RegressionSet.of(["1"], {}).encode([number], "a.csv:3")


def test_spaces_around_labels_do_not_count():
    labels = SingleLabelSet.of([" good", "bad", "good"], {})
    assert labels.names == ("bad", "good") and labels.encode([" good"], "") == [1]
