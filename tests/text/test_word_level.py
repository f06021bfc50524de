"""Whole words: lines end in <eos>, unknown words are <unk>, and files give the same words back."""

import pytest

from regard.data.documents import TextFile
from regard.ground.errors import BadInput
from regard.text.encoder_tokenizer import EncoderTokenizer, train_encoder_tokenizer
from regard.text.word_level import LINES

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
    assert [text for _, text in TextFile(str(path)).texts(None)] == [TEXT]
    assert [one for _, one in TextFile(str(path)).documents(None)] == [
        ["= Title =", "a a <unk> b b b ."]
    ]
