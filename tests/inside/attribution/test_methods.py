"""Methods of attribution, against a linear model computed by hand, plain runs and each other."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import regard
from closeness import PROBABILITIES
from marian_folders import write_marian
from regard import BadInput, Tape
from regard.inside.attribution.faithfulness import agreement, deletion_curves
from regard.inside.attribution.methods import (
    attention_times_gradient,
    integrated_gradients,
    leave_one_out,
    methods,
    rollout,
)
from regard.inside.attribution.target_function import TargetFunction
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.models.papers import bert
from regard.models.pools import MeanPool
from small_agreement import language_model
from small_bert import LABELS, LONGEST, vocabulary
from small_bert import model as small_bert
from small_gpt import write_gpt2
from small_images import small_vit

TEXT = "The old cat came in, storming."
PIXELS = np.random.default_rng(3).integers(0, 256, (8, 12, 3), dtype=np.uint8)  # 2 × 3 patches


def bag_of_words(kind: str) -> regard.Model:
    """A linear classifier of the mean of the embeddings: its blocks add nothing."""
    sizes = {"vocab": len(vocabulary().words), "width": 16, "inner": 24, "longest": LONGEST}
    head = LabelHead(len(LABELS[kind]))
    parts = {"pool": MeanPool(), "output_heads": (head,), "norm": "pre", "init_std": 0.5}
    facts = change(bert.TINY, **sizes, **parts)
    torch.manual_seed(1)
    module = facts.build().eval()
    with torch.no_grad():
        for layer in module.trunk.residual_outputs:
            layer.weight.zero_()
            layer.bias.zero_()
    return regard.Model(LoadedModel(bert.PAPER, facts, module, vocabulary(), LABELS[kind]))


@pytest.fixture(scope="module")
def linear():
    """A linear model, as a function with the zero vector in place of words."""
    function = TargetFunction.of(bag_of_words("number").inspected, TEXT)
    baseline_LD = function.baseline_LD.clone()
    baseline_LD[[at for group in function.given.groups for at in group]] = 0
    return replace(function, baseline_LD=baseline_LD)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Small random models by name, each with an input."""
    folder = tmp_path_factory.mktemp("attribution")
    torch.manual_seed(0)
    return {
        "BERT": (small_bert("one"), TEXT),
        "masked LM": (small_bert("words"), "The old [MASK] came in"),
        "GPT-2": (regard.load(write_gpt2(folder / "gpt2"), "cpu"), "The old man reads a"),
        "Marian": (regard.load(write_marian(folder / "marian"), "cpu"), ("The man", "Der Mann")),
        "ViT": (small_vit(size=(8, 12), width=12, depth=2, heads=3), PIXELS),
        "LSTM": (language_model(), "the key to the"),
    }


def test_a_linear_model_has_the_attributions_computed_by_hand(linear):
    head = linear.model.module.heads["label"].out
    expected_L = (linear.x_LD @ head.weight[0] / len(linear.x_LD)).detach().double().numpy()
    expected_MW = linear.by_word(expected_L[None])
    for name in ("gradient", "integrated", "leave-one-out"):
        weights_MW = methods()[name](linear).weights_MW
        np.testing.assert_allclose(weights_MW, expected_MW, atol=1e-6, err_msg=name)


def test_words_sum_over_their_pieces(linear):
    given = linear.given
    assert given.words == ("The", "old", "cat", "came", "in", ",", "storming", ".")
    assert max(map(len, given.groups)) > 1
    values_ML = np.arange(float(len(linear.x_LD)))[None]
    expected = [sum(group) for group in given.groups]
    np.testing.assert_array_equal(linear.by_word(values_ML), [expected])


@pytest.mark.parametrize("name", ["BERT", "masked LM", "GPT-2", "Marian", "ViT", "LSTM"])
def test_integrated_gradients_are_complete_to_one_percent(models, name):
    model, text = models[name]
    function = TargetFunction.of(model.inspected, text)
    weights_MW, completeness = integrated_gradients(function)
    assert completeness.complete and completeness.error <= 0.01
    with torch.no_grad():
        ends = [
            function.run(x[None])[0].logits_NM[0] for x in (function.x_LD, function.baseline_LD)
        ]
    difference_M = (ends[0] - ends[1]).double().numpy()
    np.testing.assert_allclose(weights_MW.sum(1), difference_M, rtol=0.01, atol=1e-5)
    np.testing.assert_allclose(completeness.differences, difference_M, atol=1e-5)


