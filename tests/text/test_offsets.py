"""Words and the tokens they are made of, also where a token is more than one word."""

from regard.text.offsets import Segmentation, tokens_of_words, units
from regard.text.words import Span


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
