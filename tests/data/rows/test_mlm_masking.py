"""Token masking: the number, the positions and the replacements, reproducible for each key."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.rows.mlm_masking import (
    MOST,
    MaskedTokens,
    TokenMasker,
    fitting,
    fitting_ngrams,
    span_starts,
)

VOCAB = 1_000
MASK = 4
CLS, SEP = 2, 3
SPECIAL = np.arange(VOCAB) < 5
WORD_STARTS = np.arange(VOCAB) % 3 != 0  # every third id continues a word

ROWS = st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=40), min_size=1, max_size=6)


def mask_rows(masker: TokenMasker, rows: list[list[int]], key: tuple[int, ...]) -> MaskedTokens:
    flat = np.array([token for row in rows for token in row], np.int32)
    return masker.mask_rows(flat, np.array([*map(len, rows)]), np.arange(len(rows)), key)


def mask_row(masker: TokenMasker, row: np.ndarray, key: tuple[int, ...]) -> MaskedTokens:
    """Mask one row by the key (seed, epoch, number)."""
    return masker.mask_rows(row, np.array([len(row)]), np.array(key[-1:]), key[:-1])


def in_row(length: int, rate: float = 0.15) -> int:
    return max(1, round(length * rate))


def close(share: float, expected: float, trials: int) -> bool:
    """Within four standard deviations of a binomial."""
    return abs(share - expected) <= 4 * (expected * (1 - expected) / trials) ** 0.5


def words_of(row: list[int]) -> list[list[int]]:
    """The positions of each word, in the plainest way."""
    words: list[list[int]] = []
    inside = False
    for position, token in enumerate(row):
        if SPECIAL[token]:
            inside = False
        elif inside and not WORD_STARTS[token]:
            words[-1].append(position)
        else:
            words.append([position])
            inside = True
    return words


@given(ROWS, st.booleans(), st.integers(0, 99))
def test_what_is_chosen(rows, whole, seed):
    flat = [token for row in rows for token in row]
    masked = mask_rows(TokenMasker(MASK, SPECIAL, WORD_STARTS if whole else None), rows, (seed, 0))
    positions = masked.positions.tolist()
    assert positions == sorted(set(positions))
    assert masked.originals.tolist() == [flat[position] for position in positions]
    assert not SPECIAL[masked.originals].any()
    untouched = np.setdiff1d(np.arange(len(flat)), positions)
    assert masked.tokens[untouched].tolist() == [flat[position] for position in untouched]
    assert (~SPECIAL[masked.tokens[positions]] | (masked.tokens[positions] == MASK)).all()
    first = 0
    for row in rows:
        here = [position - first for position in positions if first <= position < first + len(row)]
        free = sum(not SPECIAL[token] for token in row)
        if whole:
            check_whole_words(row, here)
        else:
            assert len(here) == min(free, in_row(len(row)))
        first += len(row)


def check_whole_words(row: list[int], positions: list[int]) -> None:
    """Words are taken whole, and none that was left would still have fitted."""
    words = words_of(row)
    left = [word for word in words if not set(word) & set(positions)]
    assert sorted(position for word in words if word not in left for position in word) == positions
    assert len(positions) <= in_row(len(row))
    assert all(len(positions) + len(word) > in_row(len(row)) for word in left)


@given(
    st.lists(st.lists(st.integers(1, 6), max_size=12), max_size=6),
    st.lists(st.integers(0, 15), min_size=6, max_size=6),
)
def test_words_are_taken_one_after_the_other_while_they_fit(rows, room):
    expected = []
    first = 0
    for sizes, left in zip(rows, room, strict=False):
        for number, size in enumerate(sizes):
            if size <= left:
                left -= size
                expected.append(first + number)
        first += len(sizes)
    sizes = np.array([size for row in rows for size in row], np.int64)
    row = np.repeat(np.arange(len(rows)), [*map(len, rows)])
    assert sorted(fitting(sizes, row, np.array(room)).tolist()) == expected


@given(ROWS, st.booleans(), st.integers(0, 99))
def test_a_row_does_not_depend_on_its_neighbours(rows, whole, seed):
    masker = TokenMasker(MASK, SPECIAL, WORD_STARTS if whole else None)
    lengths = np.array([*map(len, rows)], np.int64)
    together = mask_rows(masker, rows, (seed, 3)).split(lengths)
    alone = [
        mask_row(masker, np.array(row, np.int32), (seed, 3, number))
        for number, row in enumerate(rows)
    ]
    for one, other in zip(together, alone, strict=True):
        assert [part.tolist() for part in one] == [part.tolist() for part in other]


def test_every_epoch_seed_and_row_is_drawn_anew():
    row = np.arange(100, 228)
    masker = TokenMasker(MASK, SPECIAL)
    keys = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert len({tuple(mask_row(masker, row, key).positions) for key in keys}) == 4
    for key in keys:
        first, again = mask_row(masker, row, key), mask_row(masker, row.copy(), key)
        assert all((one == two).all() for one, two in zip(first, again, strict=True))


def test_draws_do_not_depend_on_the_machine():
    masked = mask_row(TokenMasker(MASK, SPECIAL, rate=0.3), np.arange(10, 30), (1, 2, 3))
    assert masked.positions.tolist() == [0, 1, 5, 12, 15, 17]
    assert masked.tokens[masked.positions].tolist() == [4, 4, 4, 22, 4, 4]


def test_shares():
    """80% masks, 10% others, 10% kept, every position as often as any other."""
    rows, length = 4_000, 40
    flat = np.tile(np.arange(100, 100 + length), rows)
    lengths, numbers = np.full(rows, length), np.arange(rows)
    masked, positions, originals = TokenMasker(MASK, SPECIAL).mask_rows(
        flat, lengths, numbers, (5, 0)
    )
    assert len(positions) == 6 * rows
    now = masked[positions]
    same = 0.1 / (VOCAB - 5)  # a random token may be the one that stood there
    assert close((now == MASK).mean(), 0.8, len(positions))
    assert close((now == originals).mean(), 0.1 + same, len(positions))
    other = now[(now != MASK) & (now != originals)]
    assert close(len(other) / len(positions), 0.1 - same, len(positions))
    assert len(np.unique(other)) > 800 and other.min() >= 5
    by_place = np.bincount(positions % length, minlength=length)
    expected = len(positions) / length
    assert ((by_place - expected) ** 2 / expected).sum() < 73  # 39 degrees of freedom, p = 0.001


def test_pieces_of_a_word_meet_their_fates_alone():
    row = np.tile([100, 102, 102], 40)  # words of three pieces
    masker = TokenMasker(MASK, SPECIAL, WORD_STARTS)
    drawn = [mask_row(masker, row, (0, 0, n)) for n in range(400)]
    masked = np.array([(d.tokens[d.positions] == MASK).reshape(-1, 3) for d in drawn]).reshape(
        -1, 3
    )
    assert close(masked.all(axis=1).mean(), 0.8**3, len(masked))


def slowly(row: list[int], rate: float, rng: random.Random) -> list[int]:
    """The positions the original builder chooses, word by word."""
    words = words_of(row)
    rng.shuffle(words)
    taken: list[int] = []
    for word in words:
        if len(taken) + len(word) <= in_row(len(row), rate):
            taken += word
    return taken


def test_whole_words_are_chosen_as_often_as_by_the_original_builder():
    row = [CLS, 100, 102, 102, 103, 104, 105, 106, 108, 107, SEP, 111, 109, 110, 111, SEP]
    rng, times = random.Random(3), 6_000
    theirs = np.zeros(len(row))
    for _ in range(times):
        theirs[slowly(row, 0.3, rng)] += 1
    masker = TokenMasker(MASK, SPECIAL, WORD_STARTS, rate=0.3)
    drawn = mask_rows(masker, [row] * times, (11, 0)).positions % len(row)
    ours = np.bincount(drawn, minlength=len(row))
    error = np.sqrt((theirs + ours + 1) * (1 - theirs / times))
    assert (np.abs(theirs - ours) <= 4 * error).all()
    assert ours[[0, 10, 15]].tolist() == [0, 0, 0]


def test_the_papers_example():
    """My dog is hairy: hairy becomes [MASK] 80% of the time, apple 10%, stays 10%."""
    vocabulary = ["[CLS]", "[SEP]", "[MASK]", "my", "dog", "is", "hairy", "apple"]
    special = np.array([word.startswith("[") for word in vocabulary])
    row = np.array([0, 3, 4, 5, 6, 1])
    seen: dict[str, int] = {}
    for epoch in range(600):
        masked = mask_row(TokenMasker(2, special, most=1), row, (0, epoch, 0))
        if masked.positions.tolist() == [4]:
            word = vocabulary[masked.tokens[4]]
            seen[word] = seen.get(word, 0) + 1
            assert vocabulary[masked.originals[0]] == "hairy"
    assert set(seen) == {"[MASK]", "my", "dog", "is", "hairy", "apple"}
    total = sum(seen.values())
    assert close(total / 600, 1 / 4, 600)
    assert close(seen["[MASK]"] / total, 0.8, total)
    assert close(seen["hairy"] / total, 0.1 + 0.1 / 5, total)


@pytest.mark.parametrize(
    ("length", "rate", "most", "expected"),
    [(1, 0.15, None, 1), (128, 0.15, None, 19), (128, 0.15, 5, 5), (10, 0.25, None, 2)],
)
def test_how_many(length, rate, most, expected):
    masker = TokenMasker(MASK, SPECIAL, rate=rate, most=most)
    assert len(mask_row(masker, np.full(length, 9), (0, 0, 0)).positions) == expected


def test_only_masks_only_others_only_kept():
    row = np.arange(100, 200)
    for kept, other in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0)):
        masker = TokenMasker(MASK, SPECIAL, kept=kept, random=other)
        now, positions, before = mask_row(masker, row, (0, 0, 0))
        assert ((now[positions] == MASK) == (kept == other)).all()
        assert (now[positions] == before).mean() == (1 if kept else 0)


def test_rows_without_anything_to_choose():
    masked = mask_rows(TokenMasker(MASK, SPECIAL), [[], [CLS, SEP], []], (0, 0))
    assert len(masked.positions) == 0 and masked.tokens.tolist() == [CLS, SEP]
    assert len(mask_rows(TokenMasker(MASK, SPECIAL, WORD_STARTS), [], (0, 0)).tokens) == 0


def test_the_tokens_given_are_not_changed():
    row = np.arange(100, 200)
    row.flags.writeable = False
    assert mask_row(TokenMasker(MASK, SPECIAL), row, (0, 0, 0)).tokens.dtype == row.dtype


@pytest.mark.parametrize(
    "change",
    [{"rate": 0.0}, {"rate": 1.1}, {"kept": 0.6, "random": 0.6}, {"kept": -1}, {"most": 0}],
)
def test_settings_that_make_no_sense(change):
    with pytest.raises(BadInput):
        TokenMasker(MASK, SPECIAL, **change)


def test_too_many_at_once_are_refused():
    with pytest.raises(ValueError):
        mask_row(TokenMasker(MASK, SPECIAL), np.full(MOST + 1, 9), (0, 0, 0))


@given(ROWS, st.integers(2, 4), st.integers(0, 99))
def test_ngrams_are_whole_words_within_the_room_of_a_row(rows, ngrams, seed):
    masker = TokenMasker(MASK, SPECIAL, WORD_STARTS, ngrams=ngrams)
    masked = mask_rows(masker, rows, (seed, 0))
    positions, first = masked.positions.tolist(), 0
    assert positions == sorted(set(positions))
    for row in rows:
        here = {position - first for position in positions if first <= position < first + len(row)}
        words = words_of(row)
        assert sorted(at for word in words if set(word) & here for at in word) == sorted(here)
        room = in_row(len(row)) - len(here)
        assert room >= 0
        assert all(len(word) > room for word in words if not set(word) & here)
        first += len(row)


def test_ngrams_have_lengths_by_one_over_n_and_the_rate_stays():
    rows, length = 400, 200
    tokens = np.full(rows * length, 7)
    masker = TokenMasker(MASK, SPECIAL, ngrams=3)
    counts = masker._draw_counts(np.ones(10**5 - 1, bool), np.random.default_rng(0).random(10**5))
    for n, expected in ((1, 6 / 11), (2, 3 / 11), (3, 2 / 11)):
        assert close((counts == n).mean(), expected, 10**5)
    lengths, numbers = np.full(rows, length), np.arange(rows)
    masked = masker.mask_rows(tokens, lengths, numbers, (0, 0))
    assert len(masked.positions) == rows * 30  # 15%, as without n-grams
    alone = TokenMasker(MASK, SPECIAL).mask_rows(tokens, lengths, numbers, (0, 0))
    assert len(alone.positions) == rows * 30
    runs, single = (1 + (np.diff(one.positions) > 1).sum() for one in (masked, alone))
    assert runs < 0.75 * single  # a mean of 18/11 words at once


def test_ngrams_end_where_words_do_not_follow():
    masker = TokenMasker(MASK, SPECIAL, ngrams=3)
    follows = np.array([True, False, False, True, True])
    counts = masker._draw_counts(follows, np.full(6, 0.999))
    assert counts.tolist() == [2, 1, 1, 3, 2, 1]
    assert masker._draw_counts(np.empty(0, bool), np.empty(0)).tolist() == []
    with pytest.raises(BadInput, match="longest n-gram in words, must be at least 1, not 0"):
        TokenMasker(MASK, SPECIAL, ngrams=0)


SPANS = {"ngrams": 10, "geometric": 0.2}


def test_spans_have_the_geometric_lengths_of_the_paper():
    masker = TokenMasker(MASK, SPECIAL, **SPANS)
    counts = masker._draw_counts(np.ones(10**5 - 1, bool), np.random.default_rng(0).random(10**5))
    kept = counts[:-10]  # the last words have fewer after them
    for n in range(1, 11):
        assert close((kept == n).mean(), 0.2 * 0.8 ** (n - 1) / (1 - 0.8**10), len(kept))
    assert kept.mean() == pytest.approx(3.8, abs=0.03)  # section 3.1, figure 2


def test_spans_are_masked_replaced_or_kept_as_a_whole():
    rows, length = 400, 200
    tokens = np.full(rows * length, 7)
    masker = TokenMasker(MASK, SPECIAL, **SPANS)
    masked = masker.mask_rows(tokens, np.full(rows, length), np.arange(rows), (0, 0))
    assert len(masked.positions) == rows * 30  # 15%
    row = masked.positions // length
    first = span_starts(masked.positions, row)
    fate = np.where(masked.tokens[masked.positions] == MASK, 0, 1)
    assert np.array_equal(fate, fate[first])
    spans = np.unique(first)
    assert 2.5 < len(first) / len(spans) < 4.5
    assert close((fate[spans] == 0).mean(), 0.8, len(spans))
    moved = masked.tokens[masked.positions] != 7
    kept = ~np.maximum.reduceat(moved, spans)  # no token of the span changed
    assert close(kept.mean(), 0.1, len(spans))


def test_spans_overlap_and_end_with_the_text():
    masker = TokenMasker(MASK, SPECIAL, **SPANS)
    assert masker._draw_counts(np.array([True, True, False]), np.full(4, 0.999)).tolist() == [
        *(3, 2, 1, 1)
    ]
    sizes, row = np.array([1, 2, 1, 1, 1]), np.zeros(5, int)
    order, counts = np.array([2, 0, 3, 4, 1]), np.array([4, 1, 2, 1, 1])
    ngrams = fitting_ngrams(order, counts, sizes, row, np.array([7]))
    assert ngrams.tolist() == [1, 2, 3, 4]  # the one at 0 would run into that at 2
    spans = fitting_ngrams(order, counts, sizes, row, np.array([5]), overlap=True)
    assert spans.tolist() == [0, 1, 2, 3]
    less = fitting_ngrams(order, counts, sizes, row, np.array([3]), overlap=True)
    assert less.tolist() == [0, 2, 3]  # a word that does not fit is left out whole


def test_every_token_is_as_likely_to_begin_a_span():
    rows = 20_000
    tokens = np.tile([7, 8, 8, 8], rows)  # a word of one token, and one of three
    word_starts = np.arange(len(SPECIAL)) == 7
    word_starts[9] = True
    tokens[1::4] = 9
    masker = TokenMasker(MASK, SPECIAL, word_starts, rate=0.75, ngrams=2, geometric=0.999)
    masked = masker.mask_rows(tokens, np.full(rows, 4), np.arange(rows), (0, 0))
    first = np.bincount(masked.positions // 4, masked.positions % 4 == 0) > 0
    assert close(first.mean(), 0.25, rows)  # three of four tokens belong to the long word


def test_spans_of_neighbouring_rows_are_not_joined():
    assert span_starts(np.array([3, 4, 6, 7, 8]), np.array([0, 0, 0, 1, 1])).tolist() == [
        *(0, 0, 2, 3, 3)
    ]
    assert span_starts(np.empty(0, int), np.empty(0, int)).tolist() == []
