"""Contributions sum to the logit, and each is what is lost without its component."""

import numpy as np
import pytest
import torch

from regard import BadInput, Model
from regard.core.tape import Tape
from regard.inside.logit_target import choose_target
from regard.inside.stream.contributions import contributions, stream_places
from regard.inside.stream.frozen import FrozenScales
from small_bert import model as small_bert
from small_bert import small_bert as small_bert_folder
from small_families import FACTS, small_family, small_rows
from small_gpt import write_gpt2

BF16 = pytest.param("bf16", marks=pytest.mark.native("bf16"))
POST_AND_PRE = ["bert", "gpt2", "t5", "translator", "llama"]


def shares(name, **chosen):
    model = small_family(name)
    token = {} if "label" in model.facts.head_names else {"token": 2}
    return contributions(model, name, small_rows(model), **token | chosen)


@pytest.mark.parametrize("name", FACTS)
def test_contributions_sum_to_the_logit(name):
    found = shares(name)
    model = small_family(name)
    with torch.inference_mode():
        outputs = model.run([small_rows(model)])
    logits_NV = outputs.by_head[found.target.head]
    expected = logits_NV[found.target.position or 0].max().item()
    assert found.logit == pytest.approx(expected, abs=1e-4)
    assert found.total == pytest.approx(expected, abs=1e-4)
    sizes = [abs(component.value) for component in found.components]
    assert sum(size > 1e-4 for size in sizes) > len(sizes) / 2  # nearly all write something


@pytest.mark.parametrize("name", POST_AND_PRE)
def test_a_difference_of_logits_is_the_difference_of_contributions(name):
    one, other = shares(name, target=1), shares(name, target=4)
    both = shares(name, target=1, against=4)
    for a, b, difference in zip(one.components, other.components, both.components, strict=True):
        assert difference.value == pytest.approx(a.value - b.value, abs=1e-4)
    assert both.logit == pytest.approx(one.logit - other.logit, abs=1e-4)


@pytest.mark.parametrize("name", POST_AND_PRE)
def test_a_contribution_is_lost_without_its_component(name):
    """All other components and all scales are kept; one head, or feed-forward layer, writes 0."""
    model, rows = small_family(name), small_rows(small_family(name))
    found = shares(name)
    places = stream_places(model.facts, model.facts.sides[-1])
    tape, scales = Tape(*places), FrozenScales()
    with torch.no_grad(), scales:
        outputs = model.run([rows], tape)
    target = choose_target(model, rows, outputs, token=2)
    for path, place in places.items():
        value = tape.records[path]
        for head in range(value.shape[1]) if place.has_heads else [None]:
            kept = {other: constant(tape.records[other]) for other in places}
            kept[path] = constant(without(value, head))
            with torch.no_grad(), FrozenScales(scales.scales):
                changed = target.of(model.run([rows], Tape(edits=kept))).item()
            part = place.part if head is None else f"{place.part} {head}"
            name_of = part if place.layer is None else f"layer {place.layer}, {part}"
            assert found.logit - changed == pytest.approx(found[name_of], abs=1e-4), name_of


def constant(value):
    return lambda name, current: value


def without(value, head):
    changed = value.clone()
    changed[(slice(None),) if head is None else (slice(None), head)] = 0
    return changed


