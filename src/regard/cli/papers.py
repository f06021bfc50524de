"""``regard papers``: the lineage, and what changed between two of its models."""

from typing import Annotated, Any

import typer

from regard.cli.console import JSON, OUT, print_json
from regard.cli.table import print_table
from regard.ground.errors import BadInput
from regard.models import LINEAGE, sized
from regard.models.facts import difference


def papers(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER:SIZE PAPER:SIZE", help="Two models to hold side by side."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """Print the lineage with exact parameter counts, or the facts in which two models differ.

    Example: regard papers transformer:base transformer:big
    """
    if not models:
        _show(_lineage(), as_json)
    elif len(models) == 2:
        _show(_differences(*models), as_json)
    else:
        raise BadInput("give no model, or two as PAPER:SIZE")


def _lineage() -> list[dict[str, Any]]:
    return [
        {
            "paper": paper.name,
            "year": paper.year,
            "arxiv": paper.arxiv,
            "size": size,
            "parameters": paper.parameters(facts),
            "in the paper": paper.published.get(size),
        }
        for paper in LINEAGE
        for size, facts in paper.sizes.items()
    ]


def _differences(one: str, other: str) -> list[dict[str, Any]]:
    return [
        {"fact": path, one: here, other: there}
        for path, (here, there) in difference(sized(one), sized(other)).items()
    ]


def _show(records: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for record in records:
            print_json({name: _plain(value) for name, value in record.items()})
        return
    if not records:
        OUT.print("no fact differs")
        return
    columns = list(records[0])
    left = [n for n, name in enumerate(columns) if name not in ("parameters", "in the paper")]
    print_table(columns, [[*map(_shown, record.values())] for record in records], left)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) and value > 9_999 else str(value)
