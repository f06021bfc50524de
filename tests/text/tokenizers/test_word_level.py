"""Whole words: lines end in <eos>, unknown words are <unk>, and files give the same words back."""

import pytest

from regard.core.errors import BadInput
from regard.data.readers.document_files import TextFile
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.tokenizers.word_level import LINES
from regard.text.vocabulary import matching_ids

TEXT = " \n = Title = \n \n a a <unk> b b b . \n"


def learned(vocab=9, lower=False):
    return train_encoder_tokenizer([TEXT], "word-level", vocab, lower=lower, longest=None)


def test_words_are_numbered_by_frequency():
    words = learned().words
    assert [words.pieces([i])[0] for i in range(len(words))] == [
        *("<unk>", "<eos>", "b", "=", "a", ".", "Title")
    ]
    assert words.pieces(words.encode(TEXT)) == [
        *("<eos>", "=", "Title", "=", "<eos>", "<eos>"),
        *("a", "a", "<unk>", "b", "b", "b", ".", "<eos>"),
    ]


def test_words_beyond_the_vocabulary_are_unknown():
    words = learned(vocab=4).words
    assert words.pieces(words.encode("b = a c\n")) == ["b", "=", "<unk>", "<unk>", "<eos>"]
    assert words.decode(words.encode("b =")) == "b ="


def test_lower_case():
    words = learned(lower=True).words
    assert "title" in words.pieces(words.encode("TITLE"))


def test_it_is_saved_and_loaded(tmp_path):
    tokenizer = learned()
    tokenizer.save(tmp_path)
    for missing in ((), ("tokenizer.json",)):
        for name in missing:
            (tmp_path / name).unlink()
        again = EncoderTokenizer.load(tmp_path)
        assert again.words.encode(TEXT) == tokenizer.words.encode(TEXT)
        assert again.template.frame(1).between == ((1, 0),)
        assert again.special_ids == {"eos_token": 1}
    assert (tmp_path / LINES).read_text().splitlines()[:3] == ["<unk>", "<eos>", "b"]


def test_bad_files_are_refused(tmp_path):
    learned().save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / LINES).write_text("<unk>\n<eos>\na\na\n")
    with pytest.raises(BadInput, match="occurs twice"):
        EncoderTokenizer.load(tmp_path)


def test_a_running_text_keeps_its_empty_lines(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    assert [*TextFile(str(path)).texts(None)] == [TEXT]
    assert [*TextFile(str(path)).documents(None)] == [["= Title =", "a a <unk> b b b ."]]


def test_words_and_marks_of_raw_texts():
    text = "It's a well-made film, isn't it?\nThe 'best' of 1999 <unk> 100%!"
    tokenizer = train_encoder_tokenizer([text], "raw-words", 90, lower=True, longest=None)
    assert tokenizer.words.pieces(tokenizer.words.encode(text)) == [
        *("it", "'s", "a", "well", "-", "made", "film", ",", "isn", "'t", "it", "?", "<eos>"),
        *("the", "'", "best", "'", "of", "1999", "<unk>", "100", "%", "!"),
    ]


def test_both_are_told_apart_in_files(tmp_path):
    for name in ("word-level", "raw-words"):
        tokenizer = train_encoder_tokenizer(["a b, c"], name, 90, longest=None)
        tokenizer.save(tmp_path / name)
        again = EncoderTokenizer.load(tmp_path / name)
        assert again.family.name == name
        assert again.words.encode("c b, a") == tokenizer.words.encode("c b, a")


def test_the_numbers_of_words_in_another_vocabulary():
    one, other = (
        train_encoder_tokenizer([text], "word-level", 90, longest=None).words
        for text in ("b b a", "c c a b b b")
    )
    assert one.pieces(range(4)) == ["<unk>", "<eos>", "b", "a"]
    assert other.pieces(range(5)) == ["<unk>", "<eos>", "b", "c", "a"]
    assert matching_ids(one, other) == [0, 1, 2, 4]
    assert matching_ids(other, one) == [0, 1, 2, None, 3]
