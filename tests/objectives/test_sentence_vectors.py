"""Contrastive objectives: their losses by hand, and gradient caching against the whole batch."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from closeness import GRADIENTS
from regard.core.batch import Batch, BatchLimits, TokenRow
from regard.models.facts import change
from regard.models.row_pooling import RowPooling
from regard.objectives.sentence_vectors import TEXTS, CosineRegression, InBatchNegatives, Triplets
from small_bert import small_bert


def rows(seed, texts, examples=5):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 9, (examples, texts), generator=generator).tolist()
    return [
        [
            TokenRow.of(torch.randint(5, 60, (length,), generator=generator).tolist())
            for length in group
        ]
        for group in lengths
    ]


def groups(texts, scores=(0.0, 1.0, 0.5, 0.25, 0.75)):
    return [*zip(rows(1, texts), scores, strict=True)]


def loss_of(objective, units_SND, scores, texts_NS=None):
    vectors_BD = 3 * units_SND.transpose(0, 1).flatten(0, 1)
    if texts_NS is None:
        texts_NS = torch.arange(len(vectors_BD)).reshape(-1, objective.texts).tolist()
    targets = {objective.head: torch.tensor(scores), TEXTS: torch.tensor(texts_NS)}
    batch = Batch(None, targets, 1)
    loss, value = objective.loss_of_vectors(vectors_BD, batch)
    assert value == loss
    return loss


def units(texts, examples, seed=0):
    return F.normalize(
        torch.randn(texts, examples, 4, generator=torch.Generator().manual_seed(seed)), dim=-1
    )


@pytest.mark.parametrize("texts", [2, 3, 4])
def test_in_batch_negatives_are_a_cross_entropy_over_all_other_texts(texts):
    vectors = units(texts, 3)
    expected = 0.0
    for number in range(3):
        anchor = vectors[0, number]
        exponents = [
            (7 * (anchor @ vectors[s, n])).exp() for s in range(1, texts) for n in range(3)
        ]
        expected -= (exponents[number] / sum(exponents)).log()
    loss = loss_of(InBatchNegatives(texts, scale=7), vectors, [0.0] * 3)
    torch.testing.assert_close(loss, expected)


def test_symmetric_loss_is_the_mean_of_both_directions():
    vectors = units(2, 4)
    plain = InBatchNegatives()
    both = [loss_of(plain, pair, [0.0] * 4) for pair in (vectors, vectors.flip(0))]
    symmetric = loss_of(replace(plain, symmetric=True), vectors, [0.0] * 4)
    torch.testing.assert_close(symmetric, sum(both) / 2)


EQUAL_TEXTS = {
    "all different": ([[0, 1], [2, 3], [4, 5]], []),
    "one anchor with two positives": ([[0, 1], [0, 3], [4, 5]], [(0, 1), (1, 0)]),
    "one positive of two anchors": ([[0, 1], [2, 1], [4, 5]], [(0, 1), (1, 0)]),
    "an anchor that is a positive elsewhere": ([[0, 1], [2, 3], [4, 0]], [(0, 2), (2, 0)]),
    "an anchor that is its own positive": ([[0, 0], [2, 3], [4, 5]], []),
    "one pair twice": ([[0, 1], [2, 3], [0, 1]], [(0, 2), (2, 0)]),
    "a negative that is a positive": ([[0, 1, 6], [2, 3, 1], [4, 5, 8]], [(0, 4)]),
    "a negative that is an anchor": ([[0, 1, 6], [2, 3, 0], [4, 5, 8]], [(0, 4)]),
    "a negative that is its own anchor": ([[0, 1, 0], [2, 3, 7], [4, 5, 8]], [(0, 3)]),
    "negatives of one anchor": ([[0, 1, 6], [0, 3, 7], [4, 5, 8]], [(0, 1), (1, 0)]),
}


@pytest.mark.parametrize(("texts_NS", "excluded"), EQUAL_TEXTS.values(), ids=EQUAL_TEXTS)
def test_equal_texts_are_no_negatives(texts_NS, excluded):
    texts = len(texts_NS[0])
    vectors = units(texts, 3)
    logits_NT = 20 * vectors[0] @ vectors[1:].flatten(0, 1).T
    for row, column in excluded:
        logits_NT[row, column] = -torch.inf
    expected = F.cross_entropy(logits_NT, torch.arange(3), reduction="sum")
    loss = loss_of(InBatchNegatives(texts), vectors, [0.0] * 3, texts_NS)
    torch.testing.assert_close(loss, expected)
    backward_NN = 20 * vectors[1] @ vectors[0].T
    for row, column in (pair for pair in excluded if pair[1] < 3):
        backward_NN[row, column] = -torch.inf
    both = expected + F.cross_entropy(backward_NN, torch.arange(3), reduction="sum")
    symmetric = InBatchNegatives(texts, symmetric=True)
    torch.testing.assert_close(loss_of(symmetric, vectors, [0.0] * 3, texts_NS), both / 2)


@pytest.mark.parametrize("chunk", [0, 2])
@pytest.mark.parametrize("limits", [None, BatchLimits(64, 9, 8)])
def test_collated_texts_are_equal_if_their_tokens_are(limits, chunk):
    a, b, c, d = (TokenRow.of(ids) for ids in ([5, 6], [7], [5, 6, 7], [8]))
    copy = TokenRow(np.array([5, 6], dtype=np.int32), np.zeros(2, dtype=np.int32))
    objective = InBatchNegatives(chunk=chunk)
    batch = objective.collate([([a, b], 0.0), ([c, copy], 0.0), ([d, b], 0.0)], limits)
    numbers_NS = batch.targets[TEXTS]
    assert numbers_NS[:3].tolist() == [[0, 1], [2, 0], [3, 1]]
    assert len(numbers_NS) == len(batch.targets[objective.head])
    assert objective.collate([], limits).targets[TEXTS].shape[1] == 2


def test_a_pair_twice_in_a_batch_counts_as_often_and_is_no_negative():
    model, objective = small_bert().module.eval(), InBatchNegatives()
    pairs = groups(2)
    once = objective(model, objective.collate(pairs[:1]))[0]
    assert once == 0  # no negatives
    twice = objective(model, objective.collate([pairs[0], pairs[0]]))[0]
    torch.testing.assert_close(twice, 2 * once)
    assert objective(model, objective.collate(pairs[:2]))[0] > 0


def test_triplets_have_a_margin_between_cosines():
    a, p, n, m = (torch.tensor([x, (1 - x * x) ** 0.5]) for x in (1.0, 0.8, 0.5, -1.0))
    vectors = torch.stack([a, p, n, m])[:, None]
    loss = loss_of(Triplets(4, margin=0.4), vectors, [0.0])
    torch.testing.assert_close(loss, torch.tensor((0.5 - 0.8 + 0.4) / 2))  # -1 is far enough
    assert loss_of(Triplets(3, margin=0.2), vectors[:3], [0.0]) == 0


def test_cosines_learn_scores_by_squared_errors():
    vectors = units(2, 3)
    cosines = (vectors[0] * vectors[1]).sum(-1)
    loss = loss_of(CosineRegression(), vectors, [0.0, 1.0, 0.5])
    torch.testing.assert_close(loss, ((cosines - torch.tensor([0.0, 1.0, 0.5])) ** 2).sum())


@pytest.mark.parametrize("objective", [InBatchNegatives(3), Triplets(3), CosineRegression(2)])
def test_examples_without_a_score_count_neither_as_targets_nor_as_negatives(objective):
    vectors = units(objective.texts, 4)
    less = loss_of(objective, vectors[:, :3], [0.0] * 3)
    torch.testing.assert_close(loss_of(objective, vectors, [0.0] * 3 + [nan]), less)
    assert objective.weight_of([0.0, nan]) == 1


@pytest.mark.parametrize("pool", ["mean", "max", "first"])
@pytest.mark.parametrize("kind", [InBatchNegatives, Triplets, CosineRegression])
def test_batches_of_fixed_shape_have_the_same_loss(kind, pool):
    texts = 2 if kind is CosineRegression else 3
    model = small_bert().module
    objective = kind(texts, RowPooling(pool, "first"))
    free = objective(model, objective.collate(groups(texts)))[0]
    batch = objective.collate(groups(texts), BatchLimits(64, 9, 8))
    torch.testing.assert_close(objective(model, batch)[0], free)
    assert len(batch.targets[objective.head]) == 9 and batch.weight == 5
    objective(model, batch)[0].backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


class Counted(torch.nn.Module):
    """Model that notes the rows of each forward pass, and whether it has a graph."""

    def __init__(self, model):
        super().__init__()
        self.model, self.passes = model, []

    def forward(self, inputs, **more):
        self.passes.append(inputs.layout.rows)
        return self.model(inputs, **more)


def gradients(objective, kind):
    model = Counted(small_bert(kind).module)
    loss, _ = objective(model, objective.collate(groups(objective.texts)))
    loss.backward()
    found = {n: p.grad for n, p in model.model.named_parameters() if p.grad is not None}
    return loss.detach(), found, model.passes


@pytest.mark.thinned
@pytest.mark.parametrize("chunk", [1, 2, 5, 9])
@pytest.mark.parametrize("kind", [InBatchNegatives, Triplets, CosineRegression])
def test_chunks_have_the_loss_and_the_gradient_of_the_whole_batch(kind, chunk):
    whole = kind(2 if kind is CosineRegression else 3)
    loss, expected, passes = gradients(whole, "states")
    assert passes == [5 * whole.texts]
    chunked_loss, found, passes = gradients(replace(whole, chunk=chunk), "states")
    torch.testing.assert_close(chunked_loss, loss)
    assert found.keys() == expected.keys() and len(found) > 10
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, **GRADIENTS)
    number = -(-5 // chunk)
    assert len(passes) == 2 * number  # each chunk once without a graph, once with it
    assert sum(passes[:number]) == sum(passes[number:]) == 5 * whole.texts


def test_chunks_draw_the_same_dropout_when_they_are_computed_again():
    loaded = small_bert()
    model = change(loaded.facts, **{"stack.dropout": 0.3}).build().train()
    objective = CosineRegression(chunk=2)
    batch = objective.collate(groups(2))
    weight = model.trunk.embed.token.weight

    def value():
        torch.manual_seed(4)
        return objective(model, batch)[0]

    value().backward()
    direction = weight.grad / weight.grad.norm()
    with torch.no_grad():
        weight += 1e-3 * direction
        above = value()
        weight -= 2e-3 * direction
        below = value()
    torch.testing.assert_close((above - below) / 2e-3, weight.grad.norm(), rtol=0.02, atol=1e-3)
