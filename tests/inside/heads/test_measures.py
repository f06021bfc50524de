"""Measures of heads made by hand: what they attend to is what the figures say."""

import numpy as np
import pytest

from regard.inside.heads.head_report import HeadFigures
from regard.inside.heads.head_weights import HeadWeights
from regard.inside.heads.measures import OVER_TOKENS, OVER_WORDS, MeanOverQueries

WORDS = 8  # a special token, six words, a special token


def text_weights(*heads, causal=False, rare=(3,), special=(0, WORDS - 1)):
    """One layer of heads over the same words."""
    size = len(heads[0])
    specials = np.isin(np.arange(size), special)
    allowed = np.tri(size, dtype=bool) if causal else np.ones((size, size), bool)
    rare_mask = np.isin(np.arange(size), rare)
    layers = (np.stack(heads).astype(float),)
    return HeadWeights(layers, specials, specials, allowed, True, np.arange(size), rare_mask)


def at_offset(offset, size=WORDS, outside=0):
    """Weights of 1 at a relative position; on the first token where there is no word."""
    weights = np.zeros((size, size))
    for query in range(size):
        key = query + offset
        weights[query, key if 0 < key < size - 1 else outside] = 1
    return weights


def figures(*heads, measures=OVER_WORDS, **options):
    means = MeanOverQueries(measures)
    means.add(text_weights(*heads, **options))
    means.add(text_weights(*heads, **options))
    return means


def head(means, number):
    """Figures of one head with their role."""
    names = [name for name in means.measures if name != "offsets"]
    found = {name: means.mean(name, 0, number) for name in names}
    if "offsets" in means.measures:
        found["offset"], found["at offset"] = means.best_offset(0, number)
    return HeadFigures("encoder", 0, number, found)


def test_a_head_that_looks_left_is_positional_and_a_uniform_one_is_nothing():
    means = figures(at_offset(-1), at_offset(2), np.full((WORDS, WORDS), 1 / WORDS))
    left, two, uniform = (head(means, number) for number in range(3))
    assert (left.figures["offset"], left.figures["at offset"]) == (-1, 1.0)
    assert left.roles == {"positional": "at -1"} and left.summary == "positional: at -1"
    assert (two.figures["offset"], two.figures["at offset"]) == (2, 1.0)
    assert two.role == ""  # neither of the neighbours
    assert left.figures["entropy"] == pytest.approx(0, abs=1e-9)
    assert uniform.figures["entropy"] == pytest.approx(3)
    assert uniform.figures["of uniform"] == pytest.approx(1)
    assert uniform.figures["special"] == pytest.approx(0.25)
    assert uniform.figures["first"] == pytest.approx(0.125)
    assert uniform.role == "" and uniform.summary == ""


def test_a_random_head_has_no_role():
    rng = np.random.default_rng(0)
    for _ in range(5):
        weights = rng.dirichlet(np.ones(40), size=40)
        found = head(figures(weights, special=(0, 39)), 0)
        assert found.roles == {} and found.figures["at offset"] < 0.3


def test_rare_words_and_sinks():
    rare, sink = np.zeros((2, WORDS, WORDS))
    rare[:, 3] = 1
    sink[:, 0], sink[:, 4] = 0.7, 0.3
    means = figures(rare, sink)
    pull, rest = head(means, 0), head(means, 1)
    assert pull.figures["rare"] == 1 and pull.figures["rare chance"] == pytest.approx(1 / 6)
    assert pull.roles == {"rare words": "rare"} and pull.summary == "rare words"
    assert rest.figures["rare"] == 0 and rest.figures["special"] == pytest.approx(0.7)
    assert rest.roles == {"sink": "0.70"} and rest.summary == "sink: 0.70"
    many = head(figures(rare, rare=(1, 2, 3, 4)), 0)  # ties: most words are rare, by chance
    assert many.figures["rare chance"] == pytest.approx(4 / 6) and many.role == ""


