"""The coreference head against a slow restatement, pair by pair, and its pruning."""

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.models.coreference_head import (
    COLUMNS,
    DOCUMENT,
    FIRST,
    GENRE,
    LAST,
    ROW,
    SPEAKER,
    WIDTH,
    CoreferenceHead,
    CoreferenceHeadModule,
    best_uncrossed,
    distance_bucket,
)

WIDTH_OF_STATES = 6
LENGTHS = (5, 4, 6)  # rows of two documents: the first has two
DOCUMENTS = (0, 0, 1)


def spans_of(lengths=LENGTHS, documents=DOCUMENTS, widest=3):
    rows = []
    for row, (length, document) in enumerate(zip(lengths, documents, strict=True)):
        for first in range(length):
            for last in range(first, min(first + widest, length)):
                span = dict.fromkeys(COLUMNS, 0) | {"row": row, "first": first, "last": last}
                span |= {"width": last - first, "document": document}
                rows.append([*(span | {"speaker": first % 3, "genre": document + 1}).values()])
    return torch.tensor(rows)


def built(**facts):
    torch.manual_seed(3)
    head = CoreferenceHead(**{"widest": 3, "hidden": 5, "feature_size": 4, **facts})
    return CoreferenceHeadModule(head, WIDTH_OF_STATES).double().eval()


def states_of(lengths=LENGTHS):
    return torch.randn(sum(lengths), WIDTH_OF_STATES, dtype=torch.float64)


def slow_span(module, states_TD, layout, span):
    begin = int(layout.offsets[span[ROW]])
    inside_TD = states_TD[begin + span[FIRST] : begin + span[LAST] + 1]
    weights = torch.softmax(module.word.out(inside_TD)[:, 0], 0)
    head_D = (weights[:, None] * inside_TD).sum(0)
    return torch.cat([inside_TD[0], inside_TD[-1], head_D, module.width(span[WIDTH])])


def slow_pair(module, spans_NC, g, i, j):
    parts = [module.distance(distance_bucket(torch.tensor(i - j)))]
    if module.speaker is not None:
        alike = spans_NC[i, SPEAKER] == spans_NC[j, SPEAKER] and spans_NC[i, SPEAKER] > 0
        parts += [module.speaker(torch.tensor(int(alike))), module.genre(spans_NC[i, GENRE])]
    pair = module.pair
    layers = [pair.span.weight, pair.antecedent.weight, pair.product.weight, pair.features.weight]
    inputs = torch.cat([g[i], g[j], g[i] * g[j], *parts])
    hidden = torch.relu(torch.cat(layers, 1) @ inputs + pair.span.bias)
    return pair.out(torch.relu(pair.second(hidden)))[0]


def slow_logits(module, spans_NC, g, scores):
    """Logits of all pairs by (mention, antecedent), once or with refined spans."""
    count = len(g)
    for number in range(module.head.order):
        logits = torch.full((count, count), -torch.inf, dtype=torch.float64)
        for i in range(count):
            for j in range(i):
                logits[i, j] = scores[i] + scores[j] + slow_pair(module, spans_NC, g, i, j)
                if module.coarse is not None:
                    logits[i, j] += module.coarse(slow_logits.first[i]) @ slow_logits.first[j]
        if number + 1 < module.head.order:
            refined = []
            for i in range(count):
                shares = torch.softmax(torch.cat([torch.zeros(1), logits[i]]).double(), 0)
                expected = shares[0] * g[i] + sum(shares[1 + j] * g[j] for j in range(i))
                gate = torch.sigmoid(module.gate(torch.cat([g[i], expected])))
                refined.append(gate * g[i] + (1 - gate) * expected)
            g = torch.stack(refined)
    return logits


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"coarse": False},
        {"order": 2},
        {"metadata": True},
        {"gold": True},
        {"coarse": False, "order": 3, "metadata": True},
    ],
    ids=str,
)
def test_logits_are_those_of_every_pair(facts):
    module, states_TD, layout = built(ratio=1.0, **facts), states_of(), Layout.ragged(LENGTHS)
    spans_NC = spans_of()
    with torch.no_grad():
        logits_NA, kept_N, at_NA, scores_N = module(states_TD, layout, spans_NC)
        g_ND = torch.stack([slow_span(module, states_TD, layout, span) for span in spans_NC])
        torch.testing.assert_close(module.represent(states_TD, layout, spans_NC), g_ND)
        torch.testing.assert_close(scores_N.double(), module.mention(g_ND)[:, 0].float().double())
        before = 0
        for document in (0, 1):
            own = [n for n in kept_N.tolist() if spans_NC[n, DOCUMENT] == document]
            words = sum(n for n, d in zip(LENGTHS, DOCUMENTS, strict=True) if d == document)
            assert module.head.gold or len(own) <= words
            slow_logits.first = g_ND[own]
            expected = slow_logits(module, spans_NC[own], g_ND[own], scores_N[own].double())
            for i in range(len(own)):
                row = logits_NA[before + i]
                assert row[0] == 0
                found = {
                    int(at) - before: float(value)
                    for at, value in zip(at_NA[before + i], row[1:], strict=True)
                    if value > -torch.inf
                }
                assert found.keys() == {*range(i)}
                for j, value in found.items():
                    assert value == pytest.approx(float(expected[i, j]), abs=1e-5)
            before += len(own)


