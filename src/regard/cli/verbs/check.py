"""``regard check``: published findings, checked with a model."""

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Context, Exit, Option

from regard.cli import options
from regard.cli.io.console import note, print_json, print_line, write_page
from regard.cli.io.table_formats import (
    Cell,
    OutputTable,
    TableFormat,
    choose_format,
    plain_table,
    print_tables,
    text_column,
)
from regard.ground.errors import FAILED, BadInput

if TYPE_CHECKING:
    from regard.findings.finding import Verdict


def check(
    context: Context,
    name: Annotated[
        str | None,
        Argument(metavar="[FINDING]", help="Name of a finding; without it, they are listed."),
    ] = None,
    model: Annotated[
        str | None, Option(metavar="MODEL", help="Model folder, or id on the Hugging Face hub.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        Option(metavar="PATH", help="File or folder of the finding's data; repeatable."),
    ] = None,
    recipe: Annotated[
        str | None, Option(metavar="RECIPE", help="Recipe that the model was trained by.")
    ] = None,
    limit: options.LIMIT = None,
    seed: options.SEED = 0,
    out: options.OUT_FILE = None,
    device: options.DEVICE = None,
    table_format: options.FORMAT = "text",
    as_json: options.JSON = False,
) -> None:
    """Check a published finding with a model.

    Without FINDING, lists all findings with what each needs. A finding has a claim, the published
    value, and a rule that is printed with the verdict. The verdict is "reproduced", "not
    reproduced", or "cannot be shown" with this model, with the reason: the model is of another
    kind, or an interval leaves the question open. --out writes a page with the figures, the
    command, and hashes of model and data.

    The exit code is 0 if the finding is reproduced, and otherwise 1; 2 if it cannot be checked.

    Example: regard check head-roles --model runs/bert/model --data UD_English-EWT --out roles.html
    """
    form = choose_format(table_format, as_json)
    if name is None:
        used = options.flags(context, "model", "data", "recipe", "limit", "seed", "out", "device")
        options.refuse(used, "needs FINDING")
        _list(form)
        return
    from regard.findings import finding
    from regard.findings.finding import CheckInputs

    chosen = finding(name)
    if model is None:
        raise BadInput(f"{name}: needs --model, {chosen.model}")
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"--out {out}: the page is HTML; choose a name that ends in .html")
    inputs = CheckInputs(model, tuple(data or ()), recipe, limit, seed, device, note)
    verdict = chosen.check(inputs)
    _print(verdict, form)
    write_page(out, verdict.html)
    if verdict.outcome != "reproduced":
        raise Exit(FAILED)


def _list(form: TableFormat) -> None:
    """Print the table that ``docs/reference.py`` writes: the findings themselves need torch."""
    table = (files("regard") / "findings" / "table.json").read_text(encoding="utf-8")
    records: list[dict[str, Cell]] = json.loads(table)
    if form != "text":
        columns = [text_column(name) for name in records[0]]
        print_tables([OutputTable(columns, [[*record.values()] for record in records])], form)
        return
    for record in records:
        print_line(str(record.pop("finding")))
        for heading, text in record.items():
            print_line(f"    {heading}: {text}")


def _print(verdict: "Verdict", form: TableFormat) -> None:
    if form == "json":
        print_json(verdict.to_json())
        return
    evidence = verdict.evidence
    figures = [plain_table(evidence.columns, evidence.rows, evidence.notes)]
    if form == "text":
        for heading, text in verdict.facts():
            print_line(f"{heading + ':':<11}{text}")
        print_line("")
        print_tables(figures if evidence.rows else [], form)
        return
    facts = OutputTable([text_column("part"), text_column("text")], verdict.facts())
    print_tables([facts, *(figures if evidence.rows else [])], form)
