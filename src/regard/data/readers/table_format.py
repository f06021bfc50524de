"""Form of a delimited table: delimiter, quoting, encoding and header, declared or found.

What is not declared is found at the beginning of the file.
"""

import codecs
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from warnings import warn

from regard.core.checks import is_number
from regard.core.errors import BadInput, DataWarning, shown
from regard.data.readers.text_files import first_bytes, name_of

LONGEST_CELL = (1 << 31) - 1  # characters; Python's default limit is 131,072
csv.field_size_limit(LONGEST_CELL)
SAMPLE = 1 << 16  # bytes at the beginning of a file
LARGEST_SAMPLE = 1 << 24  # where lines are long
DELIMITERS = (",", ";", "\t", "|")  # the first of several that fit equally well
MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32", codecs.BOM_UTF8: "utf-8"}
MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
SINGLE_BYTE = ("latin-1", "cp1252")
UNDEFINED = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that cp1252 does not define
WORD = re.compile(rb"[A-Za-z\xc0-\xff]*[A-Za-z][A-Za-z\xc0-\xff]*")
SIGNS = re.compile(rb"[\x80\x82-\x8c\x8e\x91-\x9c\x9e-\xbf]")  # quotes, dashes, currencies, ...
QUOTED = re.compile(r'(?:^|\t)"(?:[^"]|"")*?(?:""|\t|\n)(?:[^"]|"")*"(?=\t|$)', re.M)
SEPARATOR = re.compile(r"""("?)sep=(\t|[^\w\s"])\1""")  # a first line that Excel reads and writes
NAME = re.compile(r"[^\W\d](?:[\w #/()-]|\.(?=\w))*")
LONGEST_NAME, MOST_WORDS = 40, 4  # characters and words of the name of a column
KNOWN = re.compile(
    r"""texts?|sentences?|labels?|class|category|targets?|sources?|src|tgt|id|idx|index|questions?
       |contexts?|answers?|premise|hypothesis|titles?|reviews?|comments?|contents?|documents?|body
       |messages?|tweets?|utterance|scores?|ratings?|sentiment|stars|topics?|tags?|lang|language
       |split|images?|files?|paths?|first|second|choices?|translations?|references?|date|author
       |name|intent|quality|similarity|en|de|fr|es|nl|pt|pl|cs|ru|zh|ja""",
    re.VERBOSE,
)
"""Words in the names of columns, by which a header is recognised."""


@dataclass(frozen=True)
class TableFormat:
    """Form of a table; what is None is found.

    ``quoting``: cells may be quoted as in RFC 4180. ``header``: the first line names the columns.
    """

    delimiter: str | None = None
    quoting: bool | None = None
    encoding: str | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or self.delimiter in '"\r\n' or self.delimiter > "\x7f"
        ):
            fault = "is not one ASCII character, as in delimiter = ';'"
            raise BadInput(f"{shown(self.delimiter)} {fault}", key="delimiter")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, ValueError):
                known = "use utf-8, utf-16, cp1252 or another name that Python knows"
                fault = f"{shown(self.encoding)} is unknown"
                raise BadInput(fault, key="encoding", remedy=known) from None

    def declared(self, other: "TableFormat") -> "TableFormat":
        """The form with the declared values of another in place of its own."""
        pairs = zip(astuple(other), astuple(self), strict=True)
        return TableFormat(*(own if value is None else value for value, own in pairs))

    def found(self, path: str, names: Sequence[str] = ()) -> "TableFormat":
        """The form with nothing left open, for a file whose header has these ``names``.

        With names, there is a header. Of standard input and pipes nothing is read: they are UTF-8,
        without a header, and their delimiter is a comma, unless declared.
        """
        header = True if names else self.header
        if None not in (self.delimiter, self.quoting, self.encoding, header):
            return replace(self, header=header)
        sample = sample_bytes(path) if Path(path).is_file() else b""
        encoding = self.encoding or find_encoding(sample, path)
        first, _, rest = (text := sample_text(sample, encoding)).partition("\n")
        declared = SEPARATOR.fullmatch(first)
        delimiter, text = (declared[2], rest) if declared else (None, text)
        quoting = self.quoting
        if quoting is None:
            quoting = self.delimiter != "\t" or _is_quoted(text)
        delimiter = self.delimiter or delimiter or find_delimiter(text, quoting, names)
        if header is None:
            rows = _rows(text, delimiter, quoting) or [[""]]
            header = is_header(rows[0], rows[1:])
        return TableFormat(delimiter, quoting, encoding, header)


def sample_bytes(path: str | Path) -> bytes:
    """The beginning of a file: more of it where lines are long, so that some are whole."""
    size, sample = SAMPLE, first_bytes(path, SAMPLE)
    while size == len(sample) < LARGEST_SAMPLE and sample.count(b"\n") < 2:
        size *= 4
        sample = first_bytes(path, size)
    return sample


def find_encoding(sample: bytes, path: str) -> str:
    """Encoding of a file by its first bytes, with a warning if it is not Unicode."""
    encoding = encoding_of(sample)
    if encoding in SINGLE_BYTE:
        note = f"not UTF-8; read as {encoding}: declare another encoding if letters look wrong"
        warn(f"{name_of(path)}: {note}", DataWarning, stacklevel=2)
    return encoding


