"""Rules of recurrent layers: gates, memory cells, states, bridge, readouts."""

import numpy as np


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return (1 + np.tanh(x / 2)) / 2


def _read(inputs, roles):
    """Inputs of each token, side by side, and other inputs by their roles."""
    named = dict(zip(roles, inputs, strict=True))
    parts, length = [], len(named["x"])
    for role in ("x", "summary", "context", "fed"):
        if role == "fed" and role in named:  # what the step before gave
            parts.append(_before(named[role], np.zeros_like(named[role][:1])))
        elif role in named:
            part = named[role]
            parts.append(np.repeat(part, length, axis=0) if role == "summary" else part)
    return np.concatenate(parts, axis=1), named


def _before(states, first, *, backward=False):
    """State before each token, in reading order; before the first token, the ``first`` state."""
    if backward:
        return np.concatenate([states[1:], first])
    return np.concatenate([first, states[:-1]])


def _ways(direction):
    """Suffix of the weights of each direction, and whether it reads from the end."""
    if direction == "both":
        return (("", False), ("_reverse", True))
    return (("", direction == "backward"),)


def _first(part, width, way, initial, index):
    """First state of a direction: given, learned or zeros."""
    if part is not None:
        return part[0, way * width : (way + 1) * width]
    return np.zeros(width) if initial is None else initial[index]


def _products(x, h, weights, way):
    """W x + b and U h + d."""
    of_input = x @ weights["input" + way].T + weights.get("input_bias" + way, 0.0)
    return of_input, h @ weights["state" + way].T + weights.get("state_bias" + way, 0.0)


def gates(*inputs, roles, cell, direction="forward", **weights):
    """Gates of all tokens, from the inputs and the state before each token."""
    x, named = _read(inputs, roles)
    width, results = weights["state"].shape[1], []
    states = named["states"] - named["below"] if "below" in named else named["states"]
    for number, (way, backward) in enumerate(_ways(direction)):
        first = _first(named.get("h"), width, number, weights.get("initial"), 0)[None]
        own = states[:, number * width : (number + 1) * width]
        h = _before(own, first, backward=backward)
        of_input, of_state = _products(x, h, weights, way)
        if cell == "lstm":
            write, keep, new, read = np.split(of_input + of_state, 4, axis=1)
            parts = [sigmoid(write), sigmoid(keep), np.tanh(new), sigmoid(read)]
        else:
            (in_r, in_z, in_n), (of_r, of_z, of_n) = (
                np.split(part, 3, axis=1) for part in (of_input, of_state)
            )
            reset = sigmoid(in_r + of_r)
            parts = [reset, sigmoid(in_z + of_z), np.tanh(in_n + reset * of_n)]
        results.append(np.stack(parts, axis=1))
    return np.stack(results, axis=1) if direction == "both" else results[0]


def plain_states(*inputs, roles, residual=False, direction="forward", **weights):
    """States of all tokens of an RNN without gates, plus its input if ``residual``."""
    x, named = _read(inputs, roles)
    width, results = weights["state"].shape[1], []
    for number, (way, backward) in enumerate(_ways(direction)):
        h = _first(named.get("h"), width, number, weights.get("initial"), 0)
        states = np.zeros((len(x), width))
        for time in range(len(x))[:: -1 if backward else 1]:
            h = states[time] = np.tanh(sum(_products(x[time], h, weights, way)))
        results.append(states)
    states = np.concatenate(results, axis=1)
    return states + named["x"] if residual else states


def _places(length, direction):
    """Places of each direction, in its reading order."""
    ways = {"forward": (False,), "backward": (True,), "both": (False, True)}[direction]
    return [range(length)[::-1] if backward else range(length) for backward in ways]


def _by_way(values, axes):
    """Values with an axis of directions after the axis of tokens."""
    return values if values.ndim == axes else values[:, None]


