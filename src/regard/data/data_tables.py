"""Recipe tables ``data`` and ``batches``: files of examples, and the size of batches."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import ConfigDict, Field, field_validator, model_validator

from regard.core.config import Config
from regard.core.errors import BadInput, did_you_mean, shown
from regard.core.files import is_there, write_text
from regard.data.readers.by_task import input_columns, read
from regard.data.readers.document_files import DocumentSource, TextFile, document_source
from regard.data.readers.examples import Example
from regard.data.readers.fields import Dropped
from regard.data.readers.memory import MemoryExamples
from regard.data.readers.sources import Headings, Lines, Source
from regard.data.readers.table_format import TableFormat
from regard.data.readers.text_files import STDIN, read_lines
from regard.data.table_columns import TABLES, InputColumns
from regard.text.hansards import LANGUAGES

TRAIN = "train"
FILE_KEYS = ("source", "target", *TABLES, "headings", "file", "documents", "text")
DELIMITED = frozenset({"delimiter", "quoting", "encoding", "header"})
FORM = {"table": DELIMITED, "csv": DELIMITED, "jsonl": frozenset({"encoding"})}  # keys by kind
PAIRS = ({"source", "target"}, {"headings"}, *({"columns", kind} for kind in TABLES))  # their keys


class OtherForm(NamedTuple):
    """Form of files that are no pairs: its ``keys``, all ``sets`` of them that may be given.

    ``lacks`` is the error where one of ``needed`` is missing, ``fault`` any other.
    """

    keys: set[str]
    sets: tuple[set[str], ...]
    fault: str
    needed: frozenset[str] = frozenset()
    lacks: str = ""


OTHER_FORMS = (
    OtherForm(
        {"documents", "text"},
        ({"documents"}, {"documents", "key"}, {"text"}),
        "give documents (and their key) or a text, without other keys",
    ),
    OtherForm({"key"}, (), "key: only documents in JSON lines have a key"),
    OtherForm(
        {"file", "reader", "options"},
        ({"file", "reader"}, {"file", "reader", "options"}),
        "give a file, its reader and options without other keys",
        needed=frozenset({"file", "reader"}),
        lacks="give a file together with its reader",
    ),
    OtherForm(
        {"held_out"}, ({"held_out"},), "held_out takes examples from train: name no file beside it"
    ),
)


class FilesConfig(Config):
    """Files of a set of examples, in one of three forms.

    Pairs: two files (``source`` and ``target``), or one ``table``, ``csv``, ``jsonl``, ``parquet``
    or ``tmx`` file and two ``columns`` of it, or sections and their ``headings``. ``delimiter``,
    ``quoting``, ``encoding`` and ``header`` are the form of a table; what is not declared is found.
    ``spaced`` names two languages whose rules separate words, for alignment. Examples of a
    published format: a ``file``, its ``reader`` in ``regard.data.readers`` and the reader's
    ``options``. Documents for pre-training: a folder of texts, JSON lines with the text under
    ``key`` (default "text"), or a file with one sentence per line and an empty line after each
    document; or a running ``text``. For dev only, ``held_out`` takes that number of examples from
    the training set.
    """

    source: str | None = None
    """A file with a text on each line."""
    target: str | None = None
    """A file with the translation, or the label, on each line."""
    table: str | None = None
    """A tab-separated file."""
    csv: str | None = None
    """A file with commas, or another delimiter."""
    jsonl: str | None = None
    """A file with a JSON object on each line."""
    parquet: str | None = None
    """A Parquet file (needs pyarrow)."""
    tmx: str | None = None
    """A translation memory; its columns are languages."""
    delimiter: str | None = None
    """The character between columns; default: found (csv), a tab (table)."""
    quoting: bool | None = None
    """Whether cells may be quoted ("a, b"); default: yes (csv), found (table)."""
    encoding: str | None = None
    """The encoding of a table; default: found (UTF-8, UTF-16, cp1252)."""
    header: bool | None = None
    """Whether the first line of a table names its columns; default: found."""
    headings: str | None = None
    """A text with headings as in WikiText (`= = Plot = =`): pairs of a section and its heading."""
    file: str | None = None
    """A file, or folder, that the `reader` understands."""
    reader: str | None = None
    """A reader of the task: see [understanding.md](understanding.md)."""
    options: dict[str, object] = Field(default_factory=dict)
    """Options of the reader."""
    documents: str | None = None
    """Documents to pre-train on."""
    text: str | None = None
    """A running text to pre-train on; empty lines are part of it."""
    key: str | None = None
    """The key of the text in JSON lines of documents."""
    held_out: int | None = Field(None, ge=1)
    """For dev: the number of examples to take out of train."""
    columns: tuple[int | str, int | str] | None = None
    """The two columns of a table, by number (from 0) or by name in its first line; the two
    languages of a translation memory."""
    spaced: tuple[str, str] | None = None
    """The two languages (english, french) whose rules separate words, for alignment."""

    @model_validator(mode="after")
    def _is_one_kind(self) -> "FilesConfig":
        self.check()
        return self

    def check(self) -> None:
        """Refuse keys of several forms of files together, or of no form."""
        keys = {key for key, value in self if value not in (None, {})}
        form = next((form for form in OTHER_FORMS if form.keys & keys), None)
        if form is None:
            kind = next(iter(keys & FORM.keys()), "")
            self._check_pairs(keys - {"spaced"} - FORM.get(kind, frozenset()))
            self._form()
        elif keys not in form.sets:
            raise ValueError(form.fault if keys >= form.needed else form.lacks)
        elif STDIN in (self.documents, self.text):
            raise ValueError("documents cannot be standard input: they are read several times")

    def _check_pairs(self, keys: set[str]) -> None:
        named = f"{self.names}: " if self.names else ""
        if keys <= TABLES.keys() and len(keys) == 1:
            raise ValueError(f"{named}name the two columns, as in columns = [0, 1]")
        if keys not in PAIRS:
            raise ValueError(
                f"{named}give source and target, or columns and table, csv, jsonl, parquet or tmx"
            )
        for language in self.spaced or ():
            if language not in LANGUAGES:
                wrong = did_you_mean(language, list(LANGUAGES))
                raise ValueError(f"spaced: no rules separate words of {language!r}{wrong}")

    def _form(self) -> TableFormat:
        """The declared form of the table."""
        return TableFormat(self.delimiter, self.quoting, self.encoding, self.header)

    @property
    def names(self) -> str:
        """The names of the files, for messages."""
        return " and ".join(self._file_names)

    @property
    def _file_names(self) -> list[str]:
        values = (getattr(self, key) for key in FILE_KEYS)
        return [name for name in values if name is not None]

    def paths(self, root: Path) -> list[Path]:
        """The files under the data root; none of held-out examples."""
        return [root / name for name in self._file_names]

    def check_files(self, root: Path, name: str) -> None:
        """Refuse the set ``data.name`` if one of its files is missing under the data root."""
        for key in FILE_KEYS:
            path = root / str(getattr(self, key))
            if getattr(self, key) not in (None, STDIN) and not is_there(path):
                remedy = f"data.{name}.{key} names it; give the folder of the data files"
                raise BadInput(f"{path}: cannot be read (No such file or directory); {remedy}")

    def require(self, examples: Sized, name: str, unit: str) -> None:
        """Refuse the set ``data.name`` if it has no examples."""
        if not len(examples):
            raise BadInput(f"data.{name}: no {unit} in {self.names}")

    @property
    def has_pairs(self) -> bool:
        """Whether the files hold pairs."""
        return not (self.held_out or self.file or self.documents or self.text)

    def without_stdin(self, copy: Path, *, again: bool) -> "FilesConfig":
        """Replace standard input, which can be read only once, by a copy.

        With ``again``, an existing copy is used.
        """
        known = ("source", "target", *TABLES, "headings")
        keys = [key for key in known if getattr(self, key) == STDIN]
        if keys and not (again and copy.exists()):
            write_text(copy, "".join(f"{line}\n" for line in read_lines(STDIN)))
        return self.model_copy(update=dict.fromkeys(keys, str(copy.absolute())))

    def read(self, root: Path, task: str, dropped: Dropped) -> Iterator[Example]:
        """Read the examples of a task from the file under the data root."""
        if self.file is None or self.reader is None:
            raise BadInput(
                "this task reads a file with a reader: set data.*.file and data.*.reader"
            )
        return read(task, self.reader, root / self.file, dropped, **self.options)

    def collection(
        self, root: Path, fields: tuple[str, ...] = ()
    ) -> DocumentSource | MemoryExamples:
        """The source of documents, of the text, or of records of ``fields``, under the root."""
        if self.text is not None and not fields:
            return TextFile(str(root / self.text))
        if self.file is not None and not fields:
            examples = self.read(root, "pretrain", None)
            texts = [example.content.inputs[0] for example in examples]
            return MemoryExamples(str(self.reader), texts)
        if self.documents is None:
            raise BadInput("pre-training reads documents: set data.train.documents")
        return document_source(str(root / self.documents), self.key, fields)

    def input_columns(self, task: str) -> InputColumns:
        """Columns of the inputs, if the files have columns."""
        if self.reader is not None:
            return input_columns(task, self.reader, self.options)
        return (
            InputColumns() if self.columns is None or self.tmx else InputColumns(self.columns[:1])
        )

    def under(self, root: Path) -> Source:
        """Source of pairs, with paths under the data root."""

        def path_of(name: str | None) -> str:
            return STDIN if name == STDIN else str(root / str(name))

        spaced = self.spaced or ()
        if self.held_out:
            raise BadInput("data.dev.held_out: held-out examples have no file of their own")
        if self.file is not None:
            raise BadInput(f"{self.file}: files with a reader cannot be used for pairs of texts")
        if (path := self.documents or self.text) is not None:
            raise BadInput(f'{path}: documents can only be used with task = "pretrain"')
        if self.headings is not None:
            return Headings(path_of(self.headings), spaced)
        if self.columns is None:
            return Lines((path_of(self.source), path_of(self.target)), spaced)
        kind = next(kind for kind in TABLES if getattr(self, kind) is not None)
        table = TABLES[kind](path_of(getattr(self, kind)), self.columns, spaced)
        return table.declared(self._form())


class MemoryConfig(FilesConfig):
    """Examples in memory; a run can be resumed only with examples of the same ``fingerprint``."""

    fingerprint: str
    examples: MemoryExamples = Field(exclude=True, repr=False)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @classmethod
    def of(cls, name: str, values: Iterable[object]) -> "MemoryConfig":
        """Config of examples, with a name for messages."""
        examples = MemoryExamples(name, [*values])
        return cls(fingerprint=examples.fingerprint, examples=examples)

    def check(self) -> None:
        """Check nothing: there are no files."""

    @property
    def names(self) -> str:
        return self.examples.name

    @property
    def has_pairs(self) -> bool:
        return False

    def read(self, root: Path, task: str, dropped: Dropped) -> Iterator[Example]:
        return self.examples.read(task, dropped)

    def collection(self, root: Path, fields: tuple[str, ...] = ()) -> MemoryExamples:
        if fields:
            raise BadInput(f"{self.names}: records of fields are read from JSON lines in files")
        return self.examples

    def under(self, root: Path) -> MemoryExamples:
        return self.examples


class LinksConfig(Config):
    """Files of gold word links, one line per pair: source-target, counted from 0."""

    dev: str
    """Links of the development set."""
    test: str
    """Links of the test set."""


class DataConfig(Config):
    """Files of the training set (or standard input), the dev set and the test sets."""

    train: FilesConfig
    """The examples to train on."""
    dev: FilesConfig
    """The examples to choose the best weights by."""
    test: FilesConfig | None = None
    """The examples to score the trained model on."""
    more_tests: dict[str, FilesConfig] = Field(default_factory=dict)
    """Further test sets, by name."""
    mix: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """Corpora to train on, by weight: folders in the data folder, each with the files that `train`
    names. An epoch has as many examples as all corpora together, and of each its share by weight;
    no example is repeated before all of its corpus was read. See
    [scale.md](scale.md#mixing-corpora)."""
    links: LinksConfig | None = None
    """Gold word links, for the alignment error rate of a ladder."""
    longest_characters: int = Field(5_000, ge=1)
    """The most characters of a text; a longer text is a bad line: an error, or left out.
    Classification has no limit unless it is set: see `text.long`."""

    @field_validator("mix")
    @classmethod
    def _is_in_the_data_folder(cls, mix: dict[str, float]) -> dict[str, float]:
        for name in mix:
            path = Path(name)
            if path.is_absolute() or not path.parts or ".." in path.parts:
                raise ValueError(f"{shown(name)} is not the name of a folder in the data folder")
        return mix

    @property
    def tests(self) -> dict[str, FilesConfig]:
        """The test sets by name."""
        return {**({} if self.test is None else {"test": self.test}), **self.more_tests}

    def corpora(self, root: Path) -> dict[str, Path]:
        """Folders of the training files, by name of the set: train, or the corpora of ``mix``."""
        return {f"mix.{name}": root / name for name in self.mix} or {TRAIN: root}

    def check_folders(self, root: Path) -> None:
        """Refuse corpora whose folders are missing under the data root."""
        for name in self.mix:
            if not (root / name).is_dir():
                raise BadInput(f"{root / name}: no such folder; data.mix names it as a corpus")

    def check_files(self, root: Path) -> None:
        """Refuse training and development sets whose files are missing under the data root."""
        self.check_folders(root)
        for folder in self.corpora(root).values():
            self.train.check_files(folder, TRAIN)
        self.dev.check_files(root, "dev")

    @model_validator(mode="after")
    def _read_again_and_again(self) -> "DataConfig":
        if any(files.held_out for files in (self.train, *self.tests.values())):
            raise ValueError("held_out can only be used in data.dev")
        if self.mix and self.dev.held_out:
            raise ValueError("dev.held_out cannot be used with mix: name a development file")
        if self.mix and self.train.has_pairs and STDIN in self.train.under(Path()).paths:
            raise ValueError("mix reads files in folders; train cannot be standard input")
        for files in (self.dev, *self.tests.values()):
            if files.has_pairs and STDIN in files.under(Path()).paths:
                raise ValueError("only data.train can be standard input")
        return self


class BatchConfig(Config):
    """Size of batches: ``tokens``, ``rows`` and the ``longest`` row, on either side of a pair.

    A step has ``accumulate`` batches. ``mixed`` batches take rows in random order, others rows of
    similar length. On CUDA a batch is padded to ``tokens``, or to the next multiple of
    ``pad_to_multiple``.
    """

    tokens: int = Field(4_096, ge=1)
    """The most tokens in a batch."""
    rows: int = Field(512, ge=1)
    """The most rows in a batch."""
    longest: int = Field(128, ge=1)
    """The most tokens in a row; longer examples are left out or cut, by task."""
    accumulate: int = Field(1, ge=1)
    """Batches per step (gradient accumulation)."""
    mixed: bool = False
    """Rows of all lengths in a batch, not rows of similar length."""
    pad_to_multiple: int = Field(0, ge=0)
    """On CUDA, batches are padded to a multiple of this number of tokens; 0: to `tokens`."""

    @model_validator(mode="before")
    @classmethod
    def _has_no_old_name(cls, keys: object) -> object:
        if isinstance(keys, Mapping) and "rung" in keys:
            raise ValueError("the key rung was renamed to pad_to_multiple")
        return keys
