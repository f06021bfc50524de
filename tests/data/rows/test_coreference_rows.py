"""Rows of documents: every word is in a row, sentences are whole where they fit, spans do not leave
a sentence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.rows.coreference_rows import document_rows
from regard.text.templates import RowBuilder, Template

CLS, SEP = 1, 2


class Letters:
    """Tokenizer whose tokens are letters."""

    template = RowBuilder(Template("cls A sep"), {"cls": CLS, "sep": SEP})

    def pieces(self, words):
        return [[10 + ord(letter) for letter in word] for word in words]


words = st.text("abc", min_size=1, max_size=4)
documents = st.lists(st.lists(words, min_size=1, max_size=7), min_size=1, max_size=5)


def rows_of(sentences, segment, longest=None):
    (document,) = document_rows(Letters(), [sentences], segment, longest)
    return document


@given(documents, st.sampled_from([0, 6, 9, 30]), st.sampled_from([None, 6, 12]))
def test_every_word_is_at_its_place(sentences, segment, longest):
    document = rows_of(sentences, segment, longest)
    flat = [word for sentence in sentences for word in sentence]
    assert len(document.places) == len(flat) == len(document.parts)
    for word, (row, first, last) in zip(flat, document.places, strict=True):
        tokens = np.asarray(document.rows[row].tokens)[first : last + 1]
        assert tokens.tolist() == [10 + ord(letter) for letter in word]
    limit = min(size for size in (segment, longest, 10**9) if size)
    assert all(len(row.tokens) <= limit for row in document.rows)
    assert all(row.tokens[0] == CLS and row.tokens[-1] == SEP for row in document.rows)


@given(documents, st.integers(1, 4), st.sampled_from([0, 6, 30]))
def test_candidates_are_all_short_spans_within_a_part(sentences, widest, segment):
    document = rows_of(sentences, segment, 6 if segment == 0 else None)
    count = len(document.parts)
    expected = [
        (start, end)
        for start in range(count)
        for end in range(start + 1, min(start + widest, count) + 1)
        if len({*document.parts[start:end]}) == 1
    ]
    assert [tuple(span) for span in document.candidates(widest).tolist()] == expected
    assert all(document.holds(span) for span in expected)
    assert not document.holds((0, count + 1))


def test_a_row_is_a_sentence_or_a_segment_of_whole_sentences():
    sentences = [["aa", "b"], ["cc"], ["abc", "abc", "a"]]
    assert [len(row.tokens) for row in rows_of(sentences, 0).rows] == [5, 4, 9]
    assert [len(row.tokens) for row in rows_of(sentences, 7).rows] == [7, 5, 6]
    assert [len(row.tokens) for row in rows_of(sentences, 20).rows] == [14]
    assert rows_of(sentences, 7).parts.tolist() == [0, 0, 1, 2, 3, 3]


@given(documents, st.integers(1, 25))
def test_a_divided_document_has_all_rows_and_words_once(sentences, most):
    document = rows_of(sentences, 9)
    divided = [*document.divided(most)]
    assert [row for part in divided for row in part.rows] == document.rows
    assert sum(len(part.parts) for part in divided) == len(document.parts)
    begin = 0
    for part in divided:
        assert part.tokens <= most or len(part.rows) == 1
        assert part.begin == begin and part.places[0][0] == 0
        begin += len(part.parts)


def test_rows_without_room_are_refused():
    with pytest.raises(BadInput, match="rows of 2 tokens have no room for a word"):
        rows_of([["a"]], 2)