def memory_cells(gates, begin=None, *, direction="forward", initial=None, order="ifgo", clip=None):
    """c_t = f ⊙ c_{t-1} + i ⊙ g; ``clip`` limits its size."""
    at, both = {gate: order.index(gate) for gate in order}, direction == "both"
    gates = _by_way(gates, 4)
    cells = np.zeros((len(gates), gates.shape[1], gates.shape[3]))
    width = gates.shape[3]
    for way, places in enumerate(_places(len(gates), direction)):
        c = _first(begin, width, way, initial, 1)
        for time in places:
            one = gates[time, way]
            c = one[at["f"]] * c + one[at["i"]] * one[at["g"]]
            c = c if clip is None else np.clip(c, -clip, clip)
            cells[time, way] = c
    return cells if both else cells[:, 0]


def lstm_states(gates, cells, below=None):
    """h_t = o ⊙ tanh(c_t), plus the input of the layer if it is residual."""
    gates, cells = _by_way(gates, 4), _by_way(cells, 3)
    states = (gates[:, :, 3] * np.tanh(cells)).reshape(len(gates), -1)
    return states if below is None else states + below


def gru_states(gates, *more, roles=(), direction="forward", initial=None):
    """h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}, plus the input of the layer if it is residual."""
    named, gates = dict(zip(roles, more, strict=True)), _by_way(gates, 4)
    states = np.zeros((len(gates), gates.shape[1], gates.shape[3]))
    for way, places in enumerate(_places(len(gates), direction)):
        h = _first(named.get("h"), gates.shape[3], way, initial, 0)
        for time in places:
            _, update, new = gates[time, way]
            h = (1 - update) * new + update * h
            states[time, way] = h
    states = states.reshape(len(gates), -1)
    return states + named["below"] if "below" in named else states


def final_state(states, below=None, *, ways, backward=False):
    """State after the last token that a direction reads, of all directions."""
    states = states if below is None else states - below
    states = states.reshape(len(states), ways, -1)
    places = (0 if backward else -1, 0)[:ways]
    return np.concatenate([states[place, way] for way, place in enumerate(places)])[None]


def last_of_states(states):
    """State of the last token."""
    return states[-1:]


def zeros_like_last(states):
    """Zeros, as many as a state has numbers."""
    return np.zeros_like(states[-1:])


def bridge(states, below=None, *, weight, bias, summary, ways, first=0, last=None):
    """tanh(W s + b), with s the mean, the last or the backward final state of the encoder."""
    if below is not None:  # a final state is one before the residual sum
        states = states - below
    if summary == "mean":
        read = states.mean(0)
    elif summary == "given" or ways == 0:  # a summary, or a trunk without final states
        read = states[-1]
    else:
        forward, *backward = states.reshape(len(states), ways, -1).transpose(1, 0, 2)
        ends = [forward[-1], *(way[0] for way in backward)]
        read = ends[-1] if summary == "backward" else np.concatenate(ends)
    if summary == "backward" and ways == 0:
        read = np.split(read, 2)[1]
    return np.tanh(weight[first:last] @ read + bias[first:last])[None]


def previous_states(states, first, below=None):
    """State before each token: the first one, then those of the tokens before."""
    states = states if below is None else states - below
    return np.concatenate([first, states[:-1]])[:, None]


def one_head(states):
    """States as the values of one head."""
    return states[:, None]


def product(values, key):
    """Keys of the additive score, U h."""
    return np.einsum("shk,hka->sha", values, key)


def bilinear_keys(values, weight):
    """Keys of the bilinear score, W h."""
    return np.einsum("shj,hkj->shk", values, weight)


def unit_vectors(values):
    """Vectors of length 1."""
    return values / np.maximum(np.sqrt((values**2).sum(-1, keepdims=True)), 1e-12)


def additive_scores(queries, keys, query, v):
    """v · tanh(W q + U h)."""
    from_query = np.einsum("lhk,hka->lha", queries, query)
    both = np.tanh(from_query[:, None] + keys[None])
    return np.einsum("lsha,ha->hls", both, v)


