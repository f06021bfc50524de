"""Conditional random fields against sums over all sequences of labels."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layers.crf import log_partition, marginals, path_score, viterbi

LABELS = 3
MASKS = st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=3)


def score(logits_LV, labels, table):
    """That of the labels of real tokens, term by term."""
    if not labels:
        return torch.zeros((), dtype=torch.float64)
    total = table[-2, labels[0]] + table[-1, labels[-1]]
    for before, after in pairwise(labels):
        total = total + table[before, after]
    return total + sum(logits_V[i] for logits_V, i in zip(logits_LV, labels, strict=True))


@settings(max_examples=15)
@given(masks=MASKS, seed=st.integers(0, 99))
def test_against_all_sequences(masks, seed):
    generator = torch.Generator().manual_seed(seed)
    real_BL = torch.tensor(masks)
    shape = (*real_BL.shape, LABELS)
    logits_BLV = torch.randn(shape, generator=generator, dtype=torch.float64)
    table = torch.randn(LABELS + 2, LABELS, generator=generator, dtype=torch.float64)
    labels_BL = torch.randint(LABELS, shape[:2], generator=generator)
    given_ = (real_BL, table)
    totals, best = log_partition(logits_BLV, *given_), viterbi(logits_BLV, *given_)
    scores, shares = path_score(logits_BLV, labels_BL, *given_), marginals(logits_BLV, *given_)
    for row, real_L in enumerate(real_BL):
        logits_LV, size = logits_BLV[row][real_L], int(real_L.sum())
        every = {one: score(logits_LV, one, table) for one in product(range(LABELS), repeat=size)}
        total = torch.stack([*every.values()]).logsumexp(0)
        torch.testing.assert_close(totals[row], total)
        torch.testing.assert_close(scores[row], every[tuple(labels_BL[row][real_L].tolist())])
        assert tuple(best[row][real_L].tolist()) == max(every, key=every.__getitem__)
        for place in range(size):
            for label in range(LABELS):
                chosen = [value for one, value in every.items() if one[place] == label]
                share = (torch.stack(chosen).logsumexp(0) - total).exp()
                torch.testing.assert_close(shares[row][real_L][place, label], share)


def test_without_transitions_labels_are_independent():
    logits_BLV, real_BL = torch.randn(2, 5, LABELS), torch.ones(2, 5, dtype=torch.bool)
    table = torch.zeros(LABELS + 2, LABELS)
    assert torch.equal(viterbi(logits_BLV, real_BL, table), logits_BLV.argmax(-1))
    torch.testing.assert_close(marginals(logits_BLV, real_BL, table), logits_BLV.softmax(-1))


@pytest.mark.parametrize("rows", [0, 2])
def test_rows_without_tokens(rows):
    nothing = torch.zeros(rows, 0, LABELS), torch.zeros(rows, 0, dtype=torch.bool)
    assert viterbi(*nothing, torch.zeros(LABELS + 2, LABELS)).shape == (rows, 0)
