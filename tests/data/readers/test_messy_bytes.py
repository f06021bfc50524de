"""Readers read the same examples from any line ends, and tables also from any encoding."""

import gzip
import itertools
import json
import re
import warnings
from pathlib import Path

import pytest

from regard.core.errors import BadInput, DataWarning
from regard.data.readers.by_task import read
from regard.data.readers.document_files import SentenceFile, TextFile
from regard.data.readers.sources import Lines
from regard.data.readers.text_files import read_lines

TEXTS = ["Der Bär schläft", "Die Eule ruft", "Ein Häschen springt fort"] * 3
LABELS = ["wach", "müde", "wach"] * 3
TABLES = {
    "csv": "text,label\n" + "".join(f'"{t}",{x}\n' for t, x in zip(TEXTS, LABELS, strict=True)),
    "tsv": "text\tlabel\n" + "".join(f"{t}\t{x}\n" for t, x in zip(TEXTS, LABELS, strict=True)),
    "jsonl": "".join(
        json.dumps({"text": text, "label": label}, ensure_ascii=False) + "\n"
        for text, label in zip(TEXTS, LABELS, strict=True)
    ),
}
COLUMNS = "\n".join("".join(f"{word} {len(word)}\n" for word in t.split()) for t in TEXTS)
DOCUMENTS = "\n".join(f"{text}\n" for text in TEXTS)
LINE_ENDS = {"unix": "\n", "windows": "\r\n", "old mac": "\r"}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252", "latin-1")


def examples_of_table(path, kind):
    return [
        (*example.texts, *example.labels)
        for example in read("classify", kind, path, texts=["text"], label="label")
    ]


READERS = {
    **{kind: (text, lambda path, kind=kind: examples_of_table(path, kind))
       for kind, text in TABLES.items()},
    "CoNLL": (COLUMNS, lambda path: [one.content for one in read("tag", "CoNLL", path)]),
    "lines": (COLUMNS, lambda path: [*read_lines(path)]),
    "parallel": (COLUMNS, lambda path: [parse() for _, parse in Lines((path,)).examples()]),
    "documents": (DOCUMENTS, lambda path: [*SentenceFile(path).texts(None)]),
    "text": (DOCUMENTS, lambda path: [*TextFile(path).texts(None)]),
}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("reader", READERS)
def test_line_ends(tmp_path, reader, end, packed):
    text, examples = READERS[reader]
    plain, other = tmp_path / "plain", tmp_path / ("other.gz" if packed else "other")
    plain.write_bytes(text.encode())
    raw = text.replace("\n", LINE_ENDS[end]).encode()
    other.write_bytes(gzip.compress(raw) if packed else raw)
    assert examples(str(other)) == examples(str(plain)) != []


@pytest.mark.parametrize(
    ("kind", "encoding", "end"),
    [
        case
        for case in itertools.product(TABLES, ENCODINGS, LINE_ENDS)
        if not (case[1].startswith("utf-16") and case[2] == "old mac")
    ],
)
def test_tables_in_other_encodings(tmp_path, kind, encoding, end):
    plain, other = tmp_path / "plain", tmp_path / "other"
    plain.write_bytes(TABLES[kind].encode())
    other.write_bytes(TABLES[kind].replace("\n", LINE_ENDS[end]).encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert examples_of_table(other, kind) == examples_of_table(plain, kind)


@pytest.mark.parametrize("reader", [name for name in READERS if name not in TABLES])
@pytest.mark.parametrize(
    ("encoding", "remedy"), [("cp1252", "-f WINDOWS-1252 -t UTF-8"), ("utf-16", "-f UTF-16")]
)
def test_texts_in_other_encodings_say_how_to_convert_them(tmp_path, reader, encoding, remedy):
    text, examples = READERS[reader]
    path = Path(tmp_path / "other")
    path.write_bytes(text.encode(encoding))
    with pytest.raises(BadInput, match=f"other:[12]: not UTF-8 .*iconv {re.escape(remedy)}"):
        examples(str(path))


def test_a_carriage_return_in_a_line_stays(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"one\rtwo\nthree\n")
    assert [*read_lines(path)] == ["one\rtwo", "three"]
    long = b"a" * (1 << 16)
    path.write_bytes(long[:-1] + b"\r\n" + b"b\r\n")  # a carriage return ends the first sample
    assert [*read_lines(path)] == [long[:-1].decode(), "b"]


def test_the_header_of_a_long_first_line_is_found(tmp_path):
    names = ["text", "label", *(f"c{number}" for number in range(20_000))]
    path = tmp_path / "wide.csv"
    rows = ([text, label, *map(str, range(20_000))] for text, label in zip(TEXTS, LABELS))  # noqa: B905
    path.write_text("\n".join(map(",".join, [names, *rows])), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        (first, *_) = read("classify", "csv", path, texts=[0], label=1)
    assert (first.texts, first.labels) == ((TEXTS[0],), (LABELS[0],))
