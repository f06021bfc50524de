"""Predictions without heads, layers or words, against edits on a tape."""

import numpy as np
import pytest
import torch

import regard
from marian_folders import write_marian
from regard import BadInput, Tape, without_head
from regard.inside.ablation import head_edits
from regard.inside.attribution.what_if import parse_parts
from small_agreement import language_model
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_mistakes import small_translator

TEXT = "The old cat came in"


@pytest.fixture(scope="module")
def model():
    return small_bert("one")


def zeros(_, value):
    return torch.zeros_like(value)


def probabilities(model, tape):
    return model.predict([TEXT], tape=tape)[0].probabilities


def after(result):
    return dict(zip(result.targets, result.after, strict=True))


def test_a_head_is_switched_off_as_by_without_head(model):
    result = model.what_if(TEXT, heads=[(1, 0)])
    tape = Tape(edits={"trunk.blocks.1.attention.weights": without_head(0)})
    assert after(result) == pytest.approx(probabilities(model, tape), abs=1e-6)
    before = dict(zip(result.targets, result.before, strict=True))
    assert before == pytest.approx(model.predict([TEXT])[0].probabilities, abs=1e-6)
    assert result.off == ("encoder head 1.0",)
    assert result.before != result.after


def test_several_heads_of_a_layer_are_all_off(model):
    result = model.what_if(TEXT, heads=[(0, 0), (0, 1)])
    tape = Tape(edits={"trunk.blocks.0.attention.head_outputs": zeros})
    assert after(result) == pytest.approx(probabilities(model, tape), abs=1e-6)


def test_a_layer_that_is_off_adds_nothing(model):
    result = model.what_if(TEXT, layers=[1])
    paths = ("attention.output", "mlp.output")
    tape = Tape(edits={f"trunk.blocks.1.{path}": zeros for path in paths})
    assert after(result) == pytest.approx(probabilities(model, tape), abs=1e-6)


def test_a_word_is_off_by_number_or_by_name(model):
    named, numbered = model.what_if(TEXT, words=["cat"]), model.what_if(TEXT, words=[2])
    assert named.after == numbered.after and named.off == ("word 2 (cat)",)
    left_out = model.attribute(TEXT, method="leave-one-out")
    (at,) = (n for n, name in enumerate(named.targets) if name == left_out.targets[0])
    change = np.log(named.before[at] / named.after[at])
    assert change == pytest.approx(left_out.weights["leave-one-out"][0, 2], abs=1e-5)


def test_nothing_off_changes_nothing(model):
    result = model.what_if(TEXT)
    assert result.before == pytest.approx(result.after) and result.note == "without nothing"


def test_a_language_model_shows_its_best_tokens(tmp_path):
    model = regard.load(write_gpt2(tmp_path / "gpt2"), "cpu")
    result = model.what_if("The old man reads a", words=[4])
    assert len(result.targets) >= 5 and len({*result.targets}) == len(result.targets)
    assert max(result.before) == result.before[0]
    assert [row[3] for row in result.rows] == pytest.approx(
        [b - a for a, b in zip(result.before, result.after, strict=True)]
    )


def test_attention_and_sides_of_a_translator_can_be_named(tmp_path):
    model = regard.load(write_marian(tmp_path / "marian"), "cpu")
    heads, pair = [("cross", 2, 3), (1, 1)], ("The man", "Der Mann")
    result = model.what_if(pair, heads=heads, layers=[("target", 0)])
    assert result.off == ("cross head 2.3", "encoder head 1.1", "target layer 0")
    edits = {
        "target.blocks.2.cross.weights": without_head(3),
        "source.blocks.1.attention.weights": without_head(1),
        **{f"target.blocks.0.{part}.output": zeros for part in ("attention", "cross", "mlp")},
    }
    (scores,) = model.score([pair], tape=Tape(edits=edits))
    assert np.prod(result.after) == pytest.approx(np.exp(sum(scores)), rel=1e-3)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"heads": [(2, 0)]}, "heads: the layer must be at most 1, not 2"),
        ({"heads": [(0, 2)]}, "heads: the head must be at most 1, not 2"),
        ({"heads": [("cross", 0, 0)]}, r"heads: .* is not \(layer, head\) or .* with encoder"),
        ({"heads": [3]}, r"heads: 3 is not \(layer, head\)"),
        ({"layers": [-1]}, "layers: the layer must be at least 0, not -1"),
        ({"layers": [("target", 0)]}, "layers: 'target' is not a side: trunk"),
        ({"words": [5]}, "there is no word 5; the words are 0 to 4: The old cat came in"),
        ({"words": ["dog"]}, "there is no word 'dog'"),
    ],
)
def test_parts_that_do_not_exist_are_refused(model, parts, message):
    with pytest.raises(BadInput, match=message):
        model.what_if(TEXT, **parts)


def test_heads_without_outputs_are_off_by_their_weights(owl_run):
    pooled = regard.load(owl_run / "run" / "model", "cpu")
    recurrent = regard.Model(small_translator("recurrent"))
    for model, site, text in (
        (pooled, "pool", "dog owl cow"),
        (recurrent, "cross", ("dog cow", "cow dog")),
    ):
        (name,) = (name for name in model.tape_names() if name.endswith(f"{site}.weights"))
        edited = model.edited(head_edits(model.inspected)[site, 0, 0])
        off = model.logits([text], tape=Tape(edits={name: zeros}))
        torch.testing.assert_close(edited.logits([text]), off)
        result, plain = model.what_if(text, heads=[(site, 0, 0)]), edited.what_if(text)
        expected = dict(zip(plain.targets, plain.before, strict=True))
        shared = expected.keys() & {*result.targets}
        assert shared and result.before != result.after
        assert [after(result)[each] for each in shared] == pytest.approx(
            [expected[each] for each in shared]
        )


def test_layers_of_a_recurrent_model_cannot_be_switched_off():
    with pytest.raises(BadInput, match="no Transformer layers that can be turned off"):
        language_model().what_if("the key to the", layers=[0])


def test_phrases_name_parts():
    phrases = ["head 3.5", "cross head 0.1", "layer 4", "target layer 0", "word 2", "word not"]
    heads, layers, words = parse_parts(phrases)
    assert heads == [(3, 5), ("cross", 0, 1)]
    assert layers == [4, ("target", 0)] and words == [2, "not"]
    for phrase in ("head", "head 3", "layer 1.2", "hed 1.2", "word ", "head 1,2"):
        with pytest.raises(BadInput, match=r'is not "head LAYER\.HEAD"'):
            parse_parts([phrase])
