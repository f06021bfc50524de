"""Documents are read from three kinds of files, tokenised once, and keep their borders."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.batches import shards
from regard.data.readers.document_files import (
    JsonDocuments,
    SentenceFile,
    TextFolder,
    document_source,
)
from regard.data.readers.fields import DropCounts
from regard.data.rows import documents as module
from regard.data.rows.documents import Documents, tokenize_documents
from small_shards import write_rows


class Letters:
    """Each letter is an id, spaces are none; counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, texts: list[str]) -> list[list[int]]:
        self.calls += 1
        return [[ord(letter) for letter in text if letter != " "] for text in texts]


def prepare(path: Path, encode: Any = None, folder: Path | None = None, **change: Any) -> Documents:
    options: dict[str, Any] = {"vocab": 1_000, "fingerprint": "letters"} | change
    folder = path.parent / "cache" if folder is None else folder
    return tokenize_documents(
        folder, "x", document_source(str(path)), encode or Letters(), **options
    )


def words(documents: Documents) -> list[list[str]]:
    return [
        ["".join(map(chr, one)) for one in np.split(row, np.cumsum(lengths)[:-1])]
        for row, lengths in zip(documents.rows, documents.sentences, strict=True)
    ]


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("A b.\nC.\n\n\nD e. F\n")
    return path


def test_one_sentence_a_line(file):
    assert document_source(str(file)) == SentenceFile(str(file))
    assert [*SentenceFile(str(file)).documents(None)] == [["A b.", "C."], ["D e. F"]]
    assert words(prepare(file)) == [["Ab.", "C."], ["De.F"]]


def test_a_folder_of_files(tmp_path):
    folder = tmp_path / "books"
    (folder / "more").mkdir(parents=True)
    (folder / "b.txt").write_text("One two\nthree. Four.\n\nA HEADING\n\nFive.")
    (folder / "a.txt.gz").write_bytes(gzip.compress(b"Six."))
    (folder / "more/c.txt.xz").write_bytes(lzma.compress(b"Seven. Eight."))
    (folder / "read.me").write_text("not this.")
    assert document_source(str(folder)) == TextFolder(str(folder))
    assert [Path(path).name for path in TextFolder(str(folder)).paths] == [
        "a.txt.gz",
        "b.txt",
        "c.txt.xz",
    ]
    expected = [["Six."], ["Onetwothree.", "Four.", "AHEADING", "Five."], ["Seven.", "Eight."]]
    assert words(prepare(folder)) == expected
    (folder / "d.txt").write_text("New.")
    assert words(prepare(folder)) == [*expected[:2], ["New."], expected[2]]


def test_json_lines(tmp_path):
    path = tmp_path / "books.jsonl.xz"
    books = [{"title": "T", "text": "CHAPTER I\nOne. Two."}, {"text": "Three.\n\nFour."}]
    path.write_bytes(lzma.compress("\n".join(map(json.dumps, books)).encode()))
    assert document_source(str(path)) == JsonDocuments(str(path), ("text",))
    assert document_source(str(path), "title") == JsonDocuments(str(path), ("title",))
    assert words(prepare(path)) == [["CHAPTERI", "One.", "Two."], ["Three.", "Four."]]


def test_what_is_empty_or_bad_is_left_out_and_counted(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "One."}\n{"text": ""}\n{"text": "\\n \\n"}\nnot JSON\n{"text": "X."}\n'
    )
    with pytest.raises(BadInput, match=r"a\.jsonl:2: empty text"):
        prepare(path)
    first, second = DropCounts(), DropCounts()
    for dropped in (first, second):
        assert words(prepare(path, dropped=dropped)) == [["One."], ["X."]]
    assert first == second == {"empty": 2, "not JSON": 1}


def test_sentences_without_a_token_are_left_out(file):
    documents = prepare(file, lambda texts: [[] if "C" in t or "D" in t else [5] for t in texts])
    assert words(documents) == [["\x05"]]
    assert documents.borders.tolist() == [0, 1]


