"""Every kind of file gives the same text, and every kind of damage is named by file and line."""

import gzip
import io
import lzma
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.core.errors import BadInput
from regard.data.readers.fields import DropCounts
from regard.data.readers.sources import Lines, read_pairs, read_texts
from regard.data.readers.table_files import Csv, JsonLines, Table
from regard.data.readers.text_files import TO_UTF8, read_lines

UNCLOSED = (
    "a quote that is never closed; close it, or set quoting = false if quotes are part of the text"
)


def put(path: Path, content: str | bytes) -> str:
    content = content.encode() if isinstance(content, str) else content
    match path.suffix.lower():
        case ".gz":
            content = gzip.compress(content)
        case ".xz":
            content = lzma.compress(content)
    path.write_bytes(content)
    return str(path)


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def complains(message: str):
    return pytest.raises(BadInput, match=f"^{re.escape(message)}$")


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz", ".txt.xz", ".txt.GZ"])
def test_packed_files_read_like_plain_ones(tmp_path, suffix):
    path = put(tmp_path / f"a{suffix}", "ein Haus\nzwei Häuser\n")
    assert list(read_lines(path)) == ["ein Haus", "zwei Häuser"]


def test_standard_input_is_a_dash_and_stays_open(monkeypatch):
    pipe(monkeypatch, b"a\nb")
    assert list(read_lines("-")) == ["a", "b"]
    assert not sys.stdin.buffer.closed


