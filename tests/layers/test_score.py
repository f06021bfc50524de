"""Every score against its formula, one query and one key at a time."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from naive import attend as naive_attend
from naive import gradients, spans
from regard.core.layout import Layout
from regard.core.tape import Tape
from regard.layers.attend import (
    Additive,
    Bilinear,
    Cosine,
    DistanceDot,
    Dot,
    Location,
    ScaledDot,
    attend,
    position_gaps,
)
from regard.layers.attention import EncoderOutput
from regard.layers.recurrent.rnn_attention import RNNAttention
from regard.layers.relative_score import RelativeDot, RelativeSegmentDot

QUERIES, KEYS, HEADS = [3, 0, 1, 2], [4, 2, 1, 5], 2


def scores(
    module: nn.Module, query: int, key: int, queries: Layout | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Random q (T, H, query) and k (T, H, key), and what the module says of them."""
    queries, keys = queries or Layout.ragged(QUERIES), Layout.ragged(KEYS)
    module.double()
    q = torch.randn(queries.tokens, HEADS, query, dtype=torch.float64)
    k = torch.randn(keys.tokens, HEADS, key, dtype=torch.float64)
    return q, k, module(queries.pad(q), keys.pad(k), queries, keys)


def agrees(q: Tensor, k: Tensor, scores_BHLS: Tensor, formula, tolerance: float = 1e-12) -> None:
    """``formula(q, k, head, i, j)`` for every pair of every row."""
    assert scores_BHLS.shape == (len(QUERIES), HEADS, max(QUERIES), max(KEYS))
    rows = zip(spans(QUERIES), spans(KEYS), strict=True)
    for row, ((first, end), (first_key, end_key)) in enumerate(rows):
        for head in range(HEADS):
            for i in range(end - first):
                for j in range(end_key - first_key):
                    wanted = formula(q[first + i, head], k[first_key + j, head], head, i, j)
                    found = scores_BHLS[row, head, i, j]
                    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


class Nearest(Additive):
    """A score with a bias that falls with the distance."""

    def position_bias(self, queries: Layout, keys: Layout) -> Tensor:
        return -position_gaps(queries, keys).abs()[:, None].double()


@pytest.mark.parametrize(
    "score", [Nearest(4, 4, 3), RelativeDot(4, 1, 4)], ids=["additive", "relative"]
)
def test_a_recurrent_decoder_adds_the_position_bias_of_a_score(score):
    attention = RNNAttention(4, 4, "dot", inner=3, positions=9).double()
    attention.score = score.double()
    queries, keys = Layout.rectangle(2, 3), Layout.rectangle(2, 5)
    q_TD, k_TD = (torch.randn(n, 4, dtype=torch.float64) for n in (6, 10))
    q_THK, k_THK = q_TD[:, None], k_TD[:, None]
    wanted_THK = attend(score, q_THK, k_THK, k_THK, queries=queries, keys=keys)
    found_TD = attention(q_TD, queries, attention.keys(EncoderOutput(k_TD, keys)))
    torch.testing.assert_close(found_TD, wanted_THK[:, 0])


def test_dot():
    agrees(*scores(Dot(), 3, 3), lambda q, k, head, i, j: (q * k).sum())


def test_scaled_dot_divides_by_the_root_of_the_key_size():
    agrees(*scores(ScaledDot(), 5, 5), lambda q, k, head, i, j: (q @ k) / math.sqrt(5))


def test_the_worked_example_of_scaling():
    """Scores 112 and 96 with key size 64 become 14 and 12, and weigh 0.88 and 0.12."""
    one, two = Layout.ragged([1]), Layout.ragged([2])
    q = torch.ones(1, 1, 64)
    k = torch.stack([torch.full((1, 64), 112 / 64), torch.full((1, 64), 96 / 64)])
    assert Dot()(one.pad(q), two.pad(k), one, two).flatten().tolist() == [112, 96]
    tape = Tape("*")
    attend(ScaledDot(), q, k, k, queries=one, keys=two, tape=tape)
    assert tape.records["scores"].flatten().tolist() == [14, 12]
    assert [round(x, 2) for x in tape.records["weights"].flatten().tolist()] == [0.88, 0.12]


def test_cosine():
    def formula(q, k, head, i, j):
        return (q @ k) / (q.pow(2).sum().sqrt() * k.pow(2).sum().sqrt())

    agrees(*scores(Cosine(), 4, 4), formula)


