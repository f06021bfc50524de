"""Pairs are those of the original builder; full passages hold whole sentences; both are found by
number, in any order.
"""

import random
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.batch import BatchLimits
from regard.core.errors import BadInput
from regard.data.batches.document_dataset import DocumentDataset
from regard.data.batches.sampler import Sampler
from regard.data.rows.documents import Documents
from regard.data.rows.row_plans import full_rows
from regard.objectives.next_sentence import (
    IN_ORDER,
    IS_NEXT,
    NOT_NEXT,
    SWAPPED,
    ordered_pairs,
    sentence_pairs,
)
from regard.text.templates import RowBuilder, Template

CLS, SEP = 1, 2
TEMPLATES = {
    "BERT": Template("cls A sep", "cls A sep B:1 sep:1"),
    "RoBERTa": Template("cls A sep", "cls A sep sep B sep"),
    "XLNet": Template("A sep cls:2", "A sep B:1 sep:1 cls:2"),
}
BUILDERS = {name: RowBuilder(one, {"cls": CLS, "sep": SEP}) for name, one in TEMPLATES.items()}
SINGLE, PAIR = BUILDERS["BERT"].frame(1), BUILDERS["BERT"].frame(2)


def numbered(shape: list[list[int]]) -> Documents:
    """Documents whose sentences have these lengths; every token is another number."""
    tokens = iter(range(10, 10**6))
    return Documents.of([[[next(tokens) for _ in range(n)] for n in one] for one in shape])


SHAPES = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=12), min_size=2, max_size=6)


def parts(tokens: Any) -> list[list[int]]:
    """What lies between the marks."""
    assert tokens[0] == CLS and tokens[-1] == SEP
    ends = np.flatnonzero(tokens == SEP)
    return [one[:-1].tolist() for one in np.split(tokens[1:], ends[:-1])]


def all_pairs(documents: Documents, longest: int, key: tuple[int, int], short: float = 0.1):
    plan = sentence_pairs(documents, PAIR, longest, key, short)
    return plan.read(np.arange(len(plan)))


@given(SHAPES, st.integers(5, 40), st.integers(0, 99), st.sampled_from([0.0, 0.1, 1.0]))
def test_pairs(shape, longest, seed, short):
    documents = numbered(shape)
    belongs = np.repeat(np.arange(len(shape)), [sum(one) for one in shape])
    for row, follows in all_pairs(documents, longest, (seed, 0), short):
        assert len(row.tokens) == len(row.segments) <= longest
        first, second = parts(row.tokens)
        assert row.segments.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert first and second
        for part in (first, second):
            assert part == list(range(part[0], part[0] + len(part)))
            assert len(set(belongs[np.array(part) - 10])) == 1
        same = belongs[first[0] - 10] == belongs[second[0] - 10]
        assert same == (follows == IS_NEXT)
        if same:
            assert second[0] > first[-1]


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=list(BUILDERS))
@given(shape=SHAPES, longest=st.integers(6, 40), seed=st.integers(0, 99))
def test_rows_are_those_of_the_template(builder, shape, longest, seed):
    documents = numbered(shape)
    for plan in (
        sentence_pairs(documents, builder.frame(2), longest, (seed, 0)),
        full_rows(documents, builder.frame(1), longest),
    ):
        rows = [row for row, _ in plan.read(np.arange(len(plan)))]
        assert plan.lengths.tolist() == [len(row.tokens) for row in rows]
        for row in rows:
            texts = [[*map(int, run)] for run in runs(row.tokens)]
            if plan.labels is None:  # a text of several documents, a separator between them
                texts = [[*texts[0], *(i for text in texts[1:] for i in (SEP, *text))]]
            expected = builder.row(*texts)
            assert row.tokens.tolist() == expected.tokens.tolist()
            assert row.segments.tolist() == expected.segments.tolist()
            assert len(row.tokens) <= longest