def test_only_line_feeds_end_a_line(tmp_path):
    text = "a\x85b\u2028c\x0bd\x0ce\rf\r\n\n g \r"
    assert list(read_lines(put(tmp_path / "a", text))) == [
        "a\x85b\u2028c\x0bd\x0ce\rf",
        "",
        " g \r",
    ]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [""]),
        (b"", []),
    ],
)
def test_a_byte_order_mark_goes_only_at_the_start(tmp_path, content, lines):
    assert list(read_lines(put(tmp_path / "a", content))) == lines


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))))
def test_what_is_written_is_read(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "a"
    path.write_bytes("".join(line + "\n" for line in ["x", *lines]).encode())
    assert list(read_lines(path)) == ["x", *lines]


def test_bytes_that_are_not_utf8_are_located(tmp_path):
    path = put(tmp_path / "a.txt", b"gut\n" + "häuser in x".encode() + b"\xff\n")
    with complains(f"{path}:2: not UTF-8 (byte 0xff at column 12); {TO_UTF8}"):
        list(read_lines(path))


def test_missing_and_unreadable_files_are_named(tmp_path):
    for name in ("none", "none.gz", "none.xz"):
        with complains(f"{tmp_path / name}: cannot be read (No such file or directory)"):
            list(read_lines(tmp_path / name))
    with complains(f"{tmp_path}: cannot be read (Is a directory)"):
        list(read_lines(tmp_path))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
@pytest.mark.parametrize("keep", [0, 5, 0.5, -1])
def test_truncated_archives_are_named(tmp_path, suffix, keep):
    path = Path(put(tmp_path / f"a{suffix}", "".join(f"{i * i}\n" for i in range(2_000))))
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: "):
        list(read_lines(path))


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_damaged_archives_are_named(tmp_path, suffix):
    path = Path(put(tmp_path / f"a{suffix}", "".join(f"{i * i}\n" for i in range(2_000))))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    for damaged in (bytes(content), b"no archive at all"):
        path.write_bytes(damaged)
        with pytest.raises(BadInput, match=f"^{re.escape(str(path))}: "):
            list(read_lines(path))


def two_files(folder: Path, source: str | bytes, target: str | bytes) -> Lines:
    return Lines((put(folder / "a.en", source), put(folder / "a.de", target)))


def test_pairs_come_from_files_tables_and_json(tmp_path, monkeypatch):
    pairs = [("a house", "ein Haus"), ("two  cats ", '"zwei" Katzen')]
    lines = ["".join(pair[side] + "\n" for pair in pairs) for side in (0, 1)]
    rows = "".join(f"7\t{target}\t{source}\n" for source, target in pairs)
    table = put(tmp_path / "a.tsv.gz", rows)
    named = put(tmp_path / "b.tsv", "id\tde\ten\n" + rows)
    flat = '{"en": "a house", "de": "ein Haus", "n": 1}\n'
    deep = '{"t": {"en": "two  cats ", "de": "\\"zwei\\" Katzen"}, "x.y": "z"}\n'
    assert [pair for _, *pair in read_pairs(two_files(tmp_path, *lines))] == [*map(list, pairs)]
    for source in (Table(table, (2, 1)), Table(named, ("en", "de")), Table(named, ("en", 1))):
        assert [tuple(pair) for _, *pair in read_pairs(source)] == pairs
    assert list(read_pairs(JsonLines(put(tmp_path / "a.jsonl.xz", flat), ("en", "de")))) == [
        (f"{tmp_path / 'a.jsonl.xz'}:1", *pairs[0])
    ]
    pipe(monkeypatch, deep.encode())
    assert list(read_pairs(JsonLines("-", ("t.en", "t.de")))) == [("standard input:1", *pairs[1])]
    (where_and_text,) = read_texts(JsonLines(put(tmp_path / "c", deep), ("x.y",)))
    assert where_and_text == (f"{tmp_path}/c:1", "z")


def test_one_sided_text_comes_from_the_same_kinds(tmp_path):
    assert list(read_texts(Lines((put(tmp_path / "a", "x\ny\n"),)))) == [
        (f"{tmp_path}/a:1", "x"),
        (f"{tmp_path}/a:2", "y"),
    ]
    named = Table(put(tmp_path / "b", "n\ttext\n1\tx\n"), ("text",))
    assert list(read_texts(named)) == [(f"{tmp_path}/b:2", "x")]
    assert [text for _, text in read_texts(JsonLines(put(tmp_path / "c", '{"t": "x"}'), ("t",)))]


@pytest.mark.parametrize(("first", "second"), [(10, 12), (12, 10), (0, 1)])
def test_files_of_different_length_are_never_skipped(tmp_path, first, second):
    source = two_files(tmp_path, "a\n" * first, "b\n" * second)
    counts = f"{tmp_path}/a.en has {first}, {tmp_path}/a.de has {second}"
    message = f"parallel files must have equally many lines: {counts}"
    for dropped in (None, DropCounts()):
        with complains(message):
            list(read_pairs(source, dropped=dropped))


BAD_LINES = [
    ("empty", "x\n", " \t\n", "a.de:2: empty text"),
    ("empty", "\n", "y\n", "a.en:2: empty text"),
    ("too long", "x\n", "yyyyyyyyy\n", "a.de:2: 9 characters, more than the 8 allowed"),
    ("not UTF-8", b"\xe4\n", b"y\n", "a.en:2: not UTF-8 (byte 0xe4 at column 1)"),
]
BAD_ROWS = [
    ("without a column", "x\n", "a.tsv:2: no column 1, counted from 0: the line has 1"),
    ("empty", "\n", "a.tsv:2: empty line"),
    ("empty", "x\t\n", "a.tsv:2: empty text"),
]
BAD_JSON = [
    ("without a key", '{"en": "x"}', "a.jsonl:2: no key 'de'"),
    ("without a key", '["en", "de"]', "a.jsonl:2: no key 'en'"),
    ("not text", '{"en": "x", "de": 7.5}', "a.jsonl:2: the value of 'de' is not text"),
    ("not JSON", "{'en'", "a.jsonl:2: not JSON (Expecting property name"),
    ("not JSON", "[" * 100_000, "a.jsonl:2: not JSON ("),
    ("not JSON", "1" * 5_000, "a.jsonl:2: not JSON ("),
    (
        "not UTF-8",
        '{"en": "x", "de": "\\ud800"}',
        "a.jsonl:2: the value of 'de' has a surrogate without its pair",
    ),
    ("empty", " ", "a.jsonl:2: empty line"),
]


def check_bad(source: Lines | Table | JsonLines, reason: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        list(read_pairs(source, longest_characters=8))
    assert message in str(error.value)
    dropped = DropCounts()
    kept = list(read_pairs(source, longest_characters=8, dropped=dropped))
    assert [pair for _, *pair in kept] == [["good", "gut"], ["end", "Ende"]]
    assert [where.rsplit(":")[-1] for where, *_ in kept] == ["1", "3"]
    assert dropped == {reason: 1} and str(dropped) == f"1 {reason}"


@pytest.mark.parametrize(("reason", "en", "de", "message"), BAD_LINES)
def test_bad_lines(tmp_path, reason, en, de, message):
    en, de = (text if isinstance(text, bytes) else text.encode() for text in (en, de))
    source = two_files(tmp_path, b"good\n" + en + b"end\n", b"gut\n" + de + b"Ende\n")
    check_bad(source, reason, message)


@pytest.mark.parametrize(("reason", "line", "message"), BAD_ROWS)
def test_bad_rows(tmp_path, reason, line, message):
    path = put(tmp_path / "a.tsv", f"good\tgut\n{line}end\tEnde\tmore\n")
    check_bad(Table(path, (0, 1)), reason, message)


@pytest.mark.parametrize(("reason", "line", "message"), BAD_JSON)
def test_bad_json(tmp_path, reason, line, message):
    good = '{"en": "good", "de": "gut"}\n' + line + '\n{"en": "end", "de": "Ende"}'
    check_bad(JsonLines(put(tmp_path / "a.jsonl", good), ("en", "de")), reason, message)


def test_a_missing_header_is_never_skipped(tmp_path):
    path = put(tmp_path / "a.tsv", "en\tfr\nx\ty\n")
    with complains(f"{path}:1: no column 'de' among 'en, fr'"):
        list(read_pairs(Table(path, ("en", "de")), dropped=DropCounts()))


def test_length_has_a_limit_by_default(tmp_path):
    """Its message names the key that changes it."""
    source = two_files(tmp_path, "x" * 5_001, "y")
    said = r":1: 5,001 characters, more than the 5,000 allowed \(data\.longest_characters\)"
    with pytest.raises(BadInput, match=said):
        list(read_pairs(source))
    assert len(list(read_pairs(source, longest_characters=None))) == 1


def test_words_are_set_apart_by_the_rules_of_each_side(tmp_path):
    path = put(tmp_path / "a.tsv", "en\tfr\nThe idea's end.\tLa fin de l'idée.\n")
    spaced = ("english", "french")
    expected = [("The idea 's end .", "La fin de le idée .")]
    table = Table(path, ("en", "fr"), spaced)
    assert [(one, other) for _, one, other in read_pairs(table)] == expected
    lines = put(tmp_path / "a.fr", "la fin du monde\n")
    (_, text), *_ = read_texts(Lines((lines,), ("french",)))
    assert text == "la fin de le monde"


def test_csv_has_quotes_that_hold_commas_and_line_ends(tmp_path):
    text = 'label,text,n\npos,"one, two",1\nneg,"said ""no""\nand left",2\nneg,plain,3\n'
    path = put(tmp_path / "a.csv.gz", text)
    assert list(read_pairs(Csv(path, ("text", "label")))) == [
        (f"{path}:2", "one, two", "pos"),
        (f"{path}:3", 'said "no"\nand left', "neg"),
        (f"{path}:5", "plain", "neg"),
    ]


def test_csv_that_is_none_is_named_by_line_or_dropped(tmp_path):
    path = put(tmp_path / "a.csv", 'one,pos\n"two"x,neg\nthree\nfour,neg\n')
    remedy = "double the quotes in a quoted cell, or set quoting = false"
    with complains(f"{path}:2: not CSV (',' expected after '\"'); {remedy}"):
        list(read_pairs(Csv(path, (0, 1))))
    dropped = DropCounts()
    kept = [text for _, text, _ in read_pairs(Csv(path, (0, 1)), dropped=dropped)]
    assert kept == ["one", "four"]
    assert dropped == {"not CSV": 1, "without a column": 1}
    path = put(tmp_path / "b.csv", 'one,pos\n"two,neg\nthree,neg\n')
    with complains(f"{path}:2: {UNCLOSED}"):
        list(read_pairs(Csv(path, (0, 1))))


def test_a_whole_number_in_json_is_the_text_of_its_digits(tmp_path):
    path = put(tmp_path / "a.jsonl", '{"text": "x", "label": 0}\n')
    assert list(read_pairs(JsonLines(path, ("text", "label")))) == [(f"{path}:1", "x", "0")]
    path = put(tmp_path / "b.jsonl", '{"text": "x", "label": true}\n')
    with complains(f"{path}:1: the value of 'label' is not text"):
        list(read_pairs(JsonLines(path, ("text", "label"))))


def test_a_comma_that_is_not_quoted_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,label\na film,good\na film, well told,good\n")
    with pytest.raises(BadInput, match=r"a.csv:3: 3 cells, and the first line has 2; quote"):
        list(read_pairs(Csv(str(path), ("text", "label"))))


def test_standard_input_is_read_once():
    with complains("-: standard input can only be read once; name files instead"):
        list(read_pairs(Lines(("-", "-"))))
