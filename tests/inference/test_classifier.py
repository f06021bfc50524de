"""Predictions as the lines that ``regard predict`` prints."""

from regard.inference.classifier import LabelPrediction, MultiLabelPrediction
from regard.inference.written_labels import WrittenLabel

SCORES = {"a\tb": 0.75, "c\nd": 0.25}


def test_a_label_of_any_characters_stays_in_its_field():
    assert LabelPrediction("a\tb", SCORES).line == "a b\t0.7500"
    assert WrittenLabel("a", "the words of a", 0.5).line == "a\t0.5000"
    assert WrittenLabel(None, "no\tsuch label", 0.5).line == "(no label) no such label\t0.5000"
    assert MultiLabelPrediction(("a\tb", "c\nd"), SCORES).line == "a b\tc d"