def encoding_of(sample: bytes) -> str:
    """Encoding by byte order mark, else UTF-16, UTF-8, cp1252 or Latin-1 by the bytes themselves.

    What is not UTF-8 is cp1252 or Latin-1 if its other bytes are letters in words, or signs of
    these encodings; otherwise it is taken for damaged UTF-8.
    """
    for mark, encoding in MARKS.items():
        if sample.startswith(mark):
            return encoding
    for first, encoding in enumerate(("utf-16-be", "utf-16-le")):
        zeros = sample[first::2].count(0)
        if zeros * 2 > len(sample[first::2]) and not sample[1 - first :: 2].count(0):
            return encoding
    if _is_utf8(sample):
        return "utf-8"
    letters = sum(byte > 0x7F for word in WORD.findall(sample) for byte in word)
    plain, other = letters + len(SIGNS.findall(sample)), sum(byte > 0x7F for byte in sample)
    if _has_utf8(sample) or plain * 10 < other * 9:
        return "utf-8"
    undefined, western = SINGLE_BYTE
    return undefined if UNDEFINED.search(sample) else western


def _is_utf8(sample: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)  # the last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _has_utf8(sample: bytes) -> bool:
    """Whether some characters beyond ASCII are UTF-8."""
    return any(letter > "\x7f" for letter in sample.decode("utf-8", "ignore"))


def sample_text(sample: bytes, encoding: str) -> str:
    """The text of a sample, without its last line if that may be cut and is not the only one."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(sample).removeprefix("\ufeff")
    text = text.replace("\r\n", "\n")
    if "\n" not in text:  # of an old Mac
        text = text.replace("\r", "\n")
    whole = text[: text.rfind("\n") + 1]
    return whole if len(sample) >= SAMPLE and whole.strip() else text


def find_delimiter(text: str, quoting: bool, names: Sequence[str] = ()) -> str:
    """The delimiter by which most lines have as many cells as the first, and at least two.

    A delimiter that separates all ``names`` in the first line goes before others.
    """

    def fit(delimiter: str) -> tuple[bool, float]:
        rows = _rows(text, delimiter, quoting) or [[]]
        named = bool(names) and {*names} <= {*rows[0]}
        width = len(rows[0])
        alike = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
        return named, alike

    return max(DELIMITERS, key=fit)


def _rows(text: str, delimiter: str, quoting: bool) -> list[list[str]]:
    """Cells of the lines of a sample that are not empty, up to the first that is not CSV."""
    if not quoting:
        return [line.split(delimiter) for line in text.split("\n") if line]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in _read(text, delimiter):
            rows += [row] if row else []
    return rows


def _is_quoted(text: str) -> bool:
    """Whether cells of tab-separated text are quoted: one must be, and none otherwise."""
    try:
        return QUOTED.search(text) is not None and any([*_read(text, "\t")])
    except csv.Error:
        return False


def _read(text: str, delimiter: str) -> Iterator[list[str]]:
    lines = (f"{line}\n" for line in text.split("\n"))
    return csv.reader(lines, delimiter=delimiter, strict=True)


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the cells of the first line name the columns of the other lines.

    They are names if none occurs again in its column, and half of them are ``KNOWN``, or a column
    has only numbers below its name, or texts of several words below one word. Columns may have no
    name, as an index often has; if two have the same, all must be ``KNOWN``.
    """
    cells = [cell.strip() for cell in first]
    names = [cell for cell in cells if cell]
    if not names or not all(map(_is_name, names)):
        return False
    known = sum(map(_is_known, names))
    if len({*names}) < len(names) and (known < len(names) or len({*names}) == 1):
        return False
    below = [*zip(*(row for row in rest if len(row) == len(cells)), strict=True)]
    columns = [(cell, column) for cell, column in zip(cells, below, strict=False) if cell]
    if any(cell in column for cell, column in columns):
        return False
    if known * 2 >= len(names):
        return True
    return any(_names_values(cell, column) for cell, column in columns)


def _names_values(cell: str, column: Sequence[str]) -> bool:
    """Whether a cell is of another kind than the cells below it: numbers, or sentences."""
    sentences = sum(len(text.split()) > 2 for text in column)
    words = " " not in cell and len(column) > 2 and sentences * 10 >= len(column) * 9
    return words or all(map(is_number, column))


def _is_name(cell: str) -> bool:
    short = len(cell) <= LONGEST_NAME and len(cell.split()) <= MOST_WORDS
    return short and NAME.fullmatch(cell) is not None


def _is_known(cell: str) -> bool:
    """Whether the words of a name are known, or in one word (``user_id``) a part of it."""
    words = [word for word in re.split(r"[\W\d_]+", cell.casefold()) if word]
    return (all if " " in cell else any)(map(KNOWN.fullmatch, words))


TSV = TableFormat("\t")
CSV = TableFormat(quoting=True)
UNQUOTED_TSV = TableFormat("\t", quoting=False, encoding="utf-8")
