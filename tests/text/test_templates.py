"""Rows of one text and of two, rows cut, words in rows, windows over a context."""

from itertools import accumulate, chain, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.text.templates import RowBuilder, Template
from regard.text.tokenizers.wordpiece import WordPiece
from regard.text.words import Span

CLS, SEP = 101, 102
IDS = {"cls": CLS, "sep": SEP}
BERT = WordPiece.template
ROBERTA = Template("cls A sep", "cls A sep sep B sep")
XLNET = Template("A sep cls:2", "A sep B:1 sep:1 cls:2")
PLAIN = Template("A")  # as that of ``PlainTokenizer``
TEMPLATE = RowBuilder(BERT, IDS)
LENGTHS = st.integers(0, 30)
BUILDERS = {
    name: RowBuilder(one, IDS)
    for name, one in {"BERT": BERT, "RoBERTa": ROBERTA, "XLNet": XLNET}.items()
}
each_template = pytest.mark.parametrize("builder", BUILDERS.values(), ids=list(BUILDERS))


def ids(length: int, first: int = 1) -> list[int]:
    return list(range(first, first + length))


def test_one_text_and_two():
    row = TEMPLATE.row([7, 8])
    assert row.tokens.tolist() == [CLS, 7, 8, SEP]
    assert row.segments.tolist() == [0, 0, 0, 0]
    row = TEMPLATE.row(np.array([7, 8]), [9])
    assert row.tokens.tolist() == [CLS, 7, 8, SEP, 9, SEP]
    assert row.segments.tolist() == [0, 0, 0, 0, 1, 1]
    assert row.tokens.dtype == row.segments.dtype == np.int32


def test_rows_of_other_templates():
    row = BUILDERS["RoBERTa"].row([7, 8], [9])
    assert row.tokens.tolist() == [CLS, 7, 8, SEP, SEP, 9, SEP]
    assert not row.segments.any()
    row = BUILDERS["XLNet"].row([7, 8], [9])
    assert row.tokens.tolist() == [7, 8, SEP, 9, SEP, CLS]
    assert row.segments.tolist() == [0, 0, 0, 1, 1, 2]
    row = BUILDERS["XLNet"].row([7, 8], longest=3)
    assert (row.tokens.tolist(), row.segments.tolist()) == ([7, SEP, CLS], [0, 0, 2])


def test_where_the_summary_token_stands():
    assert [one.summary for one in (BERT, ROBERTA, XLNET, PLAIN)] == [
        "first",
        "first",
        "last",
        None,
    ]
    for builder in BUILDERS.values():
        for row in (builder.row([1]), builder.row([1, 2], [3])):
            assert row.tokens[0 if builder.template.summary == "first" else -1] == CLS


def test_a_template_without_special_tokens():
    builder = RowBuilder(PLAIN, {})
    assert builder.row([7, 8], longest=1).tokens.tolist() == [7]
    assert builder.row_of_words([[1, 2], [3]]).first_tokens == [0, 2]
    with pytest.raises(BadInput, match="one text at a time"):
        builder.row([7], [8])


def test_empty_texts():
    assert TEMPLATE.row([]).tokens.tolist() == [CLS, SEP]
    row = TEMPLATE.row([], [])
    assert (row.tokens.tolist(), row.segments.tolist()) == ([CLS, SEP, SEP], [0, 0, 1])


@each_template
@given(LENGTHS, LENGTHS, st.integers(5, 70))
def test_the_longer_text_is_cut_until_both_are_equal(builder, first, second, longest):
    row, taken = builder.row(ids(first), ids(second, 1000), longest), builder.specials(2)
    tokens = row.tokens.tolist()
    a = [i for i in tokens if i < 100]
    b = [i for i in tokens if i >= 1000]
    assert a == ids(first)[: len(a)] and b == ids(second, 1000)[: len(b)]
    assert len(tokens) == len(row.segments) == min(longest, first + second + taken)
    if len(tokens) == longest and first + second + taken > longest:
        half = (longest - taken) // 2
        assert len(a) >= min(first, half) and len(b) >= min(second, half)
    segments = [[part.segment] * size for part, size in zip(*sized(builder, a, b), strict=True)]
    assert row.segments.tolist() == [one for part in segments for one in part]


def sized(builder, a, b):
    """The parts of a row of two texts, and how many tokens each has."""
    parts = builder.template.parts(2)
    return parts, [{"A": len(a), "B": len(b)}.get(part.name, 1) for part in parts]


