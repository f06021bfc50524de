"""What a model costs to train: floating-point operations, counted from its facts."""

from collections.abc import Sequence

from regard.models.facts import PairFacts, Stack


def training_flops(facts: PairFacts, pairs: Sequence[tuple[int, int]]) -> float:
    """Multiplications and additions of one pass forward and backward over pairs of these lengths.

    Two per weight and token forward and four backward, and the same for each query-key pair.
    """
    source_T, target_T = sum(s for s, _ in pairs), sum(t for _, t in pairs)
    source, target = facts.source.stack, facts.target.stack
    forward = (
        _weights(source) * source_T
        + _weights(target) * target_T
        + _cross_key_weights(source, target) * source_T
        + target.width * facts.target.embed.vocab * target_T
        + _pair_cost(source) * sum(s * s for s, _ in pairs)
        + _pair_cost(target) * sum(t * t for _, t in pairs) / 2
        + _pair_cost(target) * target.cross * sum(s * t for s, t in pairs)
    )
    return 6.0 * forward


def _sizes(stack: Stack) -> tuple[int, int]:
    key = stack.width // stack.heads if stack.key is None else stack.key
    return stack.heads * key, stack.heads * (key if stack.value is None else stack.value)


def _weights(stack: Stack) -> int:
    """Weights each token of this stack meets: projections and feed-forward, in all layers."""
    key, value = _sizes(stack)
    own = stack.width * (2 * key + 2 * value)
    cross = stack.width * (key + value) if stack.cross else 0
    return stack.depth * (own + cross + 2 * stack.width * stack.inner)


def _cross_key_weights(source: Stack, target: Stack) -> int:
    """Weights each source token meets in the decoder: its keys and values."""
    key, value = _sizes(target)
    return target.depth * source.width * (key + value) if target.cross else 0


def _pair_cost(stack: Stack) -> int:
    """Products for each query and key: the score and the weighted sum."""
    return stack.depth * sum(_sizes(stack))
