"""Antecedent ranking: the marginal likelihood, restated mention by mention; whole batches."""

import math

import numpy as np
import pytest
import torch

from regard.core.batch import TokenRow
from regard.data.rows.coreference_rows import DocumentRows
from regard.models.coreference_head import COLUMNS, DOCUMENT, GENRE, ROW, SPEAKER
from regard.models.trunk_with_heads import Outputs
from regard.objectives.antecedent_ranking import (
    NO_CLUSTER,
    UNKNOWN,
    AntecedentRanking,
    marginal_losses,
    pack_spans,
    span_table,
)


def slow_losses(logits_NA, labels, at_NA):
    losses = []
    for i, label in enumerate(labels):
        if label == UNKNOWN:
            continue
        candidates = {0: None} | {
            1 + a: labels[j]
            for a, j in enumerate(at_NA[i].tolist())
            if labels[j] != UNKNOWN and logits_NA[i, 1 + a] > -math.inf
        }
        right = [a for a, other in candidates.items() if a and label >= 0 and other == label]
        total = sum(math.exp(logits_NA[i, a]) for a in candidates)
        losses.append(-math.log(sum(math.exp(logits_NA[i, a]) for a in right or [0]) / total))
    return losses


@pytest.mark.parametrize("unknown", [False, True])
def test_losses_are_the_marginal_likelihood_of_right_antecedents(unknown):
    torch.manual_seed(0)
    labels = [0, NO_CLUSTER, 0, 1, 1, 0, 2]
    if unknown:
        labels[1] = labels[4] = UNKNOWN
    count = len(labels)
    at_NA = (torch.arange(count)[:, None] - 1 - torch.arange(count - 1)).clamp(min=0)
    logits_NA = torch.randn(count, count, dtype=torch.float64)
    logits_NA[:, 0] = 0
    late = torch.arange(count - 1) >= torch.arange(count)[:, None]
    logits_NA[:, 1:][late] = -math.inf
    losses = marginal_losses(logits_NA, torch.tensor(labels), at_NA)
    assert losses.tolist() == pytest.approx(slow_losses(logits_NA, labels, at_NA))


def test_gradients_are_finite_where_antecedents_are_impossible():
    logits_NA = torch.tensor([[0.0, -math.inf], [0.0, 1.0]], requires_grad=True)
    at_NA, labels_N = torch.zeros(2, 1, dtype=torch.int64), torch.tensor([0, 0])
    marginal_losses(logits_NA, labels_N, at_NA).sum().backward()
    assert logits_NA.grad.isfinite().all() and logits_NA.grad[1, 1] < 0 < logits_NA.grad[1, 0]


def document(begin=0):
    rows = [TokenRow([1, 5, 6, 2], [0] * 4), TokenRow([1, 7, 8, 2], [0] * 4)]
    places = np.array([[0, 1, 1], [0, 2, 2], [1, 1, 2]])
    return DocumentRows(rows, places, np.array([0, 0, 1]), begin)


def test_spans_have_rows_tokens_speakers_and_genre():
    speakers = ("", "", "Kim", "Bo", "Kim")
    table_NC = span_table(document(begin=2), [(2, 3), (2, 4), (4, 5)], speakers, "nw")
    assert table_NC.tolist() == [
        [0, 1, 1, 0, 0, 2, 4],
        [0, 1, 2, 1, 0, 2, 4],
        [1, 1, 2, 0, 0, 2, 4],
    ]
    plain = span_table(document(), [(1, 2)], (), "a novel")
    assert plain[0, [SPEAKER, GENRE]].tolist() == [0, 0]
    assert span_table(document(), []).shape == (0, len(COLUMNS))


def test_documents_of_a_batch_have_their_own_rows_and_numbers():
    tables = [span_table(document(), [(0, 1), (2, 3)]), span_table(document(), [(2, 3)])]
    packed = pack_spans(tables, [2, 2])
    assert packed[:, ROW].tolist() == [0, 1, 3] and packed[:, DOCUMENT].tolist() == [0, 0, 1]


def example(*numbers):
    table_NC = span_table(document(), [(0, 1), (1, 2), (2, 3)])
    return document().rows, np.column_stack([table_NC, numbers])


def outputs_of(scores):
    logits = torch.tensor([[0.0, -math.inf, -math.inf], [0.0, 1.0, -math.inf], [0.0, 2.0, -1.0]])
    at = torch.tensor([[0, 0], [0, 0], [0, 1]])
    kept = torch.arange(3)
    named = {"kept": kept, "antecedents": at, "mentions": torch.tensor(scores)}
    named = {f"coreference.{name}": value for name, value in named.items()}
    return Outputs(None, None, {"coreference": logits, **named})


def test_a_batch_has_the_rows_of_all_documents_and_its_loss_the_mentions_too():
    plain = AntecedentRanking()
    batch = plain.collate([example(0, NO_CLUSTER, 0)])
    assert plain.length(example(0, 0, 0)) == (8,) and batch.weight == 1
    assert batch.inputs.layout.lengths == (4, 4) and batch.tokens == 8
    outputs = outputs_of([2.0, -1.0, 0.5])
    ranked = math.log(1 + math.e) + math.log(1 + math.exp(2) + math.exp(-1)) - 2
    assert float(plain.loss(outputs, batch)[0]) == pytest.approx(ranked, abs=1e-5)
    loss, likelihood = AntecedentRanking(singletons=True).loss(outputs, batch)
    mentions = math.log1p(math.exp(-2)) + math.log1p(math.exp(-1)) + math.log1p(math.exp(-0.5))
    assert float(loss) == pytest.approx(ranked + mentions, abs=1e-5)
    assert float(likelihood) == pytest.approx(ranked, abs=1e-5)
    partial = plain.collate([example(0, UNKNOWN, 0)])
    ranked = math.log(1 + math.exp(2)) - 2
    assert float(plain.loss(outputs, partial)[0]) == pytest.approx(ranked, abs=1e-5)


def test_an_empty_batch_has_no_documents():
    batch = AntecedentRanking().collate([])
    assert batch.weight == 0 and batch.positions["coreference"].shape == (0, len(COLUMNS))
