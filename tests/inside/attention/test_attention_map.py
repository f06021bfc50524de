from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from closeness import VALUES
from naive import word_groups
from regard.core.errors import BadInput
from regard.inside.attention.attention_map import AttentionMap, merge


def attention(seed, *shape):
    weights = np.random.default_rng(seed).random(shape) + 1e-3
    return weights / weights.sum(axis=-1, keepdims=True)


def example():
    return AttentionMap("cross", ("a", "b"), ("x", "y", "z"), attention(0, 4, 5, 2, 3))


def test_select_takes_one_head_or_the_mean_of_what_is_left_open():
    weights = attention(0, 4, 5, 2, 3)
    shown = example()
    np.testing.assert_allclose(shown.select(2, 1), weights[2, 1], **VALUES)
    np.testing.assert_allclose(shown.select(layer=2), weights[2].mean(0), **VALUES)
    np.testing.assert_allclose(shown.select(head=1), weights[:, 1].mean(0), **VALUES)
    np.testing.assert_allclose(shown.select(), weights.mean((0, 1)), **VALUES)
    np.testing.assert_allclose(shown.select(-1, -1), weights[-1, -1], **VALUES)


def test_a_pruned_model_has_layers_with_fewer_heads():
    weights = attention(0, 3, 2, 3)
    shown = AttentionMap("cross", ("a", "b"), ("x", "y", "z"), (weights, weights[:1], weights[:0]))
    expected = (weights.mean(0) + weights[0]) / 2  # every layer that still looks counts the same
    np.testing.assert_allclose(shown.select(), expected, **VALUES)
    np.testing.assert_allclose(shown.select(head=2), weights[2], **VALUES)
    with pytest.raises(BadInput, match="layer 1, head 2"):
        shown.select(1, 2)
    with pytest.raises(BadInput, match="layer 2, mean of all heads"):
        shown.select(2)


def test_layers_and_heads_are_counted_from_the_end_too():
    shown = example()
    layers, heads = len(shown.layers), len(shown.layers[0])
    np.testing.assert_array_equal(shown.select(-1, -heads), shown.select(layers - 1, 0))
    assert shown.describe(-1, -heads) == shown.describe(layers - 1, 0)
    assert shown.describe(head=-1) == f"cross, mean of all layers, head {heads - 1}"
    uneven = replace(shown, layers=(shown.layers[0], shown.layers[1][:1]))
    assert uneven.describe(head=-1) == "cross, mean of all layers, head -1"
    assert uneven.describe(-1, -1) == "cross, layer 1, head 0"
    with pytest.raises(BadInput, match=r"no such head .cross, layer 1, head -2."):
        uneven.select(-1, -2)


def test_select_says_what_is_not_there():
    layers = len(example().layers)
    for wrong in (layers, -layers - 1, 9):
        with pytest.raises(BadInput, match=f"cross: no layer {wrong}; there are 0 to {layers - 1}"):
            example().select(layer=wrong)
    with pytest.raises(BadInput, match="cross: no such head"):
        example().select(head=5)
    for name in ("layer", "head"):
        with pytest.raises(BadInput, match=f"{name} must be a whole number"):
            example().select(**{name: "1"})


def test_weights_must_fit_the_words():
    with pytest.raises(ValueError, match=r"encoder, layer 0.*\(1, 2, 3\).*2 queries and 2 keys"):
        AttentionMap("encoder", ("a", "b"), ("a", "b"), (np.zeros((1, 2, 3)),))
    with pytest.raises(ValueError, match="layer 0"):
        AttentionMap("encoder", ("a",), ("a",), (np.zeros((1, 1)),))


def test_describe_and_repr_are_short():
    assert example().describe() == "cross, mean of all layers, mean of all heads"
    assert example().describe(1, 0) == "cross, layer 1, head 0"
    assert repr(example()) == "AttentionMap('cross', 4 layers of 5 heads, 2 queries × 3 keys)"


def test_merge_sums_what_goes_to_a_word_and_averages_what_comes_from_it():
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4], [0.5, 0.0, 0.5]])
    merged = merge(weights, [[0], [1, 2]], [[0, 1], [2]])
    np.testing.assert_allclose(merged, [[0.3, 0.7], [0.55, 0.45]])


def test_merge_drops_what_lies_on_no_word_and_knows_words_without_tokens():
    weights = np.array([[0.1, 0.2, 0.7]])
    np.testing.assert_allclose(
        merge(weights, [[0], []], [[0], [], [1]]), [[0.1, 0, 0.2], [0, 0, 0]]
    )
    assert merge(weights, [], []).shape == (0, 0)


words_of_tokens = st.lists(st.booleans(), min_size=1, max_size=12).map(
    lambda begins: list(np.cumsum(begins) - begins[0])
)


@given(st.integers(0, 99), words_of_tokens, words_of_tokens)
def test_rows_of_words_sum_to_one_like_rows_of_tokens(seed, query_words, key_words):
    weights = attention(seed, 2, len(query_words), len(key_words))
    merged = merge(weights, word_groups(query_words), word_groups(key_words))
    assert merged.shape == (2, query_words[-1] + 1, key_words[-1] + 1)
    np.testing.assert_allclose(merged.sum(-1), 1)


@given(st.integers(0, 99), st.integers(1, 6), st.integers(1, 6))
def test_words_of_one_token_leave_the_map_as_it_is(seed, queries, keys):
    weights = attention(seed, queries, keys)
    merged = merge(weights, word_groups(range(queries)), word_groups(range(keys)))
    np.testing.assert_allclose(merged, weights)


def test_a_map_of_words():
    weights = attention(3, 2, 2, 3, 3)
    tokens = AttentionMap("encoder", ("un", "seen", "."), ("un", "seen", "."), weights)
    groups = word_groups([0, 0, 1])
    words = tokens.merged(["unseen", "."], ["unseen", "."], groups, groups)
    assert (words.name, words.queries, words.keys) == ("encoder", ("unseen", "."), ("unseen", "."))
    np.testing.assert_allclose(words.select(1, 0), merge(weights[1, 0], groups, groups), **VALUES)
