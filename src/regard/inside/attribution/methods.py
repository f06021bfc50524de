"""Methods of attribution: how much each word contributes to each target of an input.

All return (targets, words). Gradient methods explain logits; leave-one-out explains
log-probabilities.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import torch

from regard.core.errors import BadInput
from regard.inside.attribution.target_function import TargetFunction
from regard.models.attention_site import AttentionSite
from regard.models.encoder_decoder import ModelFacts

STEPS, MOST_STEPS = 16, 512  # of integrated gradients: at first, and at most
COMPLETE = 0.01  # largest error of completeness, as a share of the difference


class Completeness(NamedTuple):
    """Sum of integrated gradients, and the difference of the logits that it approximates.

    ``error`` is the largest |sum − difference| / |difference| of all targets.
    """

    steps: int
    sums: tuple[float, ...]
    differences: tuple[float, ...]
    error: float

    @property
    def complete(self) -> bool:
        """Whether the error is at most 1%."""
        return self.error <= COMPLETE

    @property
    def summary(self) -> str:
        """Steps, sum, difference and error in one line."""
        worst = max(range(len(self.sums)), key=lambda n: _error(self.sums[n], self.differences[n]))
        figures = f"sum {self.sums[worst]:.4f}, f(x) − f(baseline) {self.differences[worst]:.4f}"
        fault = "" if self.complete else ": not complete to 1%, do not rely on it"
        return f"{self.steps} steps, {figures}, error {100 * self.error:.2f}%{fault}"


class MethodResult(NamedTuple):
    """Attributions (targets, words), and the completeness of integrated gradients."""

    weights_MW: np.ndarray
    completeness: Completeness | None = None


def gradient_times_input(function: TargetFunction) -> MethodResult:
    """Product of each embedding with the gradient of the logit (Shrikumar et al., 2016)."""
    x_LD, targets = function.x_LD, range(len(function.targets.names))
    products = []
    for part in function.in_batches(targets):
        points_NLD = x_LD.expand(len(part), -1, -1)
        gradients_NLD = function.gradients(points_NLD, part)
        products.append((gradients_NLD.double() * x_LD.double()).sum(-1))
    return MethodResult(function.by_word(torch.cat(products).cpu().numpy()))


def integrated_gradients(
    function: TargetFunction, steps: int = STEPS, most: int = MOST_STEPS
) -> MethodResult:
    """Integrated gradients (Sundararajan et al., 2017, arXiv:1703.01365, equation 1).

    The path from the baseline to the input is a line, integrated by Gauss-Legendre quadrature. The
    number of steps is doubled until attributions sum to f(x) − f(baseline) within 1%, or up to
    ``most``.
    """
    words = len(function.given.words)
    ends_2M = function.scores_without(np.stack([np.ones(words, bool), np.zeros(words, bool)]))
    difference_M = (ends_2M.logits_NM[1] - ends_2M.logits_NM[0]).numpy()
    while True:
        values_ML = _integrate(function, steps)
        sum_M = values_ML.sum(1)
        error = max(map(_error, sum_M.tolist(), difference_M.tolist()))
        if error <= COMPLETE or 2 * steps > most:
            known = Completeness(steps, tuple(sum_M.tolist()), tuple(difference_M.tolist()), error)
            return MethodResult(function.by_word(values_ML), known)
        steps *= 2


def _integrate(function: TargetFunction, steps: int) -> np.ndarray:
    """Integrated gradients (targets, tokens) with this number of steps."""
    x_LD, baseline_LD = function.x_LD, function.baseline_LD
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    shares, weights = (nodes + 1) / 2, weights / 2
    targets = range(len(function.targets.names))
    mean_MLD = torch.zeros(len(targets), *x_LD.shape, dtype=torch.float64, device=x_LD.device)
    for part in function.in_batches(product(targets, range(steps))):
        numbers = [target for target, _ in part]
        share_N11 = torch.tensor([shares[at] for _, at in part])[:, None, None].to(x_LD)
        points_NLD = baseline_LD + share_N11 * (x_LD - baseline_LD)
        weight_N = torch.tensor([weights[at] for _, at in part], device=x_LD.device)
        gradients_NLD = function.gradients(points_NLD, numbers).double()
        at_N = torch.tensor(numbers, device=x_LD.device)
        mean_MLD.index_add_(0, at_N, gradients_NLD * weight_N[:, None, None])
    values_ML = (mean_MLD * (x_LD - baseline_LD).double()).sum(-1)
    return values_ML.cpu().numpy()


def _error(total: float, difference: float) -> float:
    """|total − difference| as a share of the difference; tiny differences count as exact."""
    distance = abs(total - difference)
    return 0.0 if distance <= 1e-6 else distance / max(abs(difference), 1e-12)


def leave_one_out(function: TargetFunction) -> MethodResult:
    """Log-probability of the target minus its log-probability without the word."""
    words = len(function.given.words)
    scores_NM = function.scores_without(np.eye(words + 1, words, k=-1, dtype=bool))[1].numpy()
    return MethodResult((scores_NM[:1] - scores_NM[1:]).T)


def rollout(function: TargetFunction) -> MethodResult:
    """Attention rollout (Abnar & Zuidema, 2020) to the tokens on which the target depends.

    In a decoder, cross-attention and the identity count one half each, as self-attention does.
    """
    weights = _attention(function, _mean_of_heads)
    return MethodResult(function.by_word(_follow(function, weights, _rolled, _rolled_decoder)))


def _rolled(attention_MLS: np.ndarray) -> np.ndarray:
    mixed_MLS = attention_MLS + np.eye(attention_MLS.shape[-1])
    return mixed_MLS / mixed_MLS.sum(-1, keepdims=True)


def _rolled_decoder(
    source_MLL: np.ndarray, layers: Sequence[tuple[np.ndarray | None, np.ndarray]]
) -> np.ndarray:
    """Rollout (targets, queries, tokens) over the tokens of the source and the written words."""
    targets, written, length = layers[0][1].shape
    joint = np.concatenate([source_MLL, np.zeros((targets, written, length))], axis=1)
    for self_MTT, cross_MTL in layers:
        for block, start in ((self_MTT, length), (cross_MTL, 0)):
            if block is not None:
                mixed = np.zeros((targets, length + written, length + written))
                mixed[:, length:, start : start + block.shape[-1]] = block
                joint = _rolled(mixed) @ joint
    return joint[:, length:]


def raw_attention(function: TargetFunction) -> MethodResult:
    """Attention of the last layer, mean of heads, from the tokens on which the target depends.

    Only of self-attention; what earlier layers mix is ignored.
    """
    weights = _attention(function, _mean_of_heads)
    last = {site: layers[-1:] for site, layers in weights.items() if site.kind == "self"}
    flow = _follow(function, last, lambda layer_MLS: layer_MLS, _rolled_decoder)
    return MethodResult(function.by_word(flow))


def attention_times_gradient(function: TargetFunction) -> MethodResult:
    """Relevance by attention and its gradients (Chefer et al., 2021, arXiv:2103.15679, section 3).

    Ā is the mean over heads of the positive part of A ⊙ ∂f/∂A; self-attention adds Ā·R to each
    relevance R of its tokens (equations 5 to 7). The identity, a token's relevance to itself, is
    left out at the end.
    """
    weights = _attention(function, _positive_products)

    def step(attention_MLS: np.ndarray) -> np.ndarray:
        return attention_MLS + np.eye(attention_MLS.shape[-1])

    flow = _follow(function, weights, step, _relevance_of_decoder, to_itself=False)
    return MethodResult(function.by_word(flow))


def _relevance_of_decoder(
    source_MLL: np.ndarray, layers: Sequence[tuple[np.ndarray | None, np.ndarray]]
) -> np.ndarray:
    """Relevance (targets, queries, tokens) of the source to the words that are written.

    Self-attention is as in the encoder; cross-attention adds norm(R_tt)ᵀ·Ā·norm(R_ss) (equations 8
    to 10), with the relevance of written words R_tt and of source tokens R_ss to each other.
    """
    targets, written, length = layers[0][1].shape
    own_MTT = np.broadcast_to(np.eye(written), (targets, written, written))
    flow_MTL = np.zeros((targets, written, length))
    from_source_MLL = _normalised(source_MLL)
    for self_MTT, cross_MTL in layers:
        if self_MTT is not None:
            flow_MTL = flow_MTL + self_MTT @ flow_MTL
            own_MTT = own_MTT + self_MTT @ own_MTT
        flow_MTL = flow_MTL + _normalised(own_MTT).swapaxes(1, 2) @ cross_MTL @ from_source_MLL
    return flow_MTL


def _normalised(relevance_MLL: np.ndarray) -> np.ndarray:
    """Relevance whose rows, without the identity, sum to 1 (equations 8 and 9)."""
    identity = np.eye(relevance_MLL.shape[-1])
    others_MLL = relevance_MLL - identity
    sum_ML1 = others_MLL.sum(-1, keepdims=True)
    return np.divide(others_MLL, sum_ML1, np.zeros_like(others_MLL), where=sum_ML1 > 0) + identity


FOLLOWED = ("self", "cross", "pool")
Attention = Mapping[AttentionSite, Sequence[np.ndarray]]
"""Attention (targets, queries, keys) of each layer, one matrix for all heads, by site."""


def _mean_of_heads(weights: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    return weights.double().mean(1)


def _positive_products(weights: torch.Tensor, gradient: torch.Tensor | None) -> torch.Tensor:
    products = torch.zeros_like(weights) if gradient is None else weights * gradient
    return products.double().clamp(min=0).mean(1)


def followed_sites(facts: ModelFacts) -> list[AttentionSite]:
    """Attention through which an output is followed to the input; not between two texts."""
    sites = facts.attention_sites
    return [site for site in sites if site.kind in FOLLOWED and any(site.heads)]


def _attention(
    function: TargetFunction,
    merge_heads: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor],
) -> Attention:
    """Attention of all layers on the input, with the gradients of the logit of each target."""
    sites = followed_sites(function.model.facts)
    if not sites:
        remedy = "choose gradient, integrated or leave-one-out"
        raise BadInput(f"this model has no attention that leads to its input: {remedy}")
    names = [name for site in sites for name in site.weights_with_heads]
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for part in function.in_batches(range(len(function.targets.names))):
        points_NLD = function.x_LD.expand(len(part), -1, -1).clone().requires_grad_()
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            scores, tape = function.run(points_NLD, *names)
            total = scores.logits_NM[range(len(part)), part].sum()
            weights = [tape.records[name] for name in names]
            gradients = torch.autograd.grad(total, weights, allow_unused=True)
        for name, each, gradient in zip(names, weights, gradients, strict=True):
            parts[name].append(merge_heads(each.detach(), gradient).cpu().numpy())
    joined = {name: np.concatenate(of_name) for name, of_name in parts.items()}
    none = {site: np.zeros_like(joined[site.weights_with_heads[0]]) for site in sites}
    return {site: [joined.get(name, none[site]) for name in site.weights] for site in sites}


def _follow(
    function: TargetFunction,
    attention: Attention,
    step: Callable[[np.ndarray], np.ndarray],
    decoder: Callable[[np.ndarray, Sequence[tuple[np.ndarray | None, np.ndarray]]], np.ndarray],
    *,
    to_itself: bool = True,
) -> np.ndarray:
    """Flow (targets, tokens) from the tokens that decide to the input's tokens, layer by layer.

    ``decoder`` goes on from the flow in the source through layers of (self-attention or None,
    cross-attention). Without ``to_itself``, the identity is left out where tokens of the input
    decide.
    """
    by_kind = {(site.side, site.kind): layers for site, layers in attention.items()}
    targets, length = len(function.targets.names), len(function.x_LD)
    flow_MLL = np.broadcast_to(np.eye(length), (targets, length, length))
    for layer_MLL in by_kind.get((function.side, "self"), ()):
        flow_MLL = step(layer_MLL) @ flow_MLL
    if (pooled := by_kind.get((function.side, "pool"))) is not None:
        return (pooled[0] @ flow_MLL)[:, 0]
    if (cross := by_kind.get(("target", "cross"))) is None:
        flow_MLL = flow_MLL if to_itself else flow_MLL - np.eye(length)
        return (_deciding_tokens(function)[:, None] @ flow_MLL)[:, 0]
    own = by_kind.get(("target", "self"), [None] * len(cross))
    flow_MTL = decoder(flow_MLL, [*zip(own, cross, strict=True)])
    at = [[place for place, _ in target.places] for target in function.targets.targets]
    return np.stack([flow_MTL[n][places].mean(0) for n, places in enumerate(at)])


def _deciding_tokens(function: TargetFunction) -> np.ndarray:
    """Weights (targets, tokens) of the tokens whose last states the target depends on.

    All have the same weight: a class token, a predicted position, or all tokens of a mean.
    """
    path, length = f"{function.side}.output", len(function.x_LD)
    rows = []
    for target in range(len(function.targets.names)):
        points_NLD = function.x_LD[None].clone().requires_grad_()
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            scores, tape = function.run(points_NLD, path)
            (gradient,) = torch.autograd.grad(
                scores.logits_NM[0, target], tape.records[path], allow_unused=True
            )
        used_L = np.ones(length)
        if gradient is not None:
            used_L = (gradient.abs().sum(-1) > 0).double().cpu().numpy()
        rows.append(used_L / max(used_L.sum(), 1))
    return np.stack(rows)


def methods(
    steps: int = STEPS, most_steps: int = MOST_STEPS
) -> dict[str, Callable[[TargetFunction], MethodResult]]:
    """All methods by name; integrated gradients begin with ``steps`` and end at ``most_steps``."""
    return {
        "gradient": gradient_times_input,
        "integrated": partial(integrated_gradients, steps=steps, most=most_steps),
        "rollout": rollout,
        "attention-gradient": attention_times_gradient,
        "leave-one-out": leave_one_out,
    }


NEED_ATTENTION = ("rollout", "attention-gradient")
TITLES = {
    "gradient": "gradient × input",
    "integrated": "integrated gradients",
    "rollout": "attention rollout",
    "attention-gradient": "attention × gradient",
    "leave-one-out": "leave-one-out",
}