def test_more_steps_are_taken_until_the_sum_is_right(models):
    model, text = models["BERT"]
    function = TargetFunction.of(model.inspected, text)
    completeness = integrated_gradients(function, steps=1).completeness
    assert completeness.steps > 1 and completeness.complete
    assert f"{completeness.steps} steps" in completeness.summary
    assert "not complete" in completeness._replace(error=0.02).summary


def test_scores_are_those_of_plain_runs(models):
    model, text = models["BERT"]
    function = TargetFunction.of(model.inspected, text)
    (prediction,) = model.predict([text])
    scores = function.scores_without(np.zeros((1, len(function.given.words)), bool))
    assert function.targets.names == (prediction.label,)
    assert scores.log_probabilities_NM.exp().item() == pytest.approx(prediction.probability, 1e-5)
    translator, pair = models["Marian"]
    function = TargetFunction.of(translator.inspected, pair)
    (score,) = translator.score([pair])
    scores = function.scores_without(np.zeros((1, len(function.given.words)), bool))
    assert scores.log_probabilities_NM.sum().item() == pytest.approx(sum(score), abs=1e-4)


def test_a_word_that_is_left_out_is_a_mask(models):
    model, text = models["BERT"]
    function = TargetFunction.of(model.inspected, text)
    row = function.given.rows["trunk"].row
    tokens = np.array(row.tokens)
    tokens[list(function.given.groups[6])] = model.tokenizer.mask
    logits_NV = torch.stack(model.logits([row, row._replace(tokens=tokens)]))
    ((_, label),) = function.targets.targets[0].places
    full, without = logits_NV.log_softmax(-1)[:, label].tolist()
    assert leave_one_out(function).weights_MW[0, 6] == pytest.approx(full - without, abs=1e-5)


def test_rollout_is_that_of_look(models):
    model, text = models["BERT"]
    seen = model.look(text, rollout=True).map()
    weights_MW = rollout(TargetFunction.of(model.inspected, text)).weights_MW
    np.testing.assert_allclose(weights_MW[0], seen.select()[0, 1:-1], atol=1e-6)  # of [CLS]
    model, text = models["GPT-2"]
    seen = model.look(text, rollout=True, subwords=True).map()
    function = TargetFunction.of(model.inspected, text, subwords=True)
    np.testing.assert_allclose(rollout(function).weights_MW[0], seen.select()[-1], atol=1e-6)


def test_attention_times_gradient_is_the_effect_of_each_weight(models):
    """In one layer, the relevance of a patch is the mean over heads of A · ∂f/∂A, if positive."""
    model = small_vit(size=(8, 12), width=12, depth=1, heads=3)
    function = TargetFunction.of(model.inspected, PIXELS)
    (name,) = (name for site in model.facts.attention_sites for name in site.weights)

    def logit(head: int, key: int, by: float) -> float:
        def edit(_, weights_BHLS):
            weights_BHLS = weights_BHLS.clone()
            weights_BHLS[:, head, 0, key] += by
            return weights_BHLS

        with torch.no_grad():
            return function.run(function.x_LD[None], edits={name: edit})[0].logits_NM.item()

    tape = Tape(name)
    with torch.no_grad():
        model.inspected.run([function.given.rows], tape)
    weights_HS = tape.records[name][0, :, 0]
    for patch in (0, 4):
        effects = [
            (logit(h, patch + 1, 0.01) - logit(h, patch + 1, -0.01)) / 0.02 for h in range(3)
        ]
        products = weights_HS[:, patch + 1].numpy() * np.array(effects)
        expected = products.clip(min=0).mean()
        got = attention_times_gradient(function).weights_MW[0, patch]
        assert got == pytest.approx(expected, rel=0.02, abs=1e-4)


