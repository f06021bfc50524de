"""Span corruption: nothing of a text is lost; spans are as many and as long as T5 draws them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.counter_rng import streams
from regard.objectives.masked_lm import MaskedLM
from regard.objectives.span_corruption import SpanCorruption, SpanDraw, segment_lengths
from regard.objectives.sum import Sum

SENTINELS = np.arange(1_000, 900, -1)  # <extra_id_0> has the highest id
DRAWS = st.builds(SpanDraw, st.floats(0.01, 0.5), st.floats(1, 20))


def stream(seed=0):
    return streams((7, seed), np.zeros(1))[0]


def corrupted(draw, length, seed=0):
    source, target = draw.corrupt(np.arange(length), SENTINELS, stream(seed))
    return source.tolist(), target.tolist()


def spans_of(target):
    """The spans of a target by their sentinels."""
    spans, current = {}, None
    for token in target:
        if token > 900:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    return spans


def joined(source, target):
    """The text: every sentinel of the source is replaced by its span."""
    spans = spans_of(target)
    return [word for token in source for word in (spans[token] if token > 900 else [token])]


def expected(length, rate, mean):
    """Numbers of tokens and of spans by the description of the paper, for rows of two or more."""
    tokens = min(max(round(length * rate), 1), length - 1)
    return tokens, min(max(round(tokens / mean), 1), tokens, length - tokens)


@given(DRAWS, st.integers(2, 150), st.integers(0, 999))
def test_source_and_target_together_are_the_text(draw, length, seed):
    tokens, spans = expected(length, draw.rate, draw.mean_length)
    source, target = corrupted(draw, length, seed)
    assert joined(source, target) == [*range(length)]
    marks = SENTINELS[:spans].tolist()
    assert [token for token in source if token > 900] == marks  # in order, one for each span
    assert [token for token in target if token > 900] == [*marks, SENTINELS[spans]]
    assert sum(token <= 900 for token in target) == tokens
    assert target[0] == SENTINELS[0] and target[-1] == SENTINELS[spans]
    assert source[0] == 0 and source[-1] == marks[-1]  # a text begins, and a span ends, the row
    *filled, last = spans_of(target).values()
    assert all(filled) and last == []
    between = np.diff([i for i, token in enumerate(source) if token > 900])
    assert (between > 1).all()  # spans do not touch


@given(DRAWS, st.lists(st.integers(1, 150), min_size=1, max_size=5))
def test_lengths_are_known_before_anything_is_drawn(draw, lengths):
    planned = draw.lengths(np.array(lengths))
    drawn = [corrupted(draw, length) for length in lengths]
    assert planned.tolist() == [[len(source) + 1, len(target) + 1] for source, target in drawn]


def test_a_row_of_one_token_stays_whole():
    assert corrupted(SpanDraw(), 1) == ([0], [1_000])
    assert corrupted(SpanDraw(), 2) == ([0, 1_000], [1_000, 1, 999])


def test_the_example_of_the_paper():
    """568 tokens give sources of 512, and targets of 114 with EOS (Raffel et al., 2019, 3.1.4).

    With the sentinel that ends a target in the text of the paper these are 115.
    """
    draw = SpanDraw()
    assert draw.counts(np.array([512])) == (77, 26)
    assert draw.row_size(512) == 568
    assert draw.lengths(np.array([568])).tolist() == [[512, 115]]


@given(DRAWS, st.integers(4, 100))
def test_rows_are_as_long_as_they_can_be(draw, longest):
    size = draw.row_size(longest)
    assert draw.lengths(np.array([size])).max() <= longest
    longer = np.arange(size + 1, size + 5)
    assert (draw.lengths(longer).max(axis=1) > longest).all()


@given(st.integers(1, 40), st.data())
def test_segments_are_never_empty(total, data):
    segments = data.draw(st.integers(1, total))
    lengths = segment_lengths(total, segments, stream(data.draw(st.integers(0, 99))), 0)
    assert len(lengths) == segments and lengths.sum() == total and (lengths > 0).all()


def test_all_ways_to_divide_a_text_are_equally_likely():
    drawn = [tuple(segment_lengths(6, 3, stream(seed), 0)) for seed in range(4_000)]
    ways = {way: drawn.count(way) for way in {*drawn}}
    assert len(ways) == math.comb(5, 2)
    share = 4_000 / len(ways)
    assert all(abs(count - share) < 5 * share**0.5 for count in ways.values())


def test_draws_differ_by_seed_epoch_and_row():
    spans = {
        tuple(SpanDraw().corrupt(np.arange(200), SENTINELS, one)[0])
        for key in ((1, 0), (1, 1), (2, 0))
        for one in streams(key, np.arange(2))
    }
    assert len(spans) == 6
    assert corrupted(SpanDraw(), 40, 3) == corrupted(SpanDraw(), 40, 3)


def test_rows_with_more_spans_than_sentinels_are_refused():
    said = r"batches.longest: rows of [\d,]+ tokens have 1\d\d spans, but T5 has 100 sentinels"
    with pytest.raises(BadInput, match=said):
        SpanDraw().row_size(2_048)
    assert SpanDraw(mean_length=6).row_size(2_048) > 2_048
    with pytest.raises(BadInput, match=r"batches.longest: 3 tokens have no room for a span"):
        SpanDraw().row_size(3)


def test_it_stands_alone():
    with pytest.raises(BadInput, match=r"masked-lm and span-corruption cannot be combined"):
        Sum(MaskedLM(), SpanCorruption())
