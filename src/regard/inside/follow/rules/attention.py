"""Rules of attention: projections, positions, masks, scores, softmax, weighted sums."""

import math

import numpy as np


def project(x, weight, bias=0.0, *, first, last, heads):
    """Rows ``first`` to ``last`` of W x + b, split into heads: (tokens, heads, size)."""
    bias = bias[first:last] if np.ndim(bias) else bias
    return (x @ weight[first:last].T + bias).reshape(len(x), heads, -1)


def turn(x, *, size, base, linear=None, llama3=None):
    """Pairs (i, i + F) of the first ``size`` dimensions turned by position · base^(-2i / size)."""
    half = size // 2
    frequencies = float(base) ** (-np.arange(half) * 2.0 / size)
    if linear is not None:
        frequencies = frequencies / linear
    if llama3 is not None:
        frequencies = _mixed(frequencies, *llama3)
    angles = (np.arange(len(x))[:, None] * frequencies)[:, None]
    first, second, rest = x[..., :half], x[..., half:size], x[..., size:]
    cosine, sine = np.cos(angles), np.sin(angles)
    turned = first * cosine - second * sine, second * cosine + first * sine
    return np.concatenate([*turned, rest], axis=-1)


def _mixed(frequencies, factor, low, high, original):
    """Frequencies of Llama 3.1: high ones as they are, low ones divided by ``factor``."""
    share = (original * frequencies / (2 * math.pi) - low) / (high - low)
    share = np.clip(share, 0, 1)
    return (1 - share) * frequencies / factor + share * frequencies


def mask(queries, keys, *, left, right):
    """1 where a key is at most ``left`` places before the query and ``right`` after it."""
    ahead = np.arange(len(keys)) - np.arange(len(queries))[:, None]
    allowed = np.ones(ahead.shape)
    if left is not None:
        allowed *= ahead >= -left
    if right is not None:
        allowed *= ahead <= right
    return allowed[None]


def _for_heads(x, heads):
    """Keys or values of each head of queries: successive heads share them."""
    return np.repeat(x, heads // x.shape[1], axis=1)


def dot_scores(queries, keys, bias=0.0, *, scale):
    """q·k · scale + bias of each head, query and key."""
    keys = _for_heads(keys, queries.shape[1])
    return np.einsum("lhk,shk->hls", queries, keys) * scale + bias


def clipped_distances(queries, keys, *, farthest):
    """Place of each key minus place of each query, at most ``farthest`` either way."""
    ahead = np.arange(len(keys)) - np.arange(len(queries))[:, None]
    return np.clip(ahead, -farthest, farthest)


def distance_vector_scores(queries, keys, vectors, *, farthest):
    """q·(k + a) / √K, with the vector a of the clipped distance."""
    index = clipped_distances(queries, keys, farthest=farthest) + farthest
    content = np.einsum("lhk,shk->hls", queries, keys)
    by_distance = np.einsum("lhk,lsk->hls", queries, vectors[index])
    return (content + by_distance) / math.sqrt(queries.shape[-1])


def bucket_bias(queries, keys, table, *, buckets, farthest, causal):
    """Learned number of the bucket of the distance of query and key, by head."""
    behind = np.arange(len(queries))[:, None] - np.arange(len(keys))
    count, first = (buckets, 0) if causal else (buckets // 2, (behind < 0) * (buckets // 2))
    distance = np.maximum(behind, 0) if causal else np.abs(behind)
    exact = count // 2
    growth = np.log(np.maximum(distance, 1) / exact) / math.log(farthest / exact)
    far = exact + np.floor(growth * (count - exact) + 1e-6).astype(int)
    bucket = first + np.where(distance < exact, distance, np.minimum(far, count - 1))
    return table[bucket].transpose(2, 0, 1)


def softmax(scores, mask):
    """e^score / Σ e^score over the keys that the mask allows; 0 elsewhere."""
    allowed = (mask > 0) & np.isfinite(scores)
    highest = np.where(allowed, scores, -np.inf).max(-1, keepdims=True, initial=-1e300)
    powers = np.where(allowed, np.exp(np.where(allowed, scores - highest, 0.0)), 0.0)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1.0)


def weighted_sum(weights, values):
    """Σ weight · value over the keys, for each head and query."""
    return np.einsum("hls,shv->lhv", weights, _for_heads(values, len(weights)))


def join_heads(outputs, weight, bias=0.0):
    """Outputs of all heads side by side, projected."""
    return outputs.reshape(len(outputs), -1) @ weight.T + bias


def bias_alone(x, bias):
    """The bias of the last projection: all heads were removed."""
    return np.zeros((len(x), 1)) + bias


def _halved_sinusoids(places, width):
    """Sines, then cosines, of places / 10000^(2i / width)."""
    angles = places[..., None] * 10_000.0 ** (-np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)[..., :width]


def distance_scores(queries, keys, distance, bias):
    """(q + w)·r / √K, with r the projected sinusoid of the distance of query and key."""
    gaps = np.arange(len(queries))[:, None] - np.arange(len(keys))
    vectors = _halved_sinusoids(gaps, distance.shape[1]) @ distance.T
    vectors = vectors.reshape(*gaps.shape, *queries.shape[1:])
    return np.einsum("lhk,lshk->hls", queries + bias, vectors) / math.sqrt(queries.shape[-1])


def segment_scores(queries, keys, segments, table, bias):
    """(q + b)·s / √K, with a vector s for keys of the query's segment and one for others."""
    same, other = np.einsum("lhk,shk->shl", queries + bias, table)
    is_same = segments[:, None] == segments
    both = np.where(is_same, same[..., None], other[..., None])
    return both / math.sqrt(queries.shape[-1])


def relative_scores(queries, keys, *terms, bias):
    """(q + u)·k / √K, plus the scores by distance and by segment."""
    content = np.einsum("lhk,shk->hls", queries + bias, keys) / math.sqrt(queries.shape[-1])
    return content + sum(terms)