def test_who_gets_the_odd_token():
    def shares(first: int, second: int, longest: int) -> tuple[int, int]:
        segments = TEMPLATE.row(ids(first), ids(second), longest).segments
        return int((segments == 0).sum()) - 2, int(segments.sum()) - 1

    assert shares(5, 5, 8) == (2, 3)
    assert shares(5, 6, 8) == (2, 3)
    assert shares(6, 5, 8) == (3, 2)
    assert shares(9, 1, 8) == (4, 1)
    assert shares(2, 9, 10) == (2, 5)


def test_the_second_text_alone_is_cut():
    row = TEMPLATE.row([1, 2, 3], ids(9, 10), 8, only_second=True)
    assert row.tokens.tolist() == [CLS, 1, 2, 3, SEP, 10, 11, SEP]
    with pytest.raises(BadInput, match="leaves no room"):
        TEMPLATE.row(ids(5), [10], 8, only_second=True)


@pytest.mark.parametrize(("second", "longest"), [(None, 2), ([1], 3), (None, 0)])
def test_rows_too_short_for_text(second, longest):
    with pytest.raises(BadInput, match="no room"):
        TEMPLATE.row([1], second, longest)


def test_the_first_token_of_each_word():
    words = [[1], [2, 3, 4], [], [5], [6, 7]]
    row, numbers, first_tokens = TEMPLATE.row_of_words(words)
    assert row.tokens.tolist() == [CLS, 1, 2, 3, 4, 5, 6, 7, SEP]
    assert (numbers, first_tokens) == ([0, 1, 3, 4], [1, 2, 5, 6])
    row, numbers, first_tokens = TEMPLATE.row_of_words(words, 5)  # ends within the second word
    assert row.tokens.tolist() == [CLS, 1, 2, 3, SEP]
    assert (numbers, first_tokens) == ([0, 1], [1, 2])
    assert TEMPLATE.row_of_words([]).words == TEMPLATE.row_of_words([]).first_tokens == []


WORDS = st.lists(st.integers(0, 9), max_size=40)


@each_template
@given(WORDS, st.integers(3, 30), st.data())
def test_every_word_is_in_one_window(builder, lengths, longest, data):
    overlap = data.draw(st.none() | st.integers(0, longest - 3))
    starts = accumulate(lengths, initial=1)
    words = [ids(length, start) for length, start in zip(lengths, starts, strict=False)]
    windows = builder.windows_of_words(words, longest, overlap)
    for row, numbers, first_tokens in windows:
        assert len(row.tokens) <= longest
        for number, position in zip(numbers, first_tokens, strict=True):
            assert row.tokens[position] == words[number][0]
    listed = [number for window in windows for number in window.words]
    assert sorted(listed) == [number for number, word in enumerate(words) if word]
    if sum(lengths) + 2 <= longest:
        assert len(windows) == 1


