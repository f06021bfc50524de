"""Files of a data set: what a file or folder holds, the task it fits, and its sets of examples.

The sets are told by names (train.csv, dev.csv, test.csv), the format by suffix and content.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from regard.core.errors import BadInput, first_names
from regard.core.files import is_there, reading, write_text
from regard.data.data_facts import DataFacts, Line, describe_sets
from regard.data.file_formats import COLUMNS_IN, FORMATS, format_of
from regard.data.readers.by_task import read
from regard.data.readers.examples import ExampleContent
from regard.data.readers.fields import DropCounts
from regard.data.readers.image_files import image_files
from regard.data.readers.sources import Lines, Source, read_pairs, read_texts
from regard.data.readers.table_files import Column, JsonLines
from regard.data.readers.text_files import suffix_of, text_blocks
from regard.data.table_columns import COLUMNS, LANGUAGE, TABLES, TableColumns
from regard.images.decode import SUFFIXES

SETS = {
    "train": ("train", "training", "trn"),
    "dev": ("dev", "devel", "development", "valid", "validation", "val", "testa"),
    "test": ("test", "testing", "tst", "testb"),
}
KEYS = {"csv": "csv", "tsv": "table", "jsonl": "jsonl", "parquet": "parquet", "tmx": "tmx"}
SIDES = ("source", "target", "src", "tgt", "trg")
ABOUT = ("readme", "license", "licence")  # files that hold no data
LISTED = 6  # files in a message
SPLIT = 10  # one in so many lines of a text that is split belongs to the development set
LONGEST_CHARACTERS = 5_000  # of a text of a pair: the default of data.longest_characters
IMAGES = "image-folder"

Files = tuple[Path, ...]  # of a set: one, or two of parallel text
Keys = dict[str, object]  # of a set, in the table [data] of a recipe
ReadSet = Callable[[Files, DropCounts], Iterator[ExampleContent]]


class OneDocument(BadInput):
    """A text without a development set, of which no document can be held out."""


@dataclass(frozen=True)
class DataFiles:
    """Files of a data set, by set: the task they fit, keys for [data], and how they are read."""

    task: str
    unit: str
    sets: Mapping[str, Files]
    keys: Mapping[str, Keys]
    seen: Sequence[Line]
    read: ReadSet
    dropped: DropCounts = field(default_factory=DropCounts)

    def describe(self) -> DataFacts:
        """Facts about all sets; malformed examples are counted in ``dropped``."""
        return describe_sets(
            {name: self.read(files, self.dropped) for name, files in self.sets.items()}
        )


def recognise_files(
    paths: Sequence[Path], task: str | None = None, columns: Sequence[str] = ()
) -> DataFiles:
    """Recognise the data in a file, in a folder, or in two parallel files."""
    for path in paths:
        if not is_there(path):
            raise BadInput(f"{path}: no such file or folder")
    if len(paths) > 2 or (len(paths) == 2 and not all(map(Path.is_file, paths))):
        raise BadInput("name one file, one folder, or the two files of parallel text")
    sets = _sets_of(tuple(paths))
    first = sets["train"][0]
    if first.is_dir():
        form = IMAGES if next(image_files(first), None) else "text"
    else:
        form = "parallel" if len(sets["train"]) == 2 else format_of(first)
    tasks = [*TABLE_TASKS.get(form, BY_FORMAT.get(form, ()))]
    if {task} - {None, *tasks}:
        fit = " or ".join(tasks)
        raise BadInput(f"task {task}: {first} ({form}) fits {fit}; choose that, or other data")
    if form in BY_FORMAT:
        if columns:
            raise BadInput(f"{first}: no table, and so without columns to choose")
        return BY_FORMAT[form][task or tasks[0]](sets, form)
    table = COLUMNS[form](first)
    chosen = table.check(columns)
    fit = task or (tasks[0] if chosen else table.task(tasks))
    return TABLE_TASKS[form][fit](TableData(form, sets, table, chosen))


def split_text(paths: Sequence[Path], recipe: Path) -> Files:
    """Write a running text as two files beside a recipe, the training and the development set.

    The last tenth of the lines (or of the words of a single line) is the development set.
    """
    (path, *further) = paths
    if further or not path.is_file() or format_of(path) != "text":
        raise BadInput(f"{path}: only one file of plain text can be split")
    text = "".join(text_blocks(path))
    pieces = text.splitlines(keepends=True)
    if len(pieces) < SPLIT:
        pieces = re.findall(r"\s*\S+\s*", text)
    if len(pieces) < SPLIT:
        raise BadInput(f"{path}: {len(pieces)} words are too few to split")
    cut = len(pieces) - len(pieces) // SPLIT
    parts = {"train": pieces[:cut], "dev": pieces[cut:]}
    names = {name: recipe.with_name(f"{recipe.stem}.{name}.txt") for name in parts}
    for file in names.values():
        if is_there(file):
            raise BadInput(f"{file}: exists already; choose another name for the recipe")
    for name, file in names.items():
        write_text(file, "".join(parts[name]))
    return tuple(names.values())


def _named(files: Files) -> str:
    return " and ".join(map(str, files))


def _sets_of(paths: Files) -> dict[str, Files]:
    """The files of each set: the files or the folder of the user, and their neighbours by name."""
    folder = paths[0]
    if folder.name.lower().endswith(SUFFIXES):
        raise BadInput(f"{folder}: an image; name a folder with a subfolder for each class")
    if folder.is_file():
        files = _parallel_of(folder) if len(paths) == 1 else paths
        return {"train": files, **_neighbours(files)}
    with reading(folder):
        entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    folders = [path for path in entries if path.is_dir()]
    classes = {_set_of(path): (path,) for path in folders if _has_image_classes(path)}
    if "train" in classes:
        return _ordered(classes)
    if folders and all(map(_set_of, folders)) and next(image_files(folders[0]), None):
        raise BadInput(f"{folders[0]}: images without a subfolder for each class")
    files_of = [path for path in entries if path.is_file()]
    if not files_of or (not any(map(_set_of, files_of)) and _are_texts(files_of)):
        return {"train": (folder,)}
    return _files_in(folder, files_of)


def _has_image_classes(folder: Path) -> bool:
    """Whether a folder is a set of images, with a subfolder for each class."""
    with reading(folder):
        folders = [path for path in folder.iterdir() if path.is_dir()]
    return any(next(image_files(path), None) for path in folders if not path.name.startswith("."))


def _are_texts(files: Sequence[Path]) -> bool:
    """Whether files are documents, perhaps beside files that hold no data."""
    suffixes = [suffix_of(path) for path in files]
    return suffixes.count(".txt") > 1 and not {*suffixes} & {*FORMATS} - {".txt"}


def _files_in(folder: Path, files: Sequence[Path]) -> dict[str, Files]:
    """The sets among the files of a folder: one format, with a file (or two) for each set."""
    files = [path for path in files if path.stem.lower() not in ABOUT]
    known = [path for path in files if suffix_of(path) in FORMATS] or files
    train = [path for path in known if _set_of(path) == "train"] or known
    if not train:
        raise BadInput(f"{folder}: no files of data")
    if train[0].name.lower().endswith(SUFFIXES):
        raise BadInput(f"{folder}: images without a subfolder for each class")
    parallel = _parallel_of(train[0])
    if {*train} - {*parallel}:
        names = first_names((path.name for path in train), LISTED)
        raise BadInput(f"{folder}: several files could be the training set ({names}); name one")
    return {"train": parallel, **_neighbours(parallel)}


def _parallel_of(path: Path) -> Files:
    """A file, and the one that differs from it in its suffix alone, if both name languages."""
    if suffix_of(path) in FORMATS:
        return (path,)
    name = _stem(path)
    partners = [
        other
        for other in sorted(path.parent.iterdir())
        if other != path and other.is_file()
        if _stem(other) == name and _names_side(other)
    ]
    is_one = len(partners) == 1 and _names_side(path)
    return (path, *partners) if is_one else (path,)


def _names_side(path: Path) -> bool:
    """Whether a suffix is a language (.en, .pt-br) or a side of parallel text (.src)."""
    name = suffix_of(path)[1:]
    return name in SIDES or LANGUAGE.fullmatch(name) is not None


def _neighbours(files: Files) -> dict[str, Files]:
    """Development and test files beside training files that are called so, by their names."""
    sets: dict[str, Files] = {}
    for name in ("dev", "test"):
        for word in SETS[name]:
            renamed = tuple(
                _in_any_case(path.with_name(_with_word(path.name, word)))
                for path in files
                if _set_of(path) == "train"
            )
            if renamed and all(map(Path.is_file, renamed)):
                sets.setdefault(name, renamed)
    return sets


def _in_any_case(path: Path) -> Path:
    """The file of this name, else one whose name differs from it in capital letters alone."""
    beside = [path, *sorted(path.parent.iterdir())]
    name = path.name.lower()
    return next((file for file in beside if file.is_file() and file.name.lower() == name), path)


def _with_word(name: str, word: str) -> str:
    pattern = "|".join(sorted(SETS["train"], key=len, reverse=True))
    return re.sub(rf"(?<![a-z])(?:{pattern})(?![a-z])", word, name, count=1, flags=re.IGNORECASE)


def _set_of(path: Path) -> str | None:
    """The set that a word of a name stands for."""
    words = re.split(r"[^a-z]+", path.name.lower())
    return next((name for name, known in SETS.items() if {*words} & {*known}), None)


def _ordered(sets: Mapping[str | None, Files]) -> dict[str, Files]:
    return {name: sets[name] for name in SETS if name in sets}


def _stem(path: Path) -> str:
    return path.name[: path.name.lower().rfind(suffix_of(path))]


@dataclass(frozen=True)
class TableData:
    """A table of examples: its files by set, its columns, and those that the user chose."""

    reader: str
    sets: dict[str, Files]
    table: TableColumns
    chosen: tuple[Column, ...]
    unused: tuple[Line, ...] = ()

    def having(self, *columns: Column) -> "TableData":
        """The data without the sets that lack one of these columns, as a test set its labels."""
        sets, unused = {"train": self.sets["train"]}, list[Line]()
        for name, (file,) in [*self.sets.items()][1:]:
            names = COLUMNS[self.reader](file).cells
            missing = [column for column in columns if column not in names]
            if missing:
                unused.append(("not used", f"{file}: no column {missing[0]!r}"))
            else:
                sets[name] = (file,)
        return replace(self, sets=sets, unused=tuple(unused))

    def seen(self, columns: str) -> list[Line]:
        """Lines about its format, the columns that are read, and sets that are not used."""
        file = ("file", f"{self.table.path}: {self.table.format}")
        return [file, ("columns", columns), *self.unused]

    def read_by(self, task: str, options: Keys, columns: str) -> DataFiles:
        """Data of a reader of the task with ``options``."""
        return _read_by(task, self.reader, self.sets, options, self.seen(columns))


def _label_table(data: TableData) -> DataFiles:
    if data.chosen and not 2 <= len(data.chosen) <= 3:
        count = len(data.chosen)
        raise BadInput(f"{count} columns given; name one text or two, and then the label")
    texts, label = data.chosen[:-1], data.chosen[-1:]
    if not data.chosen:
        texts, label = data.table.texts_and_label()
    columns = f"text: {' and '.join(map(str, texts))}; label: {label[0]}"
    data = data.having(*texts, *label)
    return data.read_by("classify", {"texts": [*texts], "label": label[0]}, columns)


def _tag_table(data: TableData) -> DataFiles:
    words, tags = data.table.pair_of(data.table.lists(), data.chosen, "lists of words and tags")
    data = data.having(words, tags)
    return data.read_by("tag", {"words": words, "tags": tags}, f"words: {words}; tags: {tags}")


def _pair_table(data: TableData) -> DataFiles:
    pair = data.table.pair_of(data.table.translation(), data.chosen, "texts")
    data = data.having(*pair)

    def contents(files: Files, dropped: DropCounts) -> Iterator[ExampleContent]:
        return _pairs(TABLES[KEYS[data.reader]](str(files[0]), pair), dropped)

    keys: dict[str, Keys] = {
        name: {KEYS[data.reader]: str(file), "columns": [*pair]}
        for name, (file,) in data.sets.items()
    }
    seen = data.seen(f"source: {pair[0]}; target: {pair[1]}")
    return DataFiles("translate", "pairs", data.sets, keys, seen, contents)


def _memory_pairs(data: TableData) -> DataFiles:
    languages = data.chosen or tuple(data.table.cells)
    pair = data.table.pair_of(languages, (), "languages")
    return _pair_table(replace(data, chosen=pair))


def _document_table(data: TableData) -> DataFiles:
    (key,) = data.chosen or (max(data.table.cells, key=data.table.words),)
    data = data.having(key)

    def contents(files: Files, dropped: DropCounts) -> Iterator[ExampleContent]:
        texts = read_texts(JsonLines(str(files[0]), (key,)), dropped=dropped)
        return (ExampleContent((text,)) for _, text in texts)

    keys: dict[str, Keys] = {
        name: {"documents": str(file), "key": str(key)} for name, (file,) in data.sets.items()
    }
    return DataFiles("pretrain", "documents", data.sets, keys, data.seen(f"text: {key}"), contents)


def _pairs(source: Source, dropped: DropCounts) -> Iterator[ExampleContent]:
    pairs = read_pairs(source, LONGEST_CHARACTERS, dropped)
    return (ExampleContent((first,), (second,)) for _, first, second in pairs)


def _read_by(
    task: str,
    reader: str,
    sets: dict[str, Files],
    options: Keys,
    seen: Sequence[Line],
    strict: bool = False,
) -> DataFiles:
    """Data of a reader of the task; if ``strict``, malformed examples are errors."""

    def contents(files: Files, dropped: DropCounts) -> Iterator[ExampleContent]:
        counts = None if strict else dropped
        return (example.content for example in read(task, reader, files[0], counts, **options))

    rest: Keys = {"options": options} if options else {}
    keys: dict[str, Keys] = {
        name: {"file": str(file), "reader": reader, **rest} for name, (file,) in sets.items()
    }
    return DataFiles(task, "examples", sets, keys, seen, contents)


def _tags(sets: dict[str, Files], kind: str) -> DataFiles:
    path = sets["train"][0]
    columns = COLUMNS_IN[kind](path)
    return _read_by("tag", kind, sets, columns.options, [("file", f"{path}: {kind}, {columns}")])


def _questions(sets: dict[str, Files], kind: str) -> DataFiles:
    seen = [("file", f"{sets['train'][0]}: {kind}, questions with their contexts and answers")]
    return _read_by("answer", kind, sets, {}, seen)


def _image_folders(sets: dict[str, Files], kind: str) -> DataFiles:
    seen = [("folder", f"{sets['train'][0]}: images, a subfolder for each class")]
    return _read_by("classify", kind, sets, {}, seen, strict=True)  # images are not decoded


def _parallel(sets: dict[str, Files], kind: str) -> DataFiles:
    def contents(files: Files, dropped: DropCounts) -> Iterator[ExampleContent]:
        return _pairs(Lines(tuple(map(str, files))), dropped)

    keys: dict[str, Keys] = {
        name: {"source": str(source), "target": str(target)}
        for name, (source, target) in sets.items()
    }
    seen = [("files", f"{_named(sets['train'])}: parallel text, line by line")]
    return DataFiles("translate", "pairs", sets, keys, seen, contents)


def _documents(sets: dict[str, Files], kind: str) -> DataFiles:
    from regard.data.readers.document_files import (  # imports torch
        DocumentReader,
        TextFile,
        document_source,
    )

    path = sets["train"][0]
    count = sum(1 for _ in islice(document_source(str(path)).texts(None), 2))
    if count == 1 and "dev" not in sets:
        raise OneDocument(
            f"{path}: one document, of which no part can be held out as development set; separate "
            "documents by empty lines, or split the text"
        )
    key = "documents" if count > 1 else "text"
    source: Callable[[str], DocumentReader] = document_source if count > 1 else TextFile

    def contents(files: Files, dropped: DropCounts) -> Iterator[ExampleContent]:
        parts = source(str(files[0])).parts(dropped, whole=True)
        return (ExampleContent((text,)) for part in parts for text in part.texts)

    keys: dict[str, Keys] = {name: {key: str(files[0])} for name, files in sets.items()}
    form = "a text per file" if path.is_dir() else "documents between empty lines"
    seen = [("text", f"{path}: {form if count > 1 else 'one running text'}, utf-8")]
    if path.is_dir() and (unread := [*_other_files(path)]):
        seen.append(("not used", f"{first_names(unread, LISTED)}: only files .txt are read"))
    return DataFiles("pretrain", "documents", sets, keys, seen, contents)


def _other_files(folder: Path) -> Iterator[str]:
    """Files of a folder of texts, and of its subfolders, that are not read."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and suffix_of(path) != ".txt" and not path.name.startswith("."):
            yield str(path.relative_to(folder))


BY_FORMAT: dict[str, dict[str, Callable[[dict[str, Files], str], DataFiles]]] = {
    "parallel": {"translate": _parallel},
    IMAGES: {"classify": _image_folders},
    "CoNLL": {"tag": _tags},
    "CoNLL-U": {"tag": _tags},
    "SQuAD": {"answer": _questions},
    "text": {"pretrain": _documents},
}
TableReaders = dict[str, Callable[[TableData], DataFiles]]
_TWO: TableReaders = {"classify": _label_table, "translate": _pair_table}
TABLE_TASKS: dict[str, TableReaders] = {
    **dict.fromkeys(("csv", "tsv", "parquet"), _TWO),
    "tmx": {"translate": _memory_pairs},
    "jsonl": {**_TWO, "tag": _tag_table, "pretrain": _document_table},
}