def runs(tokens):
    """What lies between special tokens."""
    special = np.flatnonzero(np.isin(tokens, (CLS, SEP)))
    return [run[run > SEP] for run in np.split(tokens, special) if (run > SEP).any()]


@given(SHAPES, st.integers(5, 40), st.integers(0, 99))
def test_a_second_part_that_follows_does_so_at_once(shape, longest, seed):
    """Uncut pairs leave nothing out between both parts, nor a sentence between two pairs."""
    documents = numbered(shape)
    starts = set((documents.first_token + 10).tolist())
    for row, follows in all_pairs(documents, longest, (seed, 0)):
        first, second = parts(row.tokens)
        if follows == IS_NEXT and len(row.tokens) < longest:
            assert second[0] == first[-1] + 1
            assert {first[0], second[0], second[-1] + 1} <= starts


def test_nothing_is_lost_where_nothing_must_be_cut():
    """What another passage replaced is used again."""
    documents = numbered([[3] * 50, [3] * 40, [3] * 70])
    for epoch in range(5):
        used: list[int] = []
        for row, follows in all_pairs(documents, 60, (0, epoch), short=0.0):
            first, second = parts(row.tokens)
            used += first + second if follows == IS_NEXT else first
        assert used == list(range(10, 10 + 480))


def slowly(documents: list[list[list[int]]], number: int, longest: int, rng: random.Random):
    """The original builder, sentence by sentence and token by token."""
    room = target = longest - 3
    if rng.random() < 0.1:
        target = rng.randint(2, room)
    waiting = [*documents[number]]
    while waiting:
        chunk = [waiting.pop(0)]
        while waiting and sum(map(len, chunk)) < target:
            chunk.append(waiting.pop(0))
        border = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first, second = [*chain(*chunk[:border])], [*chain(*chunk[border:])]
        follows = len(chunk) > 1 and rng.random() >= 0.5
        if not follows:
            waiting = chunk[border:] + waiting
            other = rng.choice([d for n, d in enumerate(documents) if n != number])
            second, rest = [], other[rng.randrange(len(other)) :]
            while rest and (not second or len(second) < target - len(first)):
                second += rest.pop(0)
        while len(first) + len(second) > room:
            longer = first if len(first) > len(second) else second
            longer.pop(0 if rng.random() < 0.5 else -1)
        yield first, second, follows


def figures(rows: list[tuple[list[int], list[int], bool]]) -> np.ndarray:
    """What both builders are compared by, for each row."""
    return np.array(
        [
            (follows, len(a), len(b), len(a) + len(b), a[0] % 97, b[0] % 97, len(a) > len(b))
            for a, b, follows in rows
        ],
        float,
    )


def test_pairs_are_those_of_the_original_builder():
    rng = random.Random(1)
    shape = [[rng.choice([1, 3, 8, 20, 33]) for _ in range(rng.randint(1, 30))] for _ in range(12)]
    documents = numbered(shape)
    lists = [
        [part.tolist() for part in np.split(row, np.cumsum(lengths)[:-1])]
        for row, lengths in zip(documents.rows, documents.sentences, strict=True)
    ]
    times = 150
    theirs, ours = [], []
    for epoch in range(times):
        theirs.append([p for n in range(12) for p in slowly(lists, n, 40, rng)])
        ours.append(
            [
                (*parts(row.tokens), one == IS_NEXT)
                for row, one in all_pairs(documents, 40, (2, epoch))
            ]
        )
    counts = [np.array([len(one) for one in rows]) for rows in (theirs, ours)]
    error = (sum(count.var() for count in counts) / times) ** 0.5
    assert abs(counts[0].mean() - counts[1].mean()) < 4 * error
    sums = [np.array([figures(one).sum(axis=0) for one in rows]) for rows in (theirs, ours)]
    squares = [
        np.array([(figures(one) ** 2).sum(axis=0) for one in rows]) for rows in (theirs, ours)
    ]
    for one, two in (sums, squares):  # rows of one epoch are not independent: compare epochs
        error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / times)
        assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 4 * error).all()