def test_relevance_of_a_translation_follows_the_paper(models):
    """Equations 5 to 10 of Chefer et al. (2021), written out for one target, matrix by matrix."""
    model, (source, target) = models["Marian"]
    function = TargetFunction.of(model.inspected, (source, target))
    sites = {(site.side, site.kind): site for site in model.facts.attention_sites}
    names = {key: site.weights for key, site in sites.items()}
    with torch.enable_grad():
        x_LD = function.x_LD.clone().requires_grad_()
        scores, tape = function.run(x_LD[None], *(name for of in names.values() for name in of))
        records = [tape.records[name] for of in names.values() for name in of]
        number = len(function.targets.names) - 1
        gradients = torch.autograd.grad(scores.logits_NM[0, number], records, allow_unused=True)
    products = {
        name: (weights * gradient).clamp(min=0).mean(1)[0].detach().double().numpy()
        for name, weights, gradient in zip(
            (name for of in names.values() for name in of), records, gradients, strict=True
        )
    }
    length, written = products[names["target", "cross"][0]].shape[::-1]
    r_ss, r_tt, r_ts = np.eye(length), np.eye(written), np.zeros((written, length))
    for name in names["source", "self"]:
        r_ss = r_ss + products[name] @ r_ss
    for own, cross in zip(names["target", "self"], names["target", "cross"], strict=True):
        r_tt, r_ts = r_tt + products[own] @ r_tt, r_ts + products[own] @ r_ts
        bars = []
        for r in (r_tt, r_ss):
            others = r - np.eye(len(r))
            sums = others.sum(1, keepdims=True)
            bars.append(others / np.where(sums > 0, sums, 1) + np.eye(len(r)))
        r_ts = r_ts + bars[0].T @ products[cross] @ bars[1]
    ((place, _),) = function.targets.targets[number].places
    expected_W = function.by_word(r_ts[None, place])[0]
    got_W = attention_times_gradient(function).weights_MW[number]
    assert np.abs(expected_W).max() > 0
    np.testing.assert_allclose(got_W, expected_W, rtol=1e-3, atol=1e-6 * expected_W.max())


def test_methods_without_attention_are_left_out(models):
    model, text = models["LSTM"]
    assert list(model.attribute(text).weights) == ["gradient", "integrated", "leave-one-out"]
    with pytest.raises(BadInput, match="no attention that leads to its input: choose gradient"):
        model.attribute(text, method="rollout")


def test_methods_agree_where_the_model_is_linear(linear):
    named = {name: methods()[name](linear).weights_MW for name in ("integrated", "leave-one-out")}
    assert agreement(named) == {("integrated", "leave-one-out"): pytest.approx(1)}
    reverse = {"one": np.array([[1.0, 2, 3]]), "other": np.array([[3.0, 2, 1]])}
    assert agreement(reverse) == {("one", "other"): pytest.approx(-1)}


def test_deleting_the_word_that_decides_comes_first():
    model = bag_of_words("one")
    function = TargetFunction.of(model.inspected, TEXT, "good")
    with torch.no_grad():  # only "old" speaks for the label
        change_LD = (function.x_LD - function.baseline_LD).double()
        speaks_L = torch.zeros(len(change_LD), dtype=torch.float64)
        speaks_L[list(function.given.groups[1])] = 20.0
        solution_D = torch.linalg.pinv(change_LD) @ speaks_L
        model.module.heads["label"].out.weight[2] = solution_D.float()
    weights = {"leave-one-out": leave_one_out(function).weights_MW}
    assert weights["leave-one-out"].argmax() == 1
    curves = deletion_curves(function, weights)
    assert curves.shares[:2] == (0.0, 1 / 8) and curves.shares[-1] == 1.0
    decisive, drawn = (np.array(curves.curves[name]) for name in ("leave-one-out", "random"))
    assert decisive[0] == pytest.approx(drawn[0]) and decisive[-1] == pytest.approx(drawn[-1])
    deleted = np.eye(1, 8, 1, dtype=bool)
    expected = function.scores_without(deleted).log_probabilities_NM.exp().item()
    assert decisive[1] == pytest.approx(expected, **PROBABILITIES)
    assert curves.areas["leave-one-out"] < curves.areas["random"]
