"""Nearest vectors in blocks, and mining by cosine and by margin, against plain loops."""

import pytest
import torch
from torch.nn.functional import normalize

from regard.inference import nearest
from regard.inference.nearest import mine_between, mine_within, nearest_vectors


def vectors(count, seed):
    draws = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return normalize(draws, dim=-1)


@pytest.mark.parametrize("block", [1, 3, 7, 100])
@pytest.mark.parametrize("top", [1, 4, 50])
@pytest.mark.parametrize("skip_own", [False, True])
def test_blocks_find_what_the_whole_matrix_has(block, top, skip_own, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", block)
    first, second = vectors(9, 1), vectors(11, 2)
    cosines = first @ second.T
    if skip_own:
        cosines[range(9), range(9)] = -torch.inf
    most = min(top, 11 - skip_own)
    found = nearest_vectors(first, second, top, skip_own=skip_own)
    expected = cosines.topk(most)
    assert torch.equal(found.indices_NK, expected.indices)
    torch.testing.assert_close(found.cosines_NK, expected.values)
    assert nearest_vectors(first[:0], second, top).indices_NK.shape == (0, min(top, 11))


def test_blocks_bound_the_similarities_in_memory(monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", 8)
    sizes = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            result = super().__torch_function__(function, types, args, kwargs or {})
            if function in (torch.Tensor.matmul, torch.Tensor.__matmul__):
                sizes.append(result.numel())
            return result

    nearest_vectors(vectors(40, 1).as_subclass(Watched), vectors(60, 2), 3)
    assert sizes and max(sizes) <= 8 * 8


def margin(first, second, i, j, k):
    """Equation 2 of Artetxe & Schwenk (2019), with the ratio."""
    cosines = first @ second.T
    forward = cosines[i].topk(k).values.sum() / (2 * k)
    backward = cosines[:, j].topk(k).values.sum() / (2 * k)
    return float(cosines[i, j] / (forward + backward))


@pytest.mark.parametrize("score", ["cosine", "margin"])
def test_pairs_between_two_collections_are_chosen_greedily(score):
    first, second, k = vectors(6, 3), vectors(8, 4), 3
    cosines = first @ second.T
    candidates = {(i, int(j)) for i in range(6) for j in cosines[i].topk(k).indices}
    candidates |= {(int(i), j) for j in range(8) for i in cosines[:, j].topk(k).indices}
    scores = {
        pair: margin(first, second, *pair, k) if score == "margin" else float(cosines[pair])
        for pair in candidates
    }
    expected = []
    for i, j in sorted(scores, key=scores.get, reverse=True):
        if all(i != a and j != b for a, b in expected):
            expected.append((i, j))
    found = mine_between(first, second, k, score)
    assert [(pair.first, pair.second) for pair in found] == expected
    assert [pair.score for pair in found] == pytest.approx([scores[pair] for pair in expected])


def test_the_margin_prefers_a_pair_to_a_hub_that_is_near_many():
    def at(*degrees):
        angles = torch.deg2rad(torch.tensor(degrees))
        return torch.stack([angles.cos(), angles.sin()], dim=1)

    first, second = at(52.0, 5.0, -5.0), at(0.0, 60.0)  # the second collection begins with a hub
    best = {score: mine_between(first, second, 2, score)[0] for score in ("margin", "cosine")}
    assert (best["margin"].first, best["margin"].second) == (0, 1)
    assert best["margin"].score == pytest.approx(margin(first, second, 0, 1, 2))
    assert best["cosine"].second == 0


def test_pairs_within_a_collection_come_once():
    own = vectors(7, 5)
    pairs = mine_within(own, 6)
    assert [(pair.first, pair.second) for pair in pairs] == sorted(
        ((i, j) for i in range(7) for j in range(i + 1, 7)),
        key=lambda p: -float(own[p[0]] @ own[p[1]]),
    )
    assert mine_within(own[:1], 4) == [] and mine_within(own[:0], 4) == []