def test_half_of_the_second_parts_follow():
    documents = numbered([[5] * 400] * 20)
    follows = np.concatenate(
        [sentence_pairs(documents, PAIR, 64, (0, epoch), short=0.0).labels for epoch in range(4)]
    )
    assert abs((follows == IS_NEXT).mean() - 0.5) < 4 * 0.5 / len(follows) ** 0.5


def test_what_comes_from_elsewhere_comes_from_every_other_document():
    documents = numbered([[4] * 30] * 5)
    seen = np.zeros((5, 5), int)
    for epoch in range(60):
        for row, follows in all_pairs(documents, 24, (0, epoch)):
            first, second = ((part[0] - 10) // 120 for part in parts(row.tokens))
            seen[first, second] += follows == NOT_NEXT
    assert not seen.diagonal().any()
    others = seen[~np.eye(5, dtype=bool)]
    assert ((others - others.mean()) ** 2 / others.mean()).sum() < 43.8  # 19 degrees, p = 0.001


def test_one_document_in_ten_has_short_rows():
    documents = numbered([[1] * 40] * 3_000)
    for short in (0.1, 1.0):
        plan = sentence_pairs(documents, PAIR, 23, (4, 0), short)
        assert plan.labels is not None
        first_of_document = np.isin(plan.begin[::2], documents.borders)
        lengths = plan.lengths[first_of_document & (plan.labels == IS_NEXT)]
        expected = short * 18 / 19  # a target drawn from 2 … 20 may be 20
        assert abs((lengths < 23).mean() - expected) < 4 * (expected / len(lengths)) ** 0.5
    by_length = np.bincount(lengths)[5:]
    expected = len(lengths) / 19
    assert len(by_length) == 19
    assert ((by_length - expected) ** 2 / expected).sum() < 42.3  # 18 degrees, p = 0.001


def test_the_papers_example():
    """The man went to the store, he bought milk: next. Penguins are flightless birds: not."""
    sentences = {
        "store": "the man went to [MASK] store",
        "milk": "he bought a gallon [MASK] milk",
        "penguins": "penguin [MASK] are flight ##less birds",
    }
    words = sorted({word for sentence in sentences.values() for word in sentence.split()})
    ids = {
        name: [10 + words.index(word) for word in one.split()] for name, one in sentences.items()
    }
    documents = Documents.of([[ids["store"], ids["milk"]], [ids["penguins"]]])
    seen = set()
    for epoch in range(20):
        for row, follows in all_pairs(documents, 32, (0, epoch), short=0.0):
            first, second = parts(row.tokens)
            if first == ids["store"]:
                seen.add(("milk" if second == ids["milk"] else "penguins", follows))
                assert second in (ids["milk"], ids["penguins"])
    assert seen == {("milk", 0), ("penguins", 1)}


def test_a_part_is_cut_at_both_ends():
    documents = numbered([[30], [30]])
    front = []
    for epoch in range(300):
        for row, _ in all_pairs(documents, 23, (0, epoch), short=0.0):
            first, second = parts(row.tokens)
            assert len(first) == len(second) == 10
            front += [(part[0] - 10) % 30 for part in (first, second)]
    assert abs(np.mean(front) - 10) < 4 * (5 / len(front)) ** 0.5  # half of 20 lost tokens
    assert np.var(front) == pytest.approx(5, rel=0.2)


@pytest.mark.parametrize(
    ("lengths", "longest", "kept"),
    [([2, 9], 8, (2, 3)), ([9, 2], 8, (3, 2)), ([9, 9], 8, (3, 2)), ([1, 1], 8, (1, 1))],
)
def test_the_longer_part_is_cut(lengths, longest, kept):
    documents = numbered([[n] for n in lengths])
    row = all_pairs(documents, longest, (0, 0), short=0.0)[0].row
    assert tuple(map(len, parts(row.tokens))) == kept


def test_an_epoch_is_drawn_by_its_key():
    documents = numbered([[3, 5, 7] * 9] * 7)
    plans = [sentence_pairs(documents, PAIR, 32, key) for key in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert (plans[0].begin == plans[1].begin).all()
    assert len({plan.begin.tobytes() for plan in plans}) == 3


def test_pairs_need_long_rows_and_two_documents():
    with pytest.raises(BadInput, match="5 at least"):
        sentence_pairs(numbered([[1], [1]]), PAIR, 4, (0, 0))
    with pytest.raises(BadInput, match="two documents"):
        sentence_pairs(numbered([[1, 1]]), PAIR, 40, (0, 0))


@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=6),
    st.integers(3, 24),
)
def test_full_passages(shape, longest):
    documents = numbered(shape)
    plan = full_rows(documents, SINGLE, longest)
    rows = plan.read(np.arange(len(plan)))
    read = [[token for part in parts(row.tokens) for token in part] for row, _ in rows]
    assert [*chain(*read)] == list(range(10, 10 + int(documents.first_token[-1])))
    assert plan.lengths.tolist() == [len(row.tokens) for row, _ in rows]
    starts = set((documents.first_token + 10).tolist())
    borders = set((documents.borders + 10).tolist())
    for number, (row, follows) in enumerate(rows):
        assert len(row.tokens) <= longest and not any(row.segments) and follows is None
        inside = parts(row.tokens)
        assert all(part[0] in borders for part in inside[1:])
        assert not any(token in borders for part in inside for token in part[1:])
        if number + 1 < len(rows):
            after = read[number + 1]
            sentence = next(n for n in range(1, 99) if after[0] + n in starts)
            whole = after[0] in starts
            assert whole or len(row.tokens) == longest or read[number][0] not in starts
            if whole:  # the next sentence would not have fitted
                more = min(sentence, longest - 2) + (after[0] in borders)
                assert len(row.tokens) + more > longest
    with pytest.raises(BadInput, match="3 at least"):
        full_rows(documents, SINGLE, 2)


