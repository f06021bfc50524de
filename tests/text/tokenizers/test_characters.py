"""Words as the ids of their characters."""

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.text.tokenizers.word_level import CharacterTokenizer, CharacterVocabulary


def test_a_word_is_its_bytes_between_begin_and_end():
    (row,) = CharacterVocabulary(8).spell(["né"])
    assert row.tolist() == [258, ord("n"), 0xC3, 0xA9, 259, 260, 260, 260]


def test_a_long_word_is_cut():
    (row,) = CharacterVocabulary(5).spell(["abcdef"])
    assert row.tolist() == [258, ord("a"), ord("b"), ord("c"), 259]


def test_a_row_is_a_sentence_between_two_words():
    tokenizer = CharacterTokenizer(CharacterVocabulary(6))
    row = tokenizer.row(tokenizer.words.encode("a b."))
    assert row.tokens.shape == (5, 6)
    assert row.tokens[0].tolist() == [258, 256, 259, 260, 260, 260]
    assert row.tokens[-1].tolist() == [258, 257, 259, 260, 260, 260]
    assert tokenizer.words.pieces(row.tokens) == ["<S>", "a", "b", ".", "</S>"]
    assert tokenizer.decode(row.tokens) == "a b ."
    assert tokenizer.count(["a b."], 512) == 5
    words = tokenizer.template.row_of_words(tokenizer.pieces(["a", "b", "."]))
    assert np.array_equal(words.row.tokens, row.tokens) and words.first_tokens == [1, 2, 3]


def test_texts_without_words_are_rows_without_words():
    tokenizer = CharacterTokenizer()
    assert tokenizer.row(tokenizer.words.encode(" ")).tokens.shape == (2, 50)
    assert tokenizer.template.row_of_words([]).row.tokens.shape == (2, 50)


def test_it_is_saved_and_loaded(tmp_path):
    CharacterTokenizer(CharacterVocabulary(9)).save(tmp_path)
    assert CharacterTokenizer.load(tmp_path).words.longest == 9
    (tmp_path / "characters.json").write_text('{"longest": "9"}')
    with pytest.raises(BadInput, match="longest"):
        CharacterTokenizer.load(tmp_path)
    with pytest.raises(BadInput, match="no room"):
        CharacterVocabulary(2)
