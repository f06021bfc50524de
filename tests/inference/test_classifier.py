"""Predictions as the lines that ``regard predict`` prints."""

from regard.inference.classifier import LabelPrediction, MultiLabelPrediction

SCORES = {"a\tb": 0.75, "c\nd": 0.25}


def test_a_label_of_any_characters_stays_in_its_field():
    assert LabelPrediction("a\tb", SCORES).line == "a b\t0.7500"
    assert MultiLabelPrediction(("a\tb", "c\nd"), SCORES).line == "a b\tc d"