def unannotated(documents: Documents, plan) -> DocumentDataset:
    return DocumentDataset(documents, plan, lambda rows, numbers, key: rows, 3)


def sampler(documents: Documents, longest: int = 24) -> Sampler:
    dataset = unannotated(
        documents, lambda epoch: sentence_pairs(documents, PAIR, longest, (3, epoch))
    )
    object.__setattr__(dataset, "window", 64)
    return Sampler(dataset, None, BatchLimits(200, 20, longest), 3)


def content(batch):
    """Rows with their numbers, as they are read."""
    examples = batch.read()
    assert [len(one.row.tokens) for one in examples] == batch.lengths[:, 0].tolist()
    rows = ((one.row.tokens.tolist(), one.target) for one in examples)
    return list(zip(batch.indices.tolist(), rows, strict=True))


def test_a_sampler_reads_them_and_resumes_anywhere():
    documents = numbered([[3, 5, 7] * 9] * 7)
    batches = []
    for cursor, batch in sampler(documents).batches():
        batches.append((cursor, content(batch)))
        if cursor.epoch == 2:
            break
    for at in (0, 5, len(batches) // 2, len(batches) - 2):
        cursor, batch = next(sampler(documents).batches(batches[at][0]))
        assert (cursor, content(batch)) == batches[at + 1]


def test_an_epoch_with_more_or_fewer_rows_is_spread_over_its_numbers():
    documents = numbered([[3, 5, 7] * 9] * 7)
    passages = unannotated(documents, partial(drawn, documents))
    lengths = {len(passages.planned(epoch)) for epoch in range(9)}
    assert len(lengths) > 1
    for epoch in range(9):
        read = passages.read(epoch, np.arange(len(passages)))
        seen = len({tuple(one.row.tokens) for one in read})
        assert seen >= 0.95 * min(len(passages), len(passages.planned(epoch)))
        one = passages.read(epoch, np.array([5]))[0]
        assert list(one.row.tokens) == list(read[5].row.tokens)


def drawn(documents: Documents, epoch: int):
    return sentence_pairs(documents, PAIR, 24, (3, epoch))


def test_no_indices_read_nothing():
    documents = numbered([[3], [4]])
    passages = unannotated(documents, partial(drawn, documents))
    assert passages.read(0, np.empty(0, np.int64)) == []


def all_ordered(documents: Documents, longest: int, key: tuple[int, int], short: float = 0.1):
    plan = ordered_pairs(documents, PAIR, longest, key, short)
    return plan.read(np.arange(len(plan)))


@given(SHAPES, st.integers(5, 40), st.integers(0, 99), st.sampled_from([0.0, 0.1, 1.0]))
def test_ordered_pairs_are_consecutive_parts_of_one_document(shape, longest, seed, short):
    shape = [*shape, [2, 2]]  # one has two sentences at least
    documents = numbered(shape)
    belongs = np.repeat(np.arange(len(shape)), [sum(one) for one in shape])
    starts = set((documents.first_token + 10).tolist())
    for row, label in all_ordered(documents, longest, (seed, 0), short):
        assert len(row.tokens) <= longest
        first, second = parts(row.tokens)
        assert row.segments.tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        earlier, later = (second, first) if label == SWAPPED else (first, second)
        assert earlier[-1] < later[0]
        assert len({*belongs[np.array(earlier + later) - 10]}) == 1
        if len(row.tokens) < longest:  # nothing was cut: split between two sentences
            assert later[0] == earlier[-1] + 1
            assert {earlier[0], later[0], later[-1] + 1} <= starts


def test_ordered_pairs_leave_out_nothing_but_a_last_sentence_alone():
    documents = numbered([[3] * 50, [3] * 40, [5], [3] * 58])  # 19 sentences fit into a row
    alone = {*range(280, 285), *range(456, 459)}  # a document, and the last of three rows of 19
    for epoch in range(5):
        rows = all_ordered(documents, 60, (0, epoch), short=0.0)
        used = sorted(token for row, _ in rows for part in parts(row.tokens) for token in part)
        assert used == sorted({*range(10, 459)} - alone)


def test_half_of_the_ordered_pairs_are_swapped_and_the_split_is_anywhere():
    documents = numbered([[1] * 9] * 2_000)
    rows = all_ordered(documents, 12, (0, 0), short=0.0)
    labels = np.array([label for _, label in rows])
    assert len(rows) == 2_000 and {*labels.tolist()} == {IN_ORDER, SWAPPED}
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / 2_000**0.5
    for label in (IN_ORDER, SWAPPED):
        sizes = np.array([len(parts(row.tokens)[0]) for row, one in rows if one == label])
        counts = np.bincount(sizes, minlength=9)[1:]
        assert (abs(counts / len(sizes) - 1 / 8) < 4 * (7 / 64 / len(sizes)) ** 0.5).all()
    assert any(
        label != other
        for (_, label), (_, other) in zip(rows, all_ordered(documents, 12, (0, 1)), strict=False)
    )


def test_labels_are_the_numbers_of_published_heads():
    """0: the second part follows the first, 1: it does not, as the heads of BERT and ALBERT say."""
    documents = numbered([[3] * 6] * 20)
    for row, label in all_ordered(documents, 12, (0, 0)):
        first, second = parts(row.tokens)
        assert label == int(first[0] > second[0])
    for row, label in all_pairs(documents, 12, (0, 0)):
        first, second = parts(row.tokens)
        assert label == int((first[0] - 10) // 18 != (second[0] - 10) // 18)  # of one document


def test_documents_of_single_sentences_have_no_order():
    with pytest.raises(BadInput, match="sentence order needs documents of several sentences"):
        ordered_pairs(numbered([[4], [3]]), PAIR, 20, (0, 0))
    assert len(ordered_pairs(numbered([[4, 4]]), PAIR, 20, (0, 0))) == 1  # one document is enough
