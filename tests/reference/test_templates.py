"""Rows of three templates, as the tokenizers of ``transformers`` build them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.templates import RowBuilder, Template
from regard.text.tokenizers.wordpiece import WordPiece

transformers = pytest.importorskip("transformers")

WORDS = [f"▁{letter}" for letter in "abcdefgh"]


def bert():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    return transformers.BertTokenizer({piece: number for number, piece in enumerate(pieces)})


def roberta():
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "<mask>",
        *"abcdefgh",
        *(f"Ġ{one}" for one in "abcdefgh"),
    ]
    vocab = {piece: number for number, piece in enumerate([*pieces, "Ġ"])}
    return transformers.RobertaTokenizer(vocab, [("Ġ", one) for one in "abcdefgh"])


def xlnet():
    pieces = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eop>", "<eod>", *WORDS]
    return transformers.XLNetTokenizer([(piece, -float(i)) for i, piece in enumerate(pieces)])


CASES = {
    "BERT": (bert, WordPiece.template),
    "RoBERTa": (roberta, Template("cls A sep", "cls A sep sep B sep")),
    "XLNet": (xlnet, Template("A sep cls:2", "A sep B:1 sep:1 cls:2")),
}
TEXT = st.lists(st.sampled_from("abcdefgh"), max_size=9).map(" ".join)


@pytest.fixture(scope="module", params=CASES)
def both(request):
    make, template = CASES[request.param]
    theirs = make()
    ids = {"cls": theirs.cls_token_id, "sep": theirs.sep_token_id}
    return RowBuilder(template, ids), theirs


def assert_same(row, coded):
    assert row.tokens.tolist() == coded["input_ids"]
    assert row.segments.tolist() == coded["token_type_ids"]


def ids(theirs, text):
    return theirs(text, add_special_tokens=False)["input_ids"]


@given(a=TEXT, b=TEXT, longest=st.none() | st.integers(5, 20))
def test_rows(both, a, b, longest):
    builder, theirs = both
    cut = {} if longest is None else {"truncation": "longest_first", "max_length": longest}
    given_both, segments = [ids(theirs, one) for one in (a, b)], {"return_token_type_ids": True}
    assert_same(builder.row(given_both[0], longest=longest), theirs(a, **cut, **segments))
    coded = theirs([a], [b], **cut, **segments)  # alone, b="" would count as no b
    row = builder.row(*given_both, longest)
    assert_same(row, {key: rows[0] for key, rows in coded.items()})


@given(a=TEXT, b=TEXT, longest=st.integers(15, 20), stride=st.integers(0, 1))
def test_windows(both, a, b, longest, stride):
    builder, theirs = both
    spans = list(range(len(ids(theirs, b))))
    windows = builder.windows(ids(theirs, a), ids(theirs, b), spans, longest, stride)
    coded = theirs(
        [a],
        [b],
        truncation="only_second",
        max_length=longest,
        stride=stride,
        return_overflowing_tokens=True,
        return_token_type_ids=True,
    )
    assert len(windows) == len(coded["input_ids"])
    for number, (row, covered, _) in enumerate(windows):
        assert_same(row, {key: coded[key][number] for key in ("input_ids", "token_type_ids")})
        assert [one is not None for one in covered] == [
            text == 1 for text in coded.sequence_ids(number)
        ]