def test_a_word_is_in_the_window_with_most_context():
    words = [[i] for i in range(1, 13)]
    windows = TEMPLATE.windows_of_words(words, longest=10, overlap=4)
    assert [window.row.tokens.tolist()[1:-1] for window in windows] == [ids(8), ids(8, 5)]
    assert [window.words for window in windows] == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.integers(12, 30),
    st.booleans(),
    st.data(),
)
def test_a_row_around_a_marked_word(lengths, longest, as_pair, data):
    at = data.draw(st.integers(0, len(lengths) - 1))
    starts = accumulate(lengths, initial=1)
    words = [ids(length, start) for length, start in zip(lengths, starts, strict=False)]
    row, numbers, first_tokens = TEMPLATE.row_around(words, at, longest, as_pair=as_pair)
    assert len(row.tokens) == len(row.segments) <= longest
    assert at in numbers and numbers == [*range(numbers[0], numbers[-1] + 1)]
    for number, position in zip(numbers, first_tokens, strict=True):
        inside = slice(position, position + len(words[number]))
        assert row.tokens[inside].tolist() == [*words[number]]
        assert row.segments[inside].tolist() == [int(number == at)] * len(words[number])
    again = row.tokens.tolist()[1 + sum(len(words[number]) for number in numbers) :]
    assert again == ([SEP, *words[at][: longest // 4], SEP] if as_pair else [SEP])
    specials = 2 + (1 + len(words[at][: longest // 4]) if as_pair else 0)
    if sum(lengths) + specials <= longest:
        assert len(numbers) == len(words)


def test_a_row_around_a_word_has_words_on_both_sides():
    words = [[i] for i in range(1, 13)]
    row = TEMPLATE.row_around(words, 8, longest=7).row
    assert row.tokens.tolist() == [CLS, *ids(5, 7), SEP]
    assert row.segments.tolist() == [0, 0, 0, 1, 0, 0, 0]


def test_an_overlap_must_leave_something_new():
    with pytest.raises(BadInput, match="too large"):
        TEMPLATE.windows_of_words([[1]], 10, 8)


def test_windows_over_a_context():
    spans = [Span(i, i + 1) for i in range(7)]
    windows = TEMPLATE.windows([1, 2], ids(7, 10), spans, longest=9, stride=1)
    assert [row.tokens.tolist() for row, _, _ in windows] == [
        [CLS, 1, 2, SEP, 10, 11, 12, 13, SEP],
        [CLS, 1, 2, SEP, 13, 14, 15, 16, SEP],
    ]
    assert windows[1].row.segments.tolist() == [0] * 4 + [1] * 5
    assert windows[1].spans == (None,) * 4 + tuple(spans[3:]) + (None,)


@each_template
@given(LENGTHS, st.integers(7, 20), st.integers(0, 2))
def test_windows_leave_nothing_out(builder, length, longest, stride):
    stride = min(stride, longest - builder.specials(2) - 3)
    spans = [Span(i, i + 1) for i in range(length)]
    windows = builder.windows([1, 2], ids(length, 10), spans, longest, stride)
    for row, covered, _ in windows:
        assert len(row.tokens) == len(covered) <= longest
        for token, span in zip(row.tokens, covered, strict=True):
            assert (span is None) == (token in (CLS, SEP, 1, 2)) and (
                not span or token == span.start + 10
            )
    parts = [[span.start for span in spans if span] for _, spans, _ in windows]
    assert sorted({place for part in parts for place in part}) == list(range(length))
    for earlier, later in pairwise(parts):
        assert set(earlier) & set(later) == set(later[:stride])


def test_rows_too_short_for_context():
    spans = [Span(i, i + 1) for i in range(9)]
    with pytest.raises(BadInput, match="too few for a stride of 4"):
        TEMPLATE.windows([1, 2], ids(9), spans, longest=9, stride=4)
    assert len(TEMPLATE.windows([1, 2], ids(4), spans[:4], longest=9, stride=4)) == 1
    with pytest.raises(BadInput, match="no room"):
        TEMPLATE.windows(ids(6), ids(9), spans, longest=9, stride=0)


def test_windows_know_where_their_summary_token_stands():
    spans = [Span(at, at + 1) for at in range(7)]
    for name, expected in (("BERT", 0), ("XLNet", -1)):
        for window in BUILDERS[name].windows([1, 2], ids(7, 10), spans, longest=9, stride=1):
            summary = range(len(window.row.tokens))[expected]
            assert window.summary == summary and window.spans[summary] is None


@pytest.mark.parametrize(("special", "before"), [({"cls": 1, "sep": 2}, [2]), ({}, [])])
def test_a_document_comes_after_the_separator_if_there_is_one(special, before):
    builder = RowBuilder(Template("A"), special)
    assert builder.separator == (before[0] if before else None)
    assert builder.separated([5, 6]) == [*before, 5, 6]
    assert [token for token, _ in builder.frame(1).between] == before


@each_template
@given(first=LENGTHS, second=LENGTHS, longest=st.integers(9, 24), stride=st.integers(0, 30))
def test_windows_hold_the_longer_text_and_each_the_other(builder, first, second, longest, stride):
    a, b = ids(first), ids(second, 1_000)
    rows = builder.text_windows(a, b, longest, stride)
    room = longest - builder.specials(2)
    assert all(len(row.tokens) <= longest for row in rows)
    if first + second <= room:
        assert len(rows) == 1 and rows[0].tokens.tolist() == builder.row(a, b).tokens.tolist()
        return
    longer, shorter = (b, a[: room // 2]) if first < second else (a, b[: room // 2])
    special = {CLS, SEP} - {*longer, *shorter}
    texts = [[token for token in row.tokens.tolist() if token not in special] for row in rows]
    windows = [[token for token in text if token in longer] for text in texts]
    assert all([token for token in text if token in shorter] == shorter for text in texts)
    assert sorted({*chain(*windows)}) == longer
    shared = min(stride, (room - len(shorter)) // 2)
    assert all(one[len(one) - shared :] == two[:shared] for one, two in pairwise(windows))
    assert all(len(own) == room - len(shorter) for own in windows[:-1])


@pytest.mark.parametrize("length", [0, 1, 8, 9, 20, 21])
def test_windows_of_one_text_share_a_quarter(length):
    rows = RowBuilder(PLAIN, {}).text_windows(ids(length), None, 8)
    assert [row.tokens.tolist() for row in rows] == [
        ids(length)[begin : begin + 8] for begin in range(0, max(1, length - 2), 6)
    ]
    assert not length or rows[-1].tokens[-1] == length