def test_the_cosine_with_a_vector_of_zeros_is_zero_and_not_nan():
    layout = Layout.ragged([1])
    q = torch.zeros(1, 1, 1, 3, requires_grad=True)
    score = Cosine()(q, torch.ones(1, 1, 1, 3), layout, layout)
    score.sum().backward()
    assert score == 0 and q.grad is not None and q.grad.isfinite().all()


def test_additive_with_queries_and_keys_of_different_sizes():
    module = Additive(query=3, key=5, inner=7, heads=HEADS)

    def formula(q, k, head, i, j):
        w = torch.cat([module.key[head], module.query[head]]).T  # W of W[k; q]
        return module.v[head] @ torch.tanh(w @ torch.cat([k, q]))

    agrees(*scores(module, 3, 5), formula)


def test_bilinear_with_queries_and_keys_of_different_sizes():
    module = Bilinear(query=3, key=5, heads=HEADS)
    agrees(*scores(module, 3, 5), lambda q, k, head, i, j: q @ module.weight[head] @ k)


def test_location_asks_the_query_alone():
    module = Location(query=3, positions=6, heads=HEADS)
    q, k, found = scores(module, 3, 9)
    agrees(q, k, found, lambda q, k, head, i, j: q @ module.weight[head][:, j])


def test_location_does_not_look_past_the_positions_it_knows():
    module = Location(query=3, positions=4, heads=HEADS)
    q, k, found = scores(module, 3, 3)
    agrees(
        *(q, k, found),
        lambda q, k, head, i, j: (
            q @ module.weight[head][:, j] if j < 4 else torch.tensor(-torch.inf).double()
        ),
    )
    queries, keys = Layout.ragged(QUERIES), Layout.ragged(KEYS)
    tape = Tape("weights")
    attend(module, q, k, k, queries=queries, keys=keys, tape=tape)
    assert (tape.records["weights"][..., 4] == 0).all()


