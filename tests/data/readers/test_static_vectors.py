"""Files of static word vectors: text, binary, compressed, and bad ones."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from regard.core.errors import BadInput
from regard.data.readers.static_vectors import StaticVectors

WORDS = ("the", "Über", "bank", "...")
VECTORS = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def text(end: str = "\n") -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    lines = (" ".join([word, *(repr(float(x)) for x in row)]) + end for word, row in rows)
    return "".join(lines).encode()


def binary(end: bytes = b"\n") -> bytes:
    rows = zip(WORDS, VECTORS, strict=True)
    entries = (word.encode() + b" " + struct.pack("<3f", *row) + end for word, row in rows)
    return b"4 3\n" + b"".join(entries)


FILES = {
    "GloVe": text(),
    "byte order mark and carriage returns": b"\xef\xbb\xbf" + text("\r\n"),
    "word2vec": b"4 3\n" + text(" \n"),
    "binary": binary(),
    "binary without line feeds": binary(b""),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_all_formats_say_the_same(tmp_path, content, suffix):
    path = tmp_path / f"vectors{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    vectors = StaticVectors.read(path)
    assert vectors.words == WORDS and len(vectors) == 4 and vectors.width == 3
    np.testing.assert_array_equal(vectors.vectors_ND, VECTORS)
    first = StaticVectors.read(path, most=2)
    assert first.words == WORDS[:2]
    np.testing.assert_array_equal(first.vectors_ND, VECTORS[:2])


def test_words_are_found_as_written_or_in_lower_case(tmp_path):
    (tmp_path / "v").write_bytes(text())
    vectors = StaticVectors.read(tmp_path / "v")
    assert [vectors.index_of(word) for word in ("Über", "BANK", "über", "cat")] == [
        1,
        2,
        None,
        None,
    ]
    assert "The" in vectors and "cat" not in vectors
    assert vectors.indices_of(["cat", "Bank", "the"]) == {1: 2, 2: 0}


def test_columns_that_are_no_numbers_belong_to_the_word(tmp_path):
    (tmp_path / "v").write_text("a 1 2\nat name@domain.com 3 4\n. . . 5 6\n")
    assert StaticVectors.read(tmp_path / "v").words == ("a", "at name@domain.com", ". . .")


WRONG = {
    b"a 1 2\nb 1\n": "v:2: 1 numbers; expected 2",
    b"a 1 2\nb 1 2 3\n": "v:2: 3 numbers; expected 2",
    b"a 1 x\n": "v:1: expected a word and the numbers of its vector",
    b"a\t1\t2\n": "v:1: expected a word and the numbers of its vector, separated by spaces",
    b"a 1\n\n": "v:2: 0 numbers; expected 1",
    b"a 1 2\nb 1 2\na 1 2\n": "v:3: the word 'a' occurs twice",
    b"a 1 2\nb nan 2\n": "the vector of 'b' has numbers that are not finite",
    b"a 1 1e99\n": "the vector of 'a' has numbers that are not finite",
    b"a 1 2\n\xff 1 2\n": "v:2: not UTF-8",
    b"": "v: has no vectors",
    b"3 2\na 1 2\nb 1 2\n": "v: has 2 words, but its first line announces 3",
    b"1 3\na 1 2\n": "v:2: 2 numbers; expected 3",
    b"1 0\na\n": "says 0 numbers per vector",
    b"1 99999999999\na\n": "says 99999999999 numbers per vector",
    binary()[:-3]: "v: word 4 of 4: the file is truncated",
    binary()[: 4 + 3]: "v:2: 0 numbers; expected 3",
    binary() + b"more": "v: has more than the 4 words that its first line announces",
    binary().replace(b"bank ", b"the "): "word 3 of 4: the word 'the' occurs twice",
    binary().replace(b"4 3\n", b"4 400\n"): "word 1 of 4: the file is truncated",
    b"2 2\n" + bytes(1) + b"a" * 2_000: "word 1 of 2: no word ends within 1000 bytes",
}


@pytest.mark.parametrize("content", WRONG)
def test_bad_files_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "v").write_bytes(content)
    with pytest.raises(BadInput, match=WRONG[content]) as error:
        StaticVectors.read(tmp_path / "v")
    assert "\n" not in str(error.value)


def test_a_damaged_archive_and_a_missing_file(tmp_path):
    (tmp_path / "v.gz").write_bytes(gzip.compress(text())[:40])
    with pytest.raises(BadInput, match="damaged or truncated"):
        StaticVectors.read(tmp_path / "v.gz")
    with pytest.raises(BadInput, match="cannot be read"):
        StaticVectors.read(tmp_path / "nowhere")


def test_nearest_words_are_those_of_the_cosines(tmp_path):
    draw = np.random.default_rng(1)
    vectors_ND = draw.normal(size=(50, 6)).astype(np.float32)
    vectors_ND[7] = 0
    vectors = StaticVectors(tuple(map(str, range(50))), vectors_ND)
    queries_BD = draw.normal(size=(5, 6)).astype(np.float32)
    norms = np.maximum(np.linalg.norm(vectors_ND, axis=1), 1e-9)
    cosines = queries_BD @ vectors_ND.T / norms / np.linalg.norm(queries_BD, axis=1)[:, None]
    cosines[:, 3] = -np.inf
    for cosines_N, found in zip(cosines, vectors.nearest(queries_BD, [[3]] * 5, 4), strict=True):
        best = np.argsort(-cosines_N)[:4]
        assert [number for number, _ in found] == best.tolist()
        np.testing.assert_allclose([x for _, x in found], cosines_N[best], atol=1e-6)
    (all_others,) = vectors.nearest(queries_BD[:1], [[3]], 99)
    assert len(all_others) == 49


def test_the_published_file():
    if "REGARD_DATA" not in os.environ:
        pytest.skip("REGARD_DATA names no folder with data")
    path = Path(os.environ["REGARD_DATA"]) / "words" / "glove.6B.50d.top40k.txt.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    vectors = StaticVectors.read(path, most=1_000)
    assert vectors.words[:3] == ("the", ",", ".") and vectors.vectors_ND.shape == (1_000, 50)
