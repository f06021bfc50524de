"""Attention rollout, by its definition, over tokens and over words."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

from regard.core.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap, RolloutMap, rollout
from small_bert import SENTENCES, model
from verb import run


def attention(layers=3, heads=2, tokens=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, tokens, tokens, generator=draw).softmax(-1)


def by_definition(weights_LHQK):
    """Equation 1 of Abnar & Zuidema: Ã = A for the first layer, and A(l) Ã(l - 1) for others."""
    rolled = None
    for weights_HQK in weights_LHQK.double():
        mixed = 0.5 * weights_HQK.mean(0) + 0.5 * torch.eye(weights_HQK.shape[-1])
        rolled = mixed if rolled is None else mixed @ rolled
    return rolled.numpy()


def labelled(weights_LHQK, allowed=None):
    labels = tuple("abcde"[: weights_LHQK.shape[-1]])
    return AttentionMap("encoder", labels, labels, weights_LHQK.numpy(), allowed)


def test_it_is_the_product_of_layers_with_the_identity():
    weights = attention()
    found = RolloutMap.of(labelled(weights))
    assert found.name == "encoder rollout" and len(found.layers) == 3
    for layer in range(3):
        expected = by_definition(weights[: layer + 1])
        np.testing.assert_allclose(found.select(layer), expected, atol=1e-6)
    np.testing.assert_allclose(found.select(), by_definition(weights), atol=1e-6)
    np.testing.assert_allclose(found.select().sum(-1), 1, atol=1e-6)
    assert "all layers" in found.describe() and "through layer 1" in found.describe(1)


def test_a_masked_key_stays_masked():
    allowed = np.tri(5, dtype=bool)
    weights = attention() * torch.from_numpy(allowed)
    causal = weights / weights.sum(-1, keepdim=True)
    found = RolloutMap.of(labelled(causal, allowed))
    assert not found.select()[~allowed].any() and found.allowed is allowed


def test_rows_that_sum_to_less_are_renormalised_and_a_layer_without_heads_passes_states_on():
    half = attention(layers=1).numpy() / 2
    (found,) = rollout(half)
    mean = half[0].mean(0) + np.eye(5)
    np.testing.assert_allclose(found, mean / 1.5, atol=1e-6)
    first, after = rollout([half[0], np.zeros((0, 5, 5))])
    np.testing.assert_array_equal(first, after)


def test_what_is_not_there_is_refused():
    found = RolloutMap.of(labelled(attention()))
    with pytest.raises(BadInput, match="averages heads"):
        found.select(head=0)
    assert found.describe(-1) == found.describe(2)
    with pytest.raises(BadInput, match="no layer 3; there are 0 to 2"):
        found.select(3)


def test_words_are_merged_after_the_layers():
    encoder = model("states")
    (pieces,) = encoder.look(SENTENCES[4], subwords=True, rollout=True).maps
    (weights,) = encoder.look(SENTENCES[4], subwords=True).maps
    expected = by_definition(torch.from_numpy(weights.weights))
    np.testing.assert_allclose(pieces.select(), expected, atol=1e-6)
    view = encoder.look(SENTENCES[4], rollout=True)
    (words,) = view.maps
    assert type(words) is type(pieces) is RolloutMap
    assert len(words.keys) < len(pieces.keys)
    np.testing.assert_allclose(words.select().sum(-1), 1, atol=1e-5)
    assert words.select()[0, 0] == pytest.approx(pieces.select()[0, 0])
    assert "encoder rollout, all layers" in view.text()
    assert view.view_record().json["maps"][0]["unchosen"] == "all"


def test_the_verb(small_run, owl_run):
    folder = small_run / "run" / "model"
    shown = run("look", folder, "dog cow", "--rollout", "--layer", 0).stdout
    assert "encoder rollout, through layer 0" in shown
    shown = run("look", folder, "dog cow", "--rollout", "--map", "decoder rollout").stdout
    assert "decoder rollout, all layers" in shown
    refused = run("look", folder, "dog cow", "--rollout", "--head", 0, code=2)
    assert "averages heads" in refused.stderr
    pooled = owl_run / "run" / "model"
    refused = run("look", pooled, "dog cow", "--rollout", code=2)
    assert "rollout: this model has no self-attention" in refused.stderr
    refused = run("look", folder, "dog cow", "--patch", "0,0", code=2)
    assert "image" in refused.stderr or "a text" in refused.stderr
    assert not refused.stdout and refused.stderr.count("\n") == 1


@pytest.mark.skipif(find_spec("cairosvg") is not None, reason="the library is there")
def test_a_picture_without_its_library_is_refused_before_anything_is_printed(small_run, tmp_path):
    folder, picture = small_run / "run" / "model", tmp_path / "x.png"
    refused = run("look", folder, "dog cow", "--rollout", "--png", picture, code=2)
    assert "regard[pictures]" in refused.stderr and refused.stderr.count("\n") == 1
    assert not refused.stdout and not picture.exists()
    assert not (tmp_path / "x.png").exists()
