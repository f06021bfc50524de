"""Tokens of words, also where a token is more than one word, and rows with names of tokens."""

import pytest

from regard.core.errors import BadInput
from regard.text.segmentation import Segmentation, TokenLabels, tokens_of_words, units
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from regard.text.tokenizers.plain_tokenizer import PlainTokenizer
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from regard.text.words import Span

TEXTS = ["the old sailor sails", "a cat, and storms", "storming cats!"]


@pytest.fixture(scope="module")
def translation():
    return train_translation_tokenizer(TEXTS, TEXTS, "bpe", 300, joint=True)


@pytest.fixture(scope="module")
def encoder():
    return train_encoder_tokenizer(TEXTS, "wordpiece", 60)


def check(row, labels):
    """Every token has a subword and stands in one word."""
    assert len(row.tokens) == len(row.segments) == len(labels.subwords)
    assert len(labels.words) == len(labels.groups)
    assert sorted(i for group in labels.groups for i in group) == [*range(len(row.tokens))]


def test_sequences_are_joined():
    word = TokenLabels(("a", "b"), ("ab",), ((0, 1),))
    joined = TokenLabels.join(TokenLabels.special("<"), word, word, TokenLabels.special(">"))
    assert joined.subwords == ("<", "a", "b", "a", "b", ">")
    assert joined.words == ("<", "ab", "ab", ">")
    assert joined.groups == ((0,), (1, 2), (3, 4), (5,))
    assert TokenLabels.join() == TokenLabels((), (), ())
    assert joined.specials == (0, 5) and word.specials == ()


def test_a_source_and_a_target(translation):
    rows = translation.label("the cat!", "old storms")
    source, target = rows["source"], rows["target"]
    ids = translation.source.encode("the cat!"), translation.target.encode("old storms")
    assert list(source.row.tokens) == [*ids[0], translation.target.eos]
    assert list(target.row.tokens) == [translation.target.bos, *ids[1]]
    assert source.queries == source.keys
    assert source.keys.words == ("the", "cat", "!", "⟨end⟩")
    assert target.queries.words == ("old", "storms", "⟨end⟩")
    assert target.keys.words == ("⟨begin⟩", "old", "storms")
    for one in rows.values():
        check(one.row, one.queries)
        check(one.row, one.keys)
    assert translation.label_all("a", "b") == [translation.label("a", "b")]
    with pytest.raises(BadInput, match="give a second text"):
        translation.label("a")


def test_rows_of_one_text_and_of_two(encoder):
    one, two = (each["trunk"] for each in encoder.label_all("the cats!", "a storm"))
    assert one.keys.words == ("[CLS]", "the", "cats", "!", "[SEP]")
    assert two.keys.words == ("[CLS]", "the", "cats", "!", "[SEP]", "a", "storm", "[SEP]")
    for each in (one, two):
        check(each.row, each.keys)
        assert each.queries == each.keys
        assert list(each.keys.subwords) == encoder.words.pieces([int(i) for i in each.row.tokens])
    assert max(one.row.segments) == 0 and max(two.row.segments) == 1


def test_texts_without_special_tokens(translation):
    plain = PlainTokenizer(translation.source)
    (only,) = plain.label_all("the cat!", "a")
    assert list(only["trunk"].row.tokens) == translation.source.encode("the cat!")
    assert only["trunk"].keys.words == ("the", "cat", "!")
    with pytest.raises(BadInput, match="one text at a time"):
        plain.label("the cat", "a")


def test_a_text_without_tokens(translation, encoder):
    assert translation.label("", "")["target"].keys.words == ("⟨begin⟩",)
    assert encoder.label("")["trunk"].keys.words == ("[CLS]", "[SEP]")
    assert len(PlainTokenizer(translation.source).label("")["trunk"].row.tokens) == 0


def cut(*spans: tuple[int, int]) -> Segmentation:
    return Segmentation(tuple(range(len(spans))), tuple(Span(*one) for one in spans), ())


def test_a_token_of_two_words_belongs_to_both():
    text = "so what?!"
    parts = cut((0, 2), (2, 5), (5, 7), (7, 9))
    assert tokens_of_words(text, parts) == [[0], [1, 2], [3], [3]]
    assert units(text, parts) == (["so", "what", "?!"], [[0], [1, 2], [3]])


def test_tokens_of_no_word_belong_to_none():
    assert tokens_of_words("a  b", cut((0, 1), (1, 3), (3, 4))) == [[0], [2]]
    assert units("a  b", cut((0, 1), (1, 3), (3, 4))) == (["a", "b"], [[0], [1, 2]])
    assert units("", cut()) == ([], [])


def test_three_marks_in_one_token():
    assert units("one...", cut((0, 3), (3, 6))) == (["one", "..."], [[0], [1]])
