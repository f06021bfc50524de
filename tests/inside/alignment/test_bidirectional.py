"""Readings chosen by the agreement of two directions."""

import numpy as np
import pytest

from naive import word_groups
from regard.inside.alignment.align import (
    AlignmentMethod,
    PairAttention,
    candidate_methods,
    extract_links,
)
from regard.inside.alignment.bidirectional import (
    AgreeingMethods,
    choose_agreeing_methods,
    multiply_directions,
)
from regard.metrics.alignment import flipped

TARGETS, SOURCES = 5, 4


def pair(seed, truth, good, layers=3, flip=False):
    """Noise in every layer but ``good``, which holds ``truth`` (target, source), shifted by one."""
    draw = np.random.default_rng(seed)
    truth = truth.T if flip else truth
    shape = (2, truth.shape[0] + 1, truth.shape[1])
    weights = [draw.random(shape) for _ in range(layers)]
    weights[good][:, 1:] += 3 * truth
    return PairAttention(weights, word_groups(range(shape[1] - 1)), word_groups(range(shape[2])))


def corpus(count=12):
    draw = np.random.default_rng(0)
    truths = [np.eye(TARGETS, SOURCES)[draw.permutation(TARGETS)] for _ in range(count)]
    forward = [pair(seed, truth, good=1) for seed, truth in enumerate(truths)]
    backward = [pair(99 + seed, truth, good=2, flip=True) for seed, truth in enumerate(truths)]
    return forward, backward


def test_it_finds_the_layers_that_say_the_same():
    forward, backward = corpus()
    agreed = choose_agreeing_methods(forward, backward)
    assert agreed.forward == AlignmentMethod(layer=1, shifted=True)
    assert agreed.backward == AlignmentMethod(layer=2, shifted=True)


def test_no_other_two_methods_agree_more():
    forward, backward = corpus(3)

    def share(one, other):
        """Twice the links in common over all links."""
        said = [extract_links(each, one) for each in forward]
        answered = [flipped(extract_links(each, other)) for each in backward]
        common = sum(len(a & b) for a, b in zip(said, answered, strict=True))
        return 2 * common / sum(map(len, said + answered))

    ours, theirs = candidate_methods(forward[0]), candidate_methods(backward[0])
    assert len(ours) == 3 * 2
    tried = {(one, other): share(one, other) for one in ours for other in theirs}
    best = max(tried, key=tried.__getitem__)
    assert choose_agreeing_methods(forward, backward) == AgreeingMethods(
        *best, pytest.approx(tried[best])
    )


def test_the_product_is_read_in_both_directions():
    """Source word 1 is sure of target 0; target 1 wavers, and the other direction decides."""
    said = np.array([[0.5, 0.5], [0.6, 0.4], [0, 0]])
    answered = np.array([[0.1, 0.9], [0.9, 0.1], [0, 0]])
    words = word_groups([0, 1])
    ours, theirs = (
        PairAttention([said[None]], words, words),
        PairAttention([answered[None]], words, words),
    )
    assert extract_links(ours, AlignmentMethod(0)) == {(0, 0), (1, 0), (0, 1)}
    forward, backward = multiply_directions(
        ours, theirs, AlignmentMethod(0), AlignmentMethod(0, spurious=True)
    )
    assert forward == backward == {(0, 1), (1, 0)}


@pytest.mark.parametrize("seed", range(5))
def test_the_product_has_no_side(seed):
    draw = np.random.default_rng(seed)
    words = [word_groups(range(count)) for count in (TARGETS, SOURCES)]
    ours = PairAttention([draw.random((2, TARGETS + 1, SOURCES))], *words)
    theirs = PairAttention([draw.random((2, SOURCES + 1, TARGETS))], *words[::-1])
    one = multiply_directions(ours, theirs, AlignmentMethod(0), AlignmentMethod(0, shifted=True))
    other = multiply_directions(theirs, ours, AlignmentMethod(0, shifted=True), AlignmentMethod(0))
    assert [flipped(links) for links in one] == list(reversed(other))
    weights = ours.layers[0].mean(0)[:-1] * theirs.layers[0].mean(0)[1:].T
    assert one[0] == {(int(row.argmax()), target) for target, row in enumerate(weights)}
    assert one[1] == {(source, int(row.argmax())) for source, row in enumerate(weights.T)}


def test_a_pair_without_words_is_no_obstacle():
    forward, backward = corpus(2)
    empty = PairAttention([np.ones((2, 1, 1))] * 3, [], [])
    agreed = choose_agreeing_methods([*forward, empty], [*backward, empty])
    assert agreed == choose_agreeing_methods(forward, backward)
    assert choose_agreeing_methods([empty], [empty]).share == 0.0


def test_both_directions_need_the_same_pairs():
    forward, backward = corpus(2)
    for ours, theirs in (([], []), (forward, backward[:1])):
        with pytest.raises(ValueError, match="pairs forward"):
            choose_agreeing_methods(ours, theirs)
