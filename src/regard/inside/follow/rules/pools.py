"""Rules of pools and heads that read whole rows."""

import numpy as np


def first_states(states, weight=None, bias=0.0, *, count=1):
    """States of the first tokens, concatenated; with a weight, through tanh(W h + b)."""
    pooled = states[:count].reshape(1, -1)
    return pooled if weight is None else np.tanh(pooled @ weight.T + bias)


def last_state(states, *ends):
    """State of the last token; of a recurrent trunk, the final state of its top layer."""
    return ends[0] if ends else states[-1:]


def mean_state(states):
    """Mean of all states."""
    return states.mean(0, keepdims=True)


def joined_states(states):
    """Last state, maximum and mean of all states, concatenated."""
    return np.concatenate([states[-1], states.max(0), states.mean(0)])[None]


def mean_of_layers(states, first, first_bias, second, second_bias):
    """Mean of the logits of two linear layers, each over its half of the states."""
    halves = np.split(states, 2, axis=-1)
    return (halves[0] @ first.T + first_bias + halves[1] @ second.T + second_bias) / 2


def table(weight):
    """The numbers of a table of weights."""
    return weight


def learned_query(states, learned):
    """The learned query of an attention pool."""
    return learned[None, None]


def zero_query(states):
    """A query of zeros."""
    return np.zeros((1, 1, states.shape[1]))


def mean_query(states):
    """The mean of the states as query."""
    return states.mean(0)[None, None]


def mixture_weights(logits):
    """Softmax of a learned number for each layer."""
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def mixture(weights, *layers, scale):
    """γ Σ weight · states of all layers."""
    return scale * sum(weight * states for weight, states in zip(weights, layers, strict=True))