@pytest.mark.parametrize(
    "module",
    [
        *(Dot(), Cosine(), Additive(3, 3, 4, HEADS), Bilinear(3, 3, HEADS)),
        *(Location(3, 9, HEADS), DistanceDot(2, 3)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_keys_may_be_made_ready_once(module):
    q, k, wanted = scores(module, 3, 3)
    queries, keys = Layout.ragged(QUERIES), Layout.ragged(KEYS)
    ready = keys.pad(module.keyed(k))
    torch.testing.assert_close(module.between(queries.pad(q), ready, queries, keys), wanted)


def relative(module: RelativeDot, start: int = 0):
    """Dai et al., 2019, section 3.3, the four terms written out."""
    u, w, width = module.content_bias, module.distance_bias, module.width

    def formula(q, k, head, i, j):
        frequencies = [10_000 ** (-2 * n / width) for n in range(width // 2)]
        angles = [(start + i - j) * frequency for frequency in frequencies]
        sinusoid = [*map(math.sin, angles), *map(math.cos, angles)]
        size = len(q)
        projection = module.distance.weight[head * size : (head + 1) * size]
        r = projection @ torch.tensor(sinusoid, dtype=torch.float64)
        return (q @ k + q @ r + u[head] @ k + w[head] @ r) / math.sqrt(size)

    return formula


def relative_dot() -> RelativeDot:
    module = RelativeDot(width=6, heads=HEADS, size=3)
    for bias in (module.content_bias, module.distance_bias):
        nn.init.normal_(bias)
    return module


def test_relative_dot_is_transformer_xls_four_terms():
    module = relative_dot()
    agrees(*scores(module, 3, 3), relative(module), 1e-5)  # sinusoids are made in fp32


@pytest.mark.parametrize("kind", [RelativeDot, RelativeSegmentDot])
def test_relative_dot_is_the_same_where_positions_are_free(kind):
    """The shift is a view where they count up, and a lookup where they do not."""
    torch.manual_seed(0)
    module = kind(width=6, heads=HEADS, size=3)
    for vectors in module.parameters():
        nn.init.normal_(vectors)
    queries, keys = Layout.rectangle(4, 3, start=2), Layout.rectangle(4, 5)
    queries, keys = (
        replace(one, segments_T=torch.randint(3, (one.tokens,))) for one in (queries, keys)
    )
    q, k = torch.randn(4, 3, HEADS, 3), torch.randn(4, 5, HEADS, 3)
    expected = module(q, k, queries, keys)
    torch.testing.assert_close(module(q, k, replace(queries, start=None), keys), expected)
    other = replace(keys, segments_T=1 - keys.segments_T)
    changed = not torch.allclose(module(q, k, queries, other), expected)
    assert changed == (kind is RelativeSegmentDot)


def test_relative_dot_counts_from_where_the_queries_stand():
    module, queries = relative_dot(), Layout.rectangle(4, 3, start=6)
    keys = Layout.ragged(KEYS)
    q = torch.randn(12, HEADS, 3)
    k = torch.randn(keys.tokens, HEADS, 3)
    found = module(queries.pad(q), keys.pad(k), queries, keys)
    module.double()
    wanted = relative(module, start=6)(q[4].double()[1], k[4].double()[1], 1, 1, 0)
    torch.testing.assert_close(found[1, 1, 1, 0].double(), wanted, rtol=1e-5, atol=1e-5)


def shaw(module: DistanceDot, start: int = 0):
    """Shaw et al., 2018, eq. 4: a vector for each distance up to a limit, to the left and right."""
    vectors, limit = module.distance.weight, module.farthest

    def formula(q, k, head, i, j):
        distance = max(-limit, min(limit, j - i - start))
        return q @ (k + vectors[limit + distance]) / math.sqrt(len(q))

    return formula


@pytest.mark.parametrize("farthest", [0, 1, 2, 9])
def test_distance_dot_has_a_vector_for_each_distance_up_to_a_limit(farthest):
    module = DistanceDot(farthest, 3)
    assert module.distance.weight.shape == (2 * farthest + 1, 3)
    agrees(*scores(module, 3, 3), shaw(module))


def test_distance_dot_counts_from_where_the_queries_stand():
    module, queries, keys = DistanceDot(3, 3), Layout.rectangle(4, 3, start=4), Layout.ragged(KEYS)
    q, k = torch.randn(12, HEADS, 3), torch.randn(keys.tokens, HEADS, 3)
    found = module(queries.pad(q), keys.pad(k), queries, keys)
    for i in range(3):  # of the last row, whose first key is the eighth
        for j in range(5):
            wanted = shaw(module, start=4)(q[9 + i, 1], k[7 + j, 1], 1, i, j)
            torch.testing.assert_close(found[3, 1, i, j], wanted)


def test_attention_by_distance_is_the_slow_one_and_so_are_its_gradients():
    module, layout = DistanceDot(2, 3).double(), Layout.ragged(KEYS)
    tensors = [torch.randn(layout.tokens, HEADS, 3).double().requires_grad_() for _ in range(3)]
    inputs = [*tensors, module.distance.weight]
    found = attend(module, *tensors, queries=layout, keys=layout)
    wanted = naive_attend(shaw(module), *tensors, KEYS, KEYS)
    torch.testing.assert_close(found, wanted)
    towards = torch.randn_like(found)
    ours, theirs = (gradients(out, inputs, towards) for out in (found, wanted))
    assert all(one.any() for one in theirs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("lengths", [([0, 0], [2, 1]), ([2, 1], [0, 0]), ([], [])])
@pytest.mark.parametrize(
    "module",
    [
        Dot(),
        ScaledDot(),
        Cosine(),
        Additive(3, 3, 4, HEADS),
        Bilinear(3, 3, HEADS),
        Location(3, 4, HEADS),
        RelativeDot(4, HEADS, 3),
        DistanceDot(2, 3),
    ],
    ids=lambda module: type(module).__name__,
)
def test_every_score_bears_rows_without_queries_or_keys(module, lengths):
    queries, keys = map(Layout.ragged, lengths)
    q, k = torch.randn(queries.tokens, HEADS, 3), torch.randn(keys.tokens, HEADS, 3)
    found = module(queries.pad(q), keys.pad(k), queries, keys)
    assert found.shape == (queries.rows, HEADS, queries.longest, keys.longest)


@pytest.mark.parametrize(
    "module", [RelativeDot(8, HEADS, 4), RelativeSegmentDot(8, HEADS, 4), DistanceDot(2, 4)]
)
def test_sums_of_scores_in_half_precision_are_not_rounded_before_the_softmax(module):
    layout = replace(Layout.ragged([5, 3]), segments_T=torch.tensor([0, 0, 1, 1, 1, 0, 1, 1]))
    q, k = (layout.pad(torch.randn(8, HEADS, 4, dtype=torch.bfloat16)) for _ in range(2))
    found = module.bfloat16()(q, k, layout, layout)
    assert found.dtype == torch.float32
    assert (found != found.bfloat16()).any()


@pytest.mark.parametrize("module", [Additive(3, 5, 4, 2), Bilinear(3, 5, 2), Location(3, 6, 2)])
def test_scores_with_weights_pass_gradients_on(module):
    *_, found = scores(module, 3, 5)
    found.sum().backward()
    assert all(one.grad is not None and one.grad.any() for one in module.parameters())