def test_causal_attention_has_only_earlier_words():
    """The first word can only attend to itself, and does not count."""
    before = at_offset(-1)
    before[0], before[1] = np.eye(WORDS)[0], np.eye(WORDS)[0]
    means = figures(before, causal=True, special=())
    found = head(means, 0)
    assert (found.figures["offset"], found.figures["at offset"]) == (-1, 1.0)
    assert found.figures["special"] is None
    assert found.figures["first"] == pytest.approx(1 / 7)  # of seven later words, the second
    uniform = np.tri(WORDS) / np.arange(1, WORDS + 1)[:, None]
    evenly = head(figures(uniform, causal=True, special=()), 0).figures
    assert evenly["of uniform"] == pytest.approx(1)
    assert evenly["first"] == pytest.approx(sum(1 / (n + 1) for n in range(1, WORDS)) / 7)


def test_scores_over_tokens_that_follow_twice():
    ids = np.array([5, 6, 7, 5, 6, 7])
    previous, duplicate, induction = np.zeros((3, 6, 6))
    for query in range(6):
        previous[query, max(query - 1, 0)] = 1
        duplicate[query, query - 3 if query > 2 else 0] = 1
        induction[query, query - 2 if query > 2 else 0] = 1
    weights = text_weights(previous, duplicate, induction, causal=True, special=())
    means = MeanOverQueries(OVER_TOKENS)
    means.add(HeadWeights(**{**vars(weights), "ids": ids}))
    table = [[means.mean(name, 0, number) for name in OVER_TOKENS] for number in range(3)]
    assert table[0] == [1.0, 0.0, 0.0]
    assert table[1][1:] == [1.0, 0.0] and table[2][1:] == [0.0, 1.0]
    assert [head(means, number).role for number in range(3)] == [
        "previous token",
        "duplicate token",
        "induction",
    ]


def test_the_diagonal_of_cross_attention():
    special = np.zeros(6, bool)
    keys = np.isin(np.arange(7), [6])
    straight, first = np.zeros((2, 6, 7))
    straight[np.arange(6), np.arange(6)] = 1
    first[:, 0] = 1
    layers = (np.stack([straight, first]),)
    cross = HeadWeights(layers, special, keys, np.ones((6, 7), bool), False, np.arange(7))
    means = MeanOverQueries(OVER_WORDS)
    means.add(cross)
    assert means.mean("diagonal", 0, 0) == 1 and means.mean("diagonal", 0, 1) == pytest.approx(
        2 / 6
    )
    assert means.best_offset(0, 0) == (None, None)
    assert means.mean("rare", 0, 0) is None and means.mean("distance", 0, 0) is None


def test_distance_in_patches_against_a_loop():
    grid, rng = (3, 4), np.random.default_rng(1)
    size = 1 + 12
    weights = rng.dirichlet(np.ones(size), size=(2, size))
    special = np.arange(size) < 1
    rest = (np.ones((size, size), bool), True, np.arange(size), None, grid)
    means = MeanOverQueries(OVER_WORDS)
    means.add(HeadWeights((weights,), special, special, *rest))
    for number in range(2):
        distances = []
        for query in range(12):
            total = weighted = 0.0
            for key in range(12):
                weight = weights[number, query + 1, key + 1]
                down, across = query // 4 - key // 4, query % 4 - key % 4
                weighted += weight * (down**2 + across**2) ** 0.5
                total += weight
            distances.append(weighted / total)
        assert means.mean("distance", 0, number) == pytest.approx(np.mean(distances))
    assert means.best_offset(0, 0) == (None, None)


def test_equal_largest_weights_share_a_word():
    """The first of them is no rare word, and no offset, by being first."""
    uniform = np.full((WORDS, WORDS), 1 / WORDS)
    found = head(figures(uniform, rare=(1,)), 0)
    assert found.figures["rare"] == pytest.approx(found.figures["rare chance"])
    assert found.figures["at offset"] <= 1 / 6 + 1e-9 and found.role == ""
