"""ESIM, BiDAF, Clark & Gardner's reader and BCN written anew, on padded rectangles of pairs."""

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


def recurrent(layer, x_BLD, lengths):
    """A bidirectional layer over padded rows; texts without tokens are left at zero."""
    some = [row for row, length in enumerate(lengths) if length]
    packed = pack_padded_sequence(
        x_BLD[some].transpose(0, 1), [lengths[row] for row in some], enforce_sorted=False
    )
    states, _ = pad_packed_sequence(layer.kernel(packed)[0], total_length=x_BLD.shape[1])
    out = x_BLD.new_zeros(*x_BLD.shape[:2], states.shape[-1])
    out[some] = states.transpose(0, 1)
    return out


def mask_of(lengths, longest):
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


def softly(scores, mask):
    """Softmax over the last axis where the mask is true."""
    return torch.softmax(scores.masked_fill(~mask, -1e30), -1)


def cross(similarity, one, two, masks):
    """What each token of both texts attends to in the other, by scores of every pair."""
    scores_12, scores_21 = similarity(one, two), similarity(two, one)
    first = softly(scores_12, masks[1][:, None]) @ two
    second = softly(scores_21, masks[0][:, None]) @ one
    return (first, second), (scores_12, scores_21)


class Pair:
    """Both texts of each row as padded rectangles; a row of one text has it twice."""

    def __init__(self, vectors):
        firsts, seconds = zip(*vectors, strict=True)
        seconds = [b if len(b) else a for a, b in zip(firsts, seconds, strict=True)]
        sides = firsts, seconds
        self.lengths = [[len(text) for text in side] for side in sides]
        self.x = [pad_sequence(list(side), batch_first=True) for side in sides]
        pairs = zip(self.lengths, self.x, strict=True)
        self.masks = [mask_of(lengths, x.shape[1]) for lengths, x in pairs]

    def recurrent(self, layer, xs):
        both = zip(xs, self.lengths, strict=True)
        return [recurrent(layer, x, lengths) for x, lengths in both]


def dot(one, two):
    return one @ two.transpose(1, 2)


def pooled(x, mask, names, score=None):
    lengths, outside = mask.sum(1, keepdim=True), ~mask[:, :, None]
    parts = {
        "mean": (x * mask[:, :, None]).sum(1) / lengths,
        "max": x.masked_fill(outside, -1e30).amax(1),
        "min": x.masked_fill(outside, 1e30).amin(1),
    }
    if score is not None:
        weights = softly((x @ score.weight[0]), mask)
        parts["attention"] = (weights[:, :, None] * x).sum(1)
    return torch.cat([parts[name] for name in names], -1)


def esim(model, vectors):
    """Class logits of ESIM."""
    trunk, pair = model.trunk, Pair(vectors)
    states = pair.recurrent(trunk.layers[0], pair.x)
    contexts, _ = cross(dot, *states, pair.masks)
    dense = trunk.projection[0]
    compared = [torch.cat([x, c, x - c, x * c], -1) for x, c in zip(states, contexts, strict=True)]
    composed = pair.recurrent(trunk.layers[1], [F.relu(dense(each)) for each in compared])
    parts = zip(composed, pair.masks, strict=True)
    joined = torch.cat([pooled(x, mask, ("mean", "max")) for x, mask in parts], -1)
    return model.heads["label"].out(torch.tanh(model.pool.hidden[0].dense[0](joined)))


def bcn(model, vectors):
    """Class logits of the biattentive classification network, outside training."""
    trunk, pool, pair = model.trunk, model.pool, Pair(vectors)
    states = [F.relu(trunk.input_layer[0](x)) for x in pair.x]
    states = pair.recurrent(trunk.layers[0], states)
    contexts, _ = cross(dot, *states, pair.masks)
    compared = [torch.cat([x, x - c, x * c], -1) for x, c in zip(states, contexts, strict=True)]
    composed = pair.recurrent(trunk.layers[1], compared)
    names = ("max", "mean", "min", "attention")
    parts = zip(composed, pair.masks, strict=True)
    x = torch.cat([pooled(x, mask, names, pool.score) for x, mask in parts], -1)
    for layer in pool.hidden:
        norm = layer.norm
        x = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
        x = layer.dense.linear(x * norm.weight + norm.bias)
        x = torch.maximum(x[:, ::2], x[:, 1::2])
    return model.heads["label"].out(x)


def bidaf(model, vectors):
    """Span logits of BiDAF for the tokens of each text of each row."""
    trunk, pair = model.trunk, Pair(vectors)
    xs = pair.x
    for highway in trunk.input_layer:
        gates = [torch.sigmoid(highway.gate(x)) for x in xs]
        pairs = zip(gates, xs, strict=True)
        xs = [gate * F.relu(highway.transform(x)) + (1 - gate) * x for gate, x in pairs]
    states = pair.recurrent(trunk.layers[0], xs)
    contexts, summaries = flow(pair, states, trunk.score)
    flows = [
        torch.cat([h, c, h * c, h * summary], -1)
        for h, c, summary in zip(states, contexts, summaries, strict=True)
    ]
    modelled = flows
    for layer in trunk.layers[1:]:
        modelled = pair.recurrent(layer, modelled)
    last = pair.recurrent(trunk.last, modelled)
    return span_logits(model, vectors, flows, modelled, last)


def clark(model, vectors):
    """Span logits of Clark & Gardner's reader for the tokens of each text of each row."""
    trunk, pair = model.trunk, Pair(vectors)
    states = pair.recurrent(trunk.layers[0], pair.x)
    contexts, summaries = flow(pair, states, trunk.score)
    xs = [
        F.relu(trunk.projection[0](torch.cat([h, c, h * c, c * summary], -1)))
        for h, c, summary in zip(states, contexts, summaries, strict=True)
    ]
    sums = []
    for x, s, mask in zip(xs, pair.recurrent(trunk.layers[1], xs), pair.masks, strict=True):
        scores, diagonal = trilinear(trunk.self_score, s, s), torch.eye(s.shape[1]).bool()
        allowed = mask[:, None] & ~diagonal
        weights = softly(scores, allowed) * allowed.any(-1, keepdim=True)  # a word alone: zeros
        c = weights @ s
        sums.append(x + F.relu(trunk.self_projection[0](torch.cat([s, c, s * c], -1))))
    third = pair.recurrent(trunk.third, sums)
    both = [torch.cat(each, -1) for each in zip(sums, third, strict=True)]
    return span_logits(model, vectors, third, pair.recurrent(trunk.last, both))


def trilinear(score, one, two):
    w = torch.cat([score.query.weight[0], score.key.weight[0], score.product])
    one, two = one[:, :, None], two[:, None]
    one, two = torch.broadcast_tensors(one, two)
    return torch.cat([one, two, one * two], -1) @ w


def flow(pair, states, score):
    """Contexts of both texts, and the summary of each."""
    contexts, scores = cross(lambda one, two: trilinear(score, one, two), *states, pair.masks)
    summaries = []
    for here in (0, 1):
        h, mask, other = states[here], pair.masks[here], pair.masks[1 - here]
        largest = scores[here].masked_fill(~other[:, None], -1e30).amax(-1)
        summaries.append(softly(largest, mask)[:, None] @ h)
    return contexts, summaries


def span_logits(model, vectors, *states):
    logits = [model.heads["span"].out(torch.cat(each, -1)) for each in zip(*states, strict=True)]
    kept = []
    for row, (first, second) in enumerate(vectors):
        kept += [logits[0][row, : len(first)], logits[1][row, : len(second)]]
    return torch.cat(kept)
