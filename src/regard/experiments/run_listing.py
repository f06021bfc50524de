"""Curves of training runs, of one folder or many, without torch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from regard.core.errors import ArgumentName, BadInput, did_you_mean
from regard.experiments.result import ExperimentResult, OutputTable, number_column, text_column
from regard.training.metrics_log import LOG, read_log
from regard.views.run_curves import Curves

WIDEST = 100  # characters of a chart


@dataclass(frozen=True)
class RunCurves(ExperimentResult):
    """Curves of runs, with a table of the last values."""

    curves: Curves

    def tables(self) -> list[OutputTable]:
        columns = [text_column("run"), number_column("step", ",.0f")]
        columns += [number_column(name, ".4g", missing="–") for name in self.curves.drawn]
        return [OutputTable(columns, self.curves.last_values)]

    def drawing(self, width: int) -> Iterator[Text]:
        return self.curves.text(min(width, WIDEST))


def curves(
    runs: Sequence[str | Path], smooth: float = 0.0, only: Sequence[str] = (), by: str = "step"
) -> RunCurves:
    """Curves of all runs in these folders; ``only`` names the figures that are drawn."""
    folders = [folder for path in runs for folder in _runs_in(Path(path))]
    logs = {name: read_log(folder) for name, folder in _named(folders).items()}
    drawn = Curves(logs, smooth, by, only)
    if not drawn.known:
        raise BadInput(f"{folders[0]}: no figures yet; the first come after train.report_every")
    for name in only:
        if name not in drawn.known:
            fault = f" {name}: no figure is called so{did_you_mean(name, drawn.known)}"
            raise BadInput((ArgumentName("only"), fault))
    return RunCurves(drawn)


def _runs_in(path: Path) -> list[Path]:
    """The run in a folder, or the runs in the folders in it."""
    if (path / LOG).exists():
        return [path]
    inner = sorted(folder.parent for folder in path.glob(f"*/{LOG}"))
    if not inner:
        raise BadInput(f"{path}: not the folder of a run: it has no {LOG}")
    return inner


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Each folder by its name, or by its path if two have the same name."""
    names = [folder.resolve().name for folder in folders]
    return {
        name if names.count(name) == 1 else str(folder): folder
        for name, folder in zip(names, folders, strict=True)
    }