@pytest.mark.slow
def test_frozen_scales_change_no_value():
    for name in FACTS:
        model = small_family(name)
        with torch.inference_mode():
            plain = model.run([small_rows(model)]).by_head
            with FrozenScales():
                frozen = model.run([small_rows(model)]).by_head
        for head, logits in plain.items():
            torch.testing.assert_close(frozen[head], logits, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_a_linear_map():
    x = torch.randn(4, 6, requires_grad=True)
    modules = [torch.nn.LayerNorm(6), torch.nn.GELU(), torch.nn.Tanh(), torch.nn.SiLU()]
    for module in modules:
        with FrozenScales():
            y = module(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        bias = getattr(module, "bias", None)
        rest = 0.0 if bias is None else 4 * bias.sum().item()
        assert (gradient * x).sum().item() + rest == pytest.approx(y.sum().item(), abs=1e-5)


def test_an_activation_of_zero_has_no_gradient():
    z = torch.zeros(3, requires_grad=True)
    with FrozenScales():
        y = torch.nn.functional.gelu(z)
    (gradient,) = torch.autograd.grad(y.sum(), z)
    assert not gradient.any() and not y.any()


def test_components_are_named_by_layer_and_head():
    found = shares("translator")
    names = [component.name for component in found.components]
    assert names[0] == "embedding" and names[-1] == "biases"
    assert names[1:6] == [
        "layer 0, head 0",
        "layer 0, head 1",
        "layer 0, cross 0",
        "layer 0, cross 1",
        "layer 0, mlp",
    ]
    with pytest.raises(BadInput, match="no component is called 'layer 9, mlp'"):
        found["layer 9, mlp"]


def test_a_mask_is_what_is_predicted():
    model = small_bert("words")
    found = model.contributions("the old [MASK] came")
    (fill,) = model.fill(["the old [MASK] came"], top=1)
    assert found.target.name == fill.blanks[0][0].word
    assert found.target.position == 4  # after [CLS], "the", "o", "##ld"
    assert found.total == pytest.approx(found.logit, abs=1e-4)
    assert found.logit == pytest.approx(
        model.logits(["the old [MASK] came"])[0][4].max().item(), abs=1e-4
    )


def test_a_label_is_what_is_predicted():
    model = small_bert("one")
    found = model.contributions("the old cat came", against="bad")
    logits = model.logits(["the old cat came"])[0]
    label = model.predict(["the old cat came"])[0].label
    assert found.target.name == label and found.target.position is None
    assert found.total == pytest.approx((logits.max() - logits[0]).item(), abs=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "int8", BF16])
@pytest.mark.parametrize("method", ["contributions", "attribute", "heads"])
def test_a_copy_for_inference_has_no_gradients(method, precision):
    model = Model(small_bert_folder("one"), precision)
    with pytest.raises(BadInput, match=f"need gradients: load without precision={precision}"):
        getattr(model, method)("the old cat came")


@pytest.mark.parametrize("method", ["contributions", "attribute", "heads"])
def test_weights_in_half_precision_are_refused(method):
    """Contributions would sum to the logit to two digits only."""
    model = Model(small_bert_folder("one"))
    model.module.bfloat16()
    fault = r"need weights in float32, not torch\.bfloat16: use model\.module\.float\(\)"
    with pytest.raises(BadInput, match=fault):
        getattr(model, method)("the old cat came")


def test_views(tmp_path):
    import regard

    model = regard.load(write_gpt2(tmp_path / "gpt2"), "cpu")
    found = model.contributions("The old man", target="z")
    text = found.text(60)
    assert "logit of 'z'" in text and "layer 1, mlp" in text and "-" in text
    (grid,) = found.grids
    assert grid.values_LC.shape == (2, 3) and grid.columns == ["head 0", "head 1", "mlp"]
    inner = sum(each.value for each in found.components if each.layer is not None)
    np.testing.assert_allclose(grid.values_LC.sum(), inner)
    shown = found.view_record()
    assert found.svg().startswith("<svg") and shown.json["logit"] == pytest.approx(found.logit)
    assert shown.array(shown.json["grids"][0]["values"]).shape == (2, 3)
    record = found.to_json()
    assert record["target"] == "z" and record["logit"] == pytest.approx(found.logit, abs=1e-5)
    assert [each.value for each in found.largest(2)] == sorted(
        (each.value for each in found.components), key=abs, reverse=True
    )[:2]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("words", {}, "token: give the position of a token to explain, or a text with a mask"),
        ("words", {"token": 99}, "token must be at most 10, not 99"),
        ("words", {"token": 1, "target": "storms"}, r"target: 'storms' is \d tokens \(.*\); give"),
        ("words", {"token": 1, "target": 1000}, "target must be at most"),
        ("one", {"target": "best"}, "target: no label is called 'best'; known: bad, fair, good"),
        ("one", {"against": "best"}, "against: no label is called 'best'"),
        ("one", {"token": 1}, "token: this model predicts one output for the whole input"),
        ("states", {}, "this model has no output head"),
    ],
)
def test_what_cannot_be_explained_is_refused(kind, options, message):
    with pytest.raises(BadInput, match=message):
        small_bert(kind).contributions("the old cat came", **options)