def test_documents_of_a_batch_do_not_touch_each_other():
    module, states_TD = built(), states_of()
    both = module(states_TD, Layout.ragged(LENGTHS), spans_of())
    alone = module(states_TD[9:], Layout.ragged(LENGTHS[2:]), spans_of(LENGTHS[2:], (0,)))
    own = both[1] >= len(spans_of(LENGTHS[:2], (0, 0)))
    torch.testing.assert_close(both[0][own][:, : alone[0].shape[1]], alone[0])
    torch.testing.assert_close(both[2][own][:, : alone[2].shape[1]] - int((~own).sum()), alone[2])


def test_few_antecedents_are_the_best_or_the_nearest():
    states_TD, layout, spans_NC = states_of(), Layout.ragged(LENGTHS), spans_of()
    nearest = built(coarse=False, antecedents=2, ratio=1.0)(states_TD, layout, spans_NC)
    assert nearest[2][3].tolist() == [2, 1]
    module = built(antecedents=2, ratio=1.0)
    _, kept_N, at_NA, scores_N = module(states_TD, layout, spans_NC)
    assert at_NA.shape[1] == 2
    g_ND = module.represent(states_TD, layout, spans_NC)[kept_N]
    coarse = [(module.coarse(g_ND[3]) @ g_ND[j]).float() + scores_N[kept_N[j]] for j in range(3)]
    assert {*at_NA[3].tolist()} == {*torch.stack(coarse).topk(2).indices.tolist()}


def test_the_head_word_is_attention_within_the_span():
    module, tape = built(), Tape("head_word.weights")
    spans_NC = spans_of()
    module(states_of(), Layout.ragged(LENGTHS), spans_NC, tape=tape)
    weights_B1LS = tape.records["head_word.weights"].detach()
    own = spans_NC[spans_NC[:, ROW] == 1]
    for place, span in enumerate(own):
        weights_S = weights_B1LS[1, 0, place]
        assert float(weights_S.sum()) == pytest.approx(1)
        outside = [s for s in range(6) if not span[FIRST] <= s <= span[LAST]]
        assert weights_S[outside].abs().max() == 0


def test_gradients_reach_all_weights_and_are_finite():
    module, states_TD = built(order=2, metadata=True).train(), states_of().requires_grad_()
    logits_NA, *_ = module(states_TD, Layout.ragged(LENGTHS), spans_of())
    logits_NA.logsumexp(1).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    assert states_TD.grad.isfinite().all() and states_TD.grad.abs().sum() > 0


def test_no_spans_give_no_mentions():
    module = built(gold=True)
    outputs = module(states_of(), Layout.ragged(LENGTHS), spans_of()[:0])
    assert [len(output) for output in outputs] == [0, 0, 0, 0]


def crosses(first, second):
    (a, b), (c, d) = sorted([first, second])
    return a < c <= b < d


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), unique=True, max_size=20),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_pruning_takes_the_best_spans_that_do_not_cross_better_ones(pairs, most, random):
    ends = [(first, first + more) for first, more in pairs]
    best = [*range(len(ends))]
    random.shuffle(best)
    chosen = []
    for number in best:
        if len(chosen) < most and not any(crosses(ends[number], ends[o]) for o in chosen):
            chosen.append(number)
    found = best_uncrossed(ends, best, most)
    assert found == sorted(chosen)
    assert not any(crosses(ends[a], ends[b]) for a, b in combinations(found, 2))


def test_distances_are_exact_up_to_4_and_then_by_powers_of_two():
    distances = torch.tensor([0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 63, 64, 1_000])
    expected = [0, 1, 2, 3, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    assert distance_bucket(distances).tolist() == expected


@pytest.mark.parametrize("facts", [{"widest": 0}, {"ratio": 0.0}, {"order": 0}, {"dropout": 1.0}])
def test_bad_facts_are_refused(facts):
    with pytest.raises(BadInput, match=next(iter(facts))):
        CoreferenceHead(**facts)
