"""Rules of word vectors from characters: convolutions, highway layers, projection."""

import numpy as np


def filter_maxima(ids, table, *, activation, places, **filters):
    """act(largest value of each filter over the characters of a word); ``places`` of the ids."""
    vectors = table[ids[:, slice(*places)].astype(int)]
    results = []
    for number in range(len(filters) // 2):
        weight, bias = filters[f"filter_{number}"], filters[f"shift_{number}"]
        reach = weight.shape[2]
        starts = range(vectors.shape[1] - reach + 1)
        windows = np.stack([vectors[:, start : start + reach] for start in starts], axis=1)
        results.append((np.einsum("twcd,fdc->twf", windows, weight) + bias).max(1))
    values = np.concatenate(results, axis=1)
    return np.maximum(values, 0) if activation == "relu" else np.tanh(values)


def highway(x, transform, transform_bias, gate, gate_bias):
    """g ⊙ relu(W x + b) + (1 - g) ⊙ x, with g = σ(V x + c)."""
    new = np.maximum(x @ transform.T + transform_bias, 0)
    carried = (1 + np.tanh((x @ gate.T + gate_bias) / 2)) / 2
    return carried * new + (1 - carried) * x


def word_vectors(ids, table, *, scale=1.0):
    """Row of the table for the first id of each word, times ``scale``."""
    return table[ids[:, 0].astype(int)] * scale


def twice(x):
    """Vectors for the forward and the backward direction: the same."""
    return np.concatenate([x, x], axis=1)
