"""Options of the command line alone: the format of what is printed, and drawings."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from regard.cli.io.console import print_result, write_drawing, write_view
from regard.core.errors import BadInput
from regard.core.flags import Flag, Options
from regard.experiments.options import JSON
from regard.experiments.result import ExperimentResult, TableFormat

if TYPE_CHECKING:
    from regard.views.view_record import ViewRecord


class DrawnView(Protocol):
    """A view that draws itself."""

    def view_record(self) -> "ViewRecord":
        """Data of the page."""

    def svg(self) -> str:
        """The drawing."""


FORMAT = Annotated[
    TableFormat,
    Flag("--format", "Format of tables; CSV has unrounded numbers, json is JSON lines."),
]
HTML = Annotated[
    Path | None, Flag("--html", "Write a self-contained HTML page.", "FILE", is_output=True)
]
PNG = Annotated[
    Path | None,
    Flag("--png", "Write a PNG picture (of text: with CairoSVG).", "FILE", is_output=True),
]
SVG = Annotated[
    Path | None,
    Flag("--svg", "Write a drawing: SVG, or by suffix PNG or PDF.", "FILE", is_output=True),
]


@dataclass(frozen=True)
class ViewOptions(Options):
    """Files for the page and the drawing of a view."""

    section = "Outputs"
    html: HTML = None
    svg: SVG = None

    def write(self, view: "DrawnView", **source: object) -> None:
        """Write the page, which names the command and its ``source``, and the drawing."""
        write_view(self.html, view.view_record, **source)
        write_drawing(self.svg, view.svg)


@dataclass(frozen=True)
class TableOptions(Options):
    """The format of tables."""

    section = "Outputs"
    table_format: FORMAT = "text"
    as_json: JSON = False

    def __post_init__(self) -> None:
        if self.as_json and self.table_format not in ("text", "json"):
            both = f"cannot be used with --format {self.table_format}; choose one of them"
            raise BadInput(f"--json: {both}")

    @property
    def format(self) -> TableFormat:
        """The format of ``--format``; ``--json`` is another name of ``--format json``."""
        return "json" if self.as_json else self.table_format

    def show(self, result: ExperimentResult) -> None:
        """Print a result on standard output."""
        print_result(result, self.format)
