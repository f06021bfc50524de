"""``regard check``: published findings, checked with a model."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Context, Exit, Option

from regard.cli import formats
from regard.cli.declare import flags
from regard.cli.io.console import note, write_page
from regard.core.errors import FAILED, BadInput
from regard.core.flags import refuse
from regard.experiments import options
from regard.experiments.finding_list import FindingList, VerdictResult


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
    *,
    output: formats.TableOptions,
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
    if name is None:
        used = flags(context, "model", "data", "recipe", "limit", "seed", "out", "device")
        refuse(used, "needs FINDING")
        output.show(FindingList.read())
        return
    from regard.experiments.findings import finding
    from regard.experiments.findings.finding import CheckInputs

    chosen = finding(name)
    if model is None:
        raise BadInput(f"{name}: needs --model, {chosen.model}")
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise BadInput(f"--out {out}: the page is HTML; choose a name that ends in .html")
    inputs = CheckInputs(model, tuple(data or ()), recipe, limit, seed, device, note)
    verdict = chosen.check(inputs)
    output.show(VerdictResult(verdict))
    write_page(out, verdict.html)
    if verdict.outcome != "reproduced":
        raise Exit(FAILED)
