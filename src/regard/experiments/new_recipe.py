"""A first recipe for a data set; without torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from regard.core.errors import ArgumentName, BadInput
from regard.core.files import is_there, write_text
from regard.data.data_facts import DataFacts, Line
from regard.data.data_files import DataFiles, OneDocument, recognise_files, split_text
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.result import ExperimentResult, OutputTable, text_column
from regard.models.folders.hub import check_model, row_limit
from regard.training.first_recipe import FirstRecipe


@dataclass(frozen=True)
class NewRecipe(ExperimentResult):
    """A recipe that was written, with what the files of its data hold, line by line."""

    path: Path
    recipe: str
    facts: Sequence[Line]

    def tables(self) -> list[OutputTable]:
        return [OutputTable([text_column("fact"), text_column("figures")], self.facts)]

    def text(self, width: int | None = None) -> Iterator[str]:
        return (f"{label:<12}{figures}" for label, figures in self.facts)


def write_recipe(
    data: Sequence[Path],
    out: Path | None = None,
    *,
    task: str | None = None,
    start: str | None = None,
    columns: Sequence[str] = (),
    split: bool = False,
    force: bool = False,
    on_event: Listener = ignore,
) -> NewRecipe:
    """Write a first recipe for a file, a folder, or the two files of parallel text.

    ``start`` is the model to fine-tune. With ``split``, the last tenth of a running text becomes a
    development file; with ``force`` an existing recipe is replaced.
    """
    path = out or Path(f"{_name(data[0])}.toml")
    if path.suffix != ".toml":
        raise BadInput((ArgumentName("out"), f" {path}: the name of a recipe ends in .toml"))
    if is_there(path) and not force:
        another = ("give another ", ArgumentName("out"), ", or ", ArgumentName("force"))
        raise BadInput("exists already", file=path, remedy=(*another, " to replace it"))
    if start is not None:
        check_model(start)
    written = split_text(data, path) if split else ()
    try:
        files = recognise_files([*written[:1]] or data, task, columns)
        facts = files.describe()
        command = f"regard train {quote(str(path))}"
        command += " --skip-bad" * bool(files.dropped)
        limit = None if start is None else row_limit(start)
        recipe = FirstRecipe(files, facts, command, start, limit).text()
    except OneDocument as error:
        raise BadInput((error, " (", ArgumentName("split"), ")")) from None
    except BaseException:
        for file in written:
            file.unlink()
        raise
    write_text(path, recipe)
    names = " and ".join(map(str, (*written, path)))
    on_event(Note(f"wrote {names}; next: {command} --dry-run"))
    return NewRecipe(path, recipe, [*_lines(files, facts), *facts.lines()])


def _lines(files: DataFiles, facts: DataFacts) -> Iterator[Line]:
    """Lines about the files, the task and the sizes of the sets."""
    yield from files.seen
    yield "task", files.task
    yield files.unit, facts.sizes
    if files.dropped:
        remedy = "correct them, or train with --skip-bad"
        yield "malformed", f"{files.dropped} (the first: {files.dropped.first}); {remedy}"
    train = facts.sets["train"]
    if train.labels and not train.has_numbers:
        yield "labels", f"{len(train.labels):,}"


def _name(path: Path) -> str:
    """Name of the recipe: the name of the file without suffixes, or of the folder."""
    named = path.resolve()
    return named.name.split(".")[0] or "data" if named.is_file() else named.name or "data"
