"""Studies by name, and six tasks with their options."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from regard.core.errors import ArgumentName, BadInput
from regard.core.files import digest_folder, write_text
from regard.core.lock import LOCK, is_vacant, lock_folder
from regard.experiments.notes import Listener, Note, ignore
from regard.experiments.result import (
    ExperimentResult,
    OutputTable,
    number_column,
    plain_table,
    text_column,
)
from regard.experiments.studies import six_tasks
from regard.experiments.studies.six_tasks import PAGE, SixTasksStudy, SixTasksTable, choose_cells
from regard.models.folders.hub import local_folder


@dataclass(frozen=True)
class SixTasksResult(ExperimentResult):
    """The published table with ours, and the figures of every cell."""

    table: SixTasksTable

    @property
    def is_complete(self) -> bool:
        """Whether every cell that was to be trained has the scores of all its seeds."""
        return self.table.is_complete

    def tables(self) -> list[OutputTable]:
        table = self.table
        tables = [plain_table(table.columns, table.rows, table.notes)]
        if trained := [record for record in table.records() if record["seeds"]]:
            columns = [
                text_column(name)
                if isinstance(value, str)
                else number_column(name, _form(name), "–")
                for name, value in trained[0].items()
            ]
            tables.append(OutputTable(columns, [[*record.values()] for record in trained]))
        return tables

    def records(self) -> Iterator[Mapping[str, object]]:
        return iter(self.table.records())


def _form(name: str) -> str:
    """Format of a column of numbers."""
    if name in ("published", "seeds"):
        return ""
    return ".1f" if name == "minutes" else "+.2f" if name.startswith("gain") else ".2f"


def train_six_tasks(
    data: Path,
    out: Path,
    starts: Sequence[str] = (),
    cells: Sequence[str] = (),
    seeds: int = 1,
    device: str | None = None,
    on_event: Listener = ignore,
) -> SixTasksResult:
    """Train the cells that are chosen; ``starts`` are texts such as "elmo=FOLDER"."""
    chosen = choose_cells(six_tasks.SIX_TASKS, cells, _parse_starts(starts))
    if not data.is_dir():
        raise BadInput((ArgumentName("data"), f" {data}: no such folder"))
    folders = {cell.folder for cell in chosen} | {PAGE, LOCK}
    if out.is_file() or (out.is_dir() and {path.name for path in out.iterdir()} - folders):
        raise BadInput(f"{out}: has files that are not of this study; choose another folder")

    def note(line: str) -> None:
        on_event(Note(line))

    with lock_folder(out) as lock:
        try:
            places = (out, data, seeds, device)
            table = SixTasksStudy(*places, note, write_text, cache(_digest)).run(chosen)
        except BadInput:
            if is_vacant(out):
                lock.discard()
            raise
    on_event(Note(f"\n{out / PAGE}: the table as a page"))
    return SixTasksResult(table)


def _parse_starts(starts: Sequence[str]) -> dict[str, str]:
    """Folders of starts by name."""
    folders: dict[str, str] = {}
    for start in starts:
        name, equals, folder = start.partition("=")
        wrong = (ArgumentName("starts"), f" {start}: ")
        if not equals or not folder:
            raise BadInput((*wrong, "write NAME=FOLDER"))
        if name in folders:
            raise BadInput((*wrong, f"{name} is given twice"))
        folders[name] = folder
    return folders


def _digest(start: str) -> str:
    return digest_folder(local_folder(start))
