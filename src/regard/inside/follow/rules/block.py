"""Rules of the parts of a Transformer block around its attention: norms, sums, feed-forward."""

import math

import numpy as np


def relu(x):
    """max(0, x)."""
    return np.maximum(x, 0)


def gelu(x):
    """x Φ(x), with the distribution function Φ of a standard normal variable."""
    return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


def gelu_tanh(x):
    """Approximation of x Φ(x) by tanh."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return (1 + np.tanh(x / 2)) / 2


def gelu_sigmoid(x):
    """Approximation of x Φ(x) by σ."""
    return x * sigmoid(1.702 * x)


def swish(x):
    """x σ(x)."""
    return x * sigmoid(x)


def tanh(x):
    """(e^x - e^-x) / (e^x + e^-x)."""
    return np.tanh(x)


def copy(x):
    """The same values."""
    return x


ACTIVATIONS = {
    "relu": relu,
    "gelu": gelu,
    "gelu-tanh": gelu_tanh,
    "gelu-sigmoid": gelu_sigmoid,
    "swish": swish,
    "tanh": tanh,
    "none": copy,
}


def linear(x, weight, bias=0.0, *, first=0, last=None, activation="none", scale=1.0):
    """act(s x Wᵀ + b), with the rows ``first`` to ``last`` of W and b."""
    bias = bias[first:last] if np.ndim(bias) else bias
    return ACTIVATIONS[activation](scale * x @ weight[first:last].T + bias)


def layer_norm(x, weight, bias=0.0, extra=None, *, eps):
    """(x - mean) / √(variance + ε) · g + b; with ``extra``, of the sum with its first vector."""
    x = x if extra is None else x + extra[0]
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def rms_norm(x, weight, *, eps):
    """x / √(mean of x² + ε) · g."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight


def residual_sum(x, update, layer_scale=1.0):
    """The state plus what the sublayer adds to it."""
    return x + update * layer_scale


def inner_layer(x, weight, bias=0.0, *, activation, gated):
    """act(x Wᵀ + b), or act(x Vᵀ) ⊙ x Wᵀ if ``gated``, with V above W."""
    inner = x @ weight.T + bias
    if not gated:
        return ACTIVATIONS[activation](inner)
    half = inner.shape[-1] // 2
    return ACTIVATIONS[activation](inner[:, :half]) * inner[:, half:]