def cosine_scores(queries, keys):
    """Cosine of the angle of query and key."""
    return np.einsum("lhk,shk->hls", unit_vectors(queries), keys)


def location_scores(queries, keys, weight):
    """Row of W q for the place of each key; no score beyond the last row."""
    by_place = np.einsum("lhk,hkp->hlp", queries, weight)
    known = min(by_place.shape[-1], len(keys))
    rest = np.full((*by_place.shape[:2], len(keys) - known), -np.inf)
    return np.concatenate([by_place[..., :known], rest], axis=-1)


def context(weights, values):
    """Σ weight · value of the one head."""
    return np.einsum("hls,shv->lv", weights, values)


def combined(contexts, states, weight):
    """tanh(W [c; h])."""
    return np.tanh(np.concatenate([contexts, states], axis=1) @ weight.T)


def maxout(*parts, weight, bias, repeats=()):
    """Larger of each pair of outputs of W x + b."""
    length = len(parts[0])
    rows = [np.repeat(part, length, 0) if len(part) != length else part for part in parts]
    outputs = np.concatenate(rows, axis=1) @ weight.T + bias
    return outputs.reshape(length, -1, 2).max(-1)


def _clip(x, limit):
    """x, at most ``limit`` from 0."""
    return x if limit is None else np.clip(x, -limit, limit)


def projected_gates(x, states, below=None, *, gates, shift):
    """Gates i, g, f and o of both directions, with 1 added inside of f."""
    states, results = states if below is None else states - below, []
    for way, (inputs, own) in enumerate(
        zip(np.split(x, 2, 1), np.split(states, 2, 1), strict=True)
    ):
        h = _before(own, np.zeros_like(own[:1]), backward=way == 1)
        sums = np.concatenate([inputs, h], axis=1) @ gates[way] + shift[way]
        write, new, keep, read = np.split(sums, 4, axis=1)
        parts = [sigmoid(write), np.tanh(new), sigmoid(keep + 1), sigmoid(read)]
        results.append(np.stack(parts, axis=1))
    return np.stack(results, axis=1)


def projected_states(gates, cells, below=None, *, projection, clip):
    """Projection of o ⊙ tanh(c) of each direction, plus the input if the layer is residual."""
    read = gates[:, :, 3] * np.tanh(cells)
    states = _clip(np.einsum("twc,wcd->twd", read, projection), clip).reshape(len(gates), -1)
    return states if below is None else states + below


def logits_by_direction(states, weight, bias=0.0):
    """Logits of both halves of the states."""
    return states.reshape(len(states), 2, -1) @ weight.T + bias


def highway_states(x, weight, bias, states, *, backward):
    """States of an LSTM with a gated connection from its input to its output."""
    width = states.shape[1]
    inputs, results = x @ weight.T + bias, np.zeros((len(x), width))
    h, c = np.zeros(width), np.zeros(width)
    for time in range(len(x))[:: -1 if backward else 1]:
        sums = inputs[time, : 5 * width] + states @ h
        write, keep, read, carry = np.split(sigmoid(sums[: 4 * width]), 4)
        c = keep * c + write * np.tanh(sums[4 * width :])
        h = (1 - carry) * inputs[time, 5 * width :] + carry * read * np.tanh(c)
        results[time] = h
    return results


def gated_convolution(x, weight, bias):
    """(x + GLU(W [x_{i-k}; …; x_{i+k}] + b)) · √½."""
    width = x.shape[1]
    reach = weight.shape[1] // width // 2
    wide = np.concatenate([np.zeros((reach, width)), x, np.zeros((reach, width))])
    windows = [wide[place : place + len(x)] for place in range(2 * reach + 1)]
    values, gate = np.split(np.concatenate(windows, axis=1) @ weight.T + bias, 2, axis=1)
    return (x + values * sigmoid(gate)) * np.sqrt(0.5)
