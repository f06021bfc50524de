"""The names that ``regard`` exports: importable, documented, and the types of all results."""

import ast
import inspect
from pathlib import Path

import pytest
import torch

import regard
from regard import (
    AnswerPrediction,
    AnswerSpan,
    AttentionMap,
    AttentionView,
    ChoicePrediction,
    Entity,
    FilledText,
    Hypothesis,
    LabelPrediction,
    MultiLabelPrediction,
    NumberPrediction,
    TaggedText,
    TaggedWord,
    TokenFill,
    Translation,
    WordWeights,
)
from small_bert import SENTENCES
from small_bert import model as small_encoder
from small_roles import small_labeller

VALUES = {"LINEAGE"}  # neither classes nor functions


def test_every_name_is_exported_once_and_documented():
    tree = ast.parse(Path(regard.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    typed = [one.name for node in ast.walk(checked) for one in getattr(node, "names", [])]
    assert sorted(typed) == sorted(regard.__all__) == sorted(regard._NAMES)
    assert len(set(regard.__all__)) == len(regard.__all__)
    for name in regard.__all__:
        value = getattr(regard, name)
        if name in VALUES:
            continue
        assert value.__name__ == name and value.__module__.startswith("regard.")
        assert inspect.getdoc(value), name
        assert not (inspect.getdoc(value) or "").startswith(f"{name}("), f"{name}: only generated"


def test_public_methods_are_documented():
    for name in dir(regard.Model):
        if not name.startswith("_"):
            value = getattr(regard.Model, name)
            assert inspect.getdoc(getattr(value, "func", value)), name


PREDICTED = {
    "one": (SENTENCES, LabelPrediction),
    "several": (SENTENCES, MultiLabelPrediction),
    "number": (SENTENCES, NumberPrediction),
    "tags": (SENTENCES, TaggedText),
    "answer": ([("Who?", SENTENCES[0])], AnswerPrediction),
    "choose": ([("The storm", ["came", "sings"])], ChoicePrediction),
}


@pytest.mark.parametrize("kind", PREDICTED)
def test_predictions_are_of_exported_types(kind):
    inputs, expected = PREDICTED[kind]
    results = small_encoder(kind).predict(inputs)
    assert len(results) == len(inputs) and all(type(one) is expected for one in results)
    for result in results:
        parts = {
            "tags": lambda one: [*one.words, *one.entities],
            "answer": lambda one: one.best,
        }.get(kind, lambda one: [])(result)
        assert all(type(one) in (TaggedWord, Entity, AnswerSpan) for one in parts)


def test_frames_are_of_exported_types():
    (result,) = small_labeller().predict([("The storm came", [2])])
    assert type(result) is regard.SentenceFrames
    (frame,) = result.frames
    assert type(frame) is regard.PredictedFrame
    assert {*map(type, frame.arguments)} == {regard.RoleArgument}
    assert regard.draw_frames(result, "The storm came").startswith("<svg ")


def test_other_results_are_of_exported_types(small_run, owl_run):
    (filled,) = small_encoder("words").fill(["The [MASK] came."])
    assert type(filled) is FilledText and type(filled.blanks[0][0]) is TokenFill
    translator = regard.load(small_run / "run" / "model", "cpu")
    ((best, *_),) = translator.translate(["dog cow"])
    assert type(best) is Translation and type(best.hypothesis) is Hypothesis
    seen = translator.look("dog cow", "cow dog")
    assert type(seen) is AttentionView and all(type(one) is AttentionMap for one in seen.maps)
    assert type(regard.load(owl_run / "run" / "model", "cpu").look("dog cow")) is WordWeights
    assert type(translator.alignment_method) is regard.AlignmentMethod
    assert type(translator.paper) is regard.Paper and translator.paper in regard.LINEAGE
    assert type(translator.facts) is regard.EncoderDecoder
    assert type(small_encoder("states").facts) is regard.TrunkWithHeads
    assert type(translator.encode(["dog"])[0]) is type(translator.embed(["dog"])) is torch.Tensor
    assert type(regard.bleu(["a b"], [["a b"]])) is regard.MetricScore
