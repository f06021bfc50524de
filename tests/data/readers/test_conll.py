"""Columns of words and tags: where sentences end, what is left out, which column is meant."""

import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.readers.by_task import read
from regard.data.readers.examples import TaggedExample
from regard.data.readers.fields import DropCounts
from regard.data.readers.text_files import TO_UTF8

NER = (
    "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\n-DOCSTART- -X- O O\n\n"
    "Peter NNP I-NP I-PER"
)
UD = (
    "# sent_id = 1\n# text = don't go\n"
    "1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_\n"
    "2.1\tthere\t_\tADV\tRB\t_\t_\t_\t_\t_\n"
    "3\t10 000\t#\tNUM\tCD\t_\t1\tobj\t_\t_\n"
)


def put(path, text):
    path.write_text(text, encoding="utf-8", newline="")
    return path


def complains(message):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


def test_entities_as_distributed(tmp_path):
    path = put(tmp_path / "eng.train", NER)
    assert list(read("tag", "CoNLL", path)) == [
        TaggedExample(f"{path}:3", ("EU", "rejects"), ("I-ORG", "O")),
        TaggedExample(f"{path}:9", ("Peter",), ("I-PER",)),
    ]
    assert [one.tags for one in read("tag", "conll", path, tag=1)] == [("NNP", "VBZ"), ("NNP",)]
    assert [one.words for one in read("tag", "conll", path, word=2)][1] == ("I-NP",)


def test_tabs_and_carriage_returns_and_packing(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress("New\u00a0York\tB\r\nis\tO \r\n\r\n".encode()))
    (only,) = read("tag", "CoNLL", path)
    assert (only.words, only.tags) == (("New\u00a0York", "is"), ("B", "O"))


words = st.text(st.characters(categories=["L", "N", "P"]), min_size=1).filter(
    lambda word: word != "-DOCSTART-"
)
sentences = st.lists(st.lists(st.tuples(words, words), min_size=1), max_size=5)


@given(sentences, st.sampled_from([" ", "\t", "   "]), st.booleans())
def test_what_is_written_is_read(tmp_path_factory, sentences, between, ended):
    blocks = ["\n".join(between.join(pair) for pair in one) for one in sentences]
    path = put(tmp_path_factory.mktemp("conll") / "a", "\n\n".join(blocks) + "\n\n" * ended)
    read_back = [list(zip(one.words, one.tags, strict=True)) for one in read("tag", "CoNLL", path)]
    assert read_back == sentences


def test_universal_dependencies(tmp_path):
    path = put(tmp_path / "a.conllu", UD)
    (only,) = read("tag", "CoNLL-U", path)
    assert only == TaggedExample(f"{path}:1", ("do", "n't", "10 000"), ("AUX", "PART", "NUM"))
    assert next(read("tag", "CoNLL-U", path, tag=4)).tags == ("VB", "RB", "CD")


@pytest.mark.parametrize(
    ("reader", "text", "options", "message"),
    [
        ("CoNLL", "a O\nb\n", {}, ":2: 1 columns where the sentence began with 2"),
        ("CoNLL", "a\nb\n", {}, ":1: no column 0, counted from 0: the line has 1"),
        ("CoNLL", "a O\n", {"tag": 2}, ":1: no column 2, counted from 0: the line has 2"),
        ("CoNLL", "\tO\n", {}, ":1: a word or a tag is empty"),
        ("CoNLL-U", "1\ta\ta\tX\n", {}, ":1: 4 columns instead of 10"),
        ("CoNLL-U", UD.replace("\n2\t", "\nx\t"), {}, ":5: 'x' is not the number of a word"),
        ("CoNLL-U", "# only\n# comments\n", {}, ":1: a sentence without words"),
    ],
)
def test_a_bad_sentence_is_named_or_dropped_whole(tmp_path, reader, text, options, message):
    path = put(tmp_path / "a", text)
    with complains(f"{path}{message}"):
        list(read("tag", reader, path, **options))
    good = UD if reader == "CoNLL-U" else "good O O O\n"
    put(path, f"{text}\n\n{good}")
    dropped = DropCounts()
    assert len(list(read("tag", reader, path, dropped, **options))) == 1
    assert dropped.total() == 1


def test_another_encoding_is_never_dropped(tmp_path):
    path = tmp_path / "deu.train"
    path.write_bytes("für O\n".encode("latin-1"))
    with complains(f"{path}:1: not UTF-8 (byte 0xfc at column 2); {TO_UTF8}"):
        list(read("tag", "CoNLL", path, DropCounts()))