def test_the_checksum_follows_the_text_and_the_borders(file):
    before = prepare(file)
    assert prepare(file).checksum == before.chosen([0]).checksum == before.checksum
    file.write_text("A b.\nC.\n\n\nE d. F\n")
    assert [*map(len, prepare(file).rows)] == [*map(len, before.rows)]
    assert prepare(file).checksum != before.checksum
    file.write_text("A b.\n\nC.\n\n\nD e. F\n")
    assert prepare(file).checksum != before.checksum


def test_documents_are_tokenised_once(file):
    encode = Letters()
    before = words(prepare(file, encode))
    assert words(prepare(file, encode)) == before and encode.calls == 1
    changes: list[dict[str, Any]] = [{"fingerprint": "other"}, {"vocab": 999}]
    for number, change in enumerate(changes, start=2):
        prepare(file, encode, **change)
        assert encode.calls == number
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FORMAT", "other rules")
        prepare(file, encode)
    assert encode.calls == 4
    file.write_text("New.\n")
    assert words(prepare(file, encode)) == [["New."]]


@pytest.mark.parametrize("side", ["tokens", "sentences"])
def test_damage_is_found_and_deleting_mends_it(file, side):
    before = words(prepare(file))
    damaged = file.parent / "cache" / f"x.{side}.bin"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(BadInput, match=rf"x\.{side}\.bin: damaged"):
        prepare(file)
    damaged.unlink()
    assert words(prepare(file)) == before


def test_a_crash_between_tokens_and_sentences_is_mended(file, monkeypatch):
    before = words(prepare(file))
    publish = shards._Staged.publish

    def crash(self):
        if self.path.name.endswith("sentences"):
            raise KeyboardInterrupt
        publish(self)

    monkeypatch.setattr(shards._Staged, "publish", crash)
    with pytest.raises(KeyboardInterrupt):
        prepare(file, lambda texts: [[7]] * len(texts), fingerprint="other")
    monkeypatch.undo()
    assert words(prepare(file)) == before


def test_sides_that_do_not_agree_are_named(file):
    prepare(file)
    write_rows(file.parent / "cache" / "x.sentences", [[1, 1], [1]], 1 << 32)
    with pytest.raises(BadInput, match="do not match"):
        prepare(file)


def test_nothing_usable_is_an_error_and_leaves_no_files(tmp_path):
    (tmp_path / "a.txt").write_text("\n \n")
    with pytest.raises(BadInput, match=r"a\.txt: no usable text"):
        prepare(tmp_path / "a.txt")
    assert not (tmp_path / "cache").exists()
    for missing in ("none", "none.jsonl"):
        with pytest.raises(BadInput, match=r"none.*: cannot be read"):
            prepare(tmp_path / missing)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="has no files"):
        prepare(tmp_path / "empty")


def test_text_that_is_not_utf8_is_named(file):
    file.write_bytes(b"one\ntw\xffo\n")
    with pytest.raises(BadInput, match=r"a\.txt:2: not UTF-8"):
        prepare(file)


def test_an_encoder_that_loses_a_text_is_noticed(file):
    with pytest.raises(ValueError, match="fewer or more"):
        prepare(file, lambda texts: [[1]])


@given(
    st.lists(st.lists(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=9), min_size=1),
    st.integers(1, 20),
)
def test_documents_come_back_and_are_counted_through(tmp_path_factory, texts, chunk):
    path = tmp_path_factory.mktemp("documents") / "a.txt"
    path.write_text("\n\n".join("\n".join(one) for one in texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "CHUNK", chunk)
        documents = prepare(path)
    assert words(documents) == texts
    flat = [sentence for one in texts for sentence in one]
    assert np.diff(documents.first_sentence).tolist() == [*map(len, texts)]
    assert np.diff(documents.first_token).tolist() == [*map(len, flat)]
    assert np.diff(documents.borders).tolist() == [sum(map(len, one)) for one in texts]
    same = Documents.of([[[ord(c) for c in sentence] for sentence in one] for one in texts])
    assert words(same) == texts and (same.borders == documents.borders).all()
    assert words(documents.chosen([len(texts) - 1])) == texts[-1:]
