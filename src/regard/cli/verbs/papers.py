"""``regard papers``: all papers with their sizes, and the differences between two models."""

from typing import Annotated, Any

import typer

from regard.cli.console import OUT, print_json
from regard.cli.options import JSON
from regard.cli.table import print_table
from regard.ground.errors import BadInput


def papers(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="PAPER:SIZE PAPER:SIZE", help="Two models to compare."),
    ] = None,
    as_json: JSON = False,
) -> None:
    """List all papers with parameter counts, or compare two models.

    Of two models, the facts in which they differ are printed.

    Example: regard papers transformer:base transformer:big
    """
    if not models:
        _show(_lineage(), as_json)
    elif len(models) == 2:
        _show(_differences(*models), as_json)
    else:
        raise BadInput("give no model, or two models as PAPER:SIZE")


def _lineage() -> list[dict[str, Any]]:
    from regard.models.papers import LINEAGE

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


def _differences(first: str, second: str) -> list[dict[str, Any]]:
    from regard.models.facts import difference
    from regard.models.papers import sized

    return [
        {"fact": path, first: one, second: other}
        for path, (one, other) in difference(sized(first), sized(second)).items()
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
