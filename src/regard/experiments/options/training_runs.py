"""Options of training by a recipe."""

import re
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated

from regard.core.errors import ArgumentName, BadInput
from regard.core.flags import Flag, Options
from regard.experiments.options import BUDGET, DATA, DEVICE, LOG, RESUME, SETTINGS, SKIP_BAD

UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class RunOptions(Options):
    """How a recipe is trained: once, with several seeds, as a branch or as a ladder."""

    settings: SETTINGS = None
    data: DATA = Path()
    resume: RESUME = False
    overwrite: Annotated[bool, Flag("--overwrite", help="Replace an earlier run in --out.")] = False
    branch: Annotated[
        Path | None,
        Flag("--branch", metavar="RUN", help="Go on from a checkpoint of this run; see --at."),
    ] = None
    at: Annotated[
        int | None, Flag("--at", least=0, metavar="STEP", help="The step of that checkpoint.")
    ] = None
    budget: BUDGET = None
    skip_bad: SKIP_BAD = False
    prepared: Annotated[
        Path | None,
        Flag("--prepared", metavar="DIR", help="Read the data that regard prepare wrote here."),
    ] = None
    deterministic: Annotated[
        bool, Flag("--deterministic", help="Train bit-exactly on CUDA too; slower.")
    ] = False
    rung: Annotated[
        list[str] | None,
        Flag("--rung", metavar="NAME", help="Rung of a ladder to train; repeatable."),
    ] = None
    seeds: Annotated[
        int | None, Flag(least=2, help="Number of runs, with seeds train.seed, train.seed + 1, …")
    ] = None
    trial: Annotated[
        bool, Flag("--dry-run", help="Check recipe and data, time a few steps; write nothing.")
    ] = False
    ranks: Annotated[
        int | None, Flag(least=1, help="With --dry-run: memory of each of N processes.")
    ] = None
    gpu: Annotated[
        str | None, Flag(metavar="NAME", help="With --ranks: refuse what does not fit this GPU.")
    ] = None
    log: LOG = None
    watch: Annotated[
        list[str] | None,
        Flag(metavar="NAME", help="Report at each evaluation: heads, numbers; repeatable."),
    ] = None
    device: DEVICE = None

    @property
    def changes(self) -> list[str]:
        """Changed keys of the recipe."""
        deterministic = ["train.deterministic=true"] if self.deterministic else []
        return [*(self.settings or ()), *deterministic]

    def check_estimate(self) -> None:
        """Refuse options of estimates without one."""
        if self.ranks is not None and not self.trial:
            raise BadInput("--ranks: estimates memory; use it with --dry-run")
        if self.gpu is not None and self.ranks is None:
            raise BadInput("--gpu: give the number of processes, too: --ranks")

    def check_branch(self, out: Path | None, *, ladder: bool) -> None:
        """Refuse options of a branch that miss each other, and several runs at once."""
        branch, at, alone = self.branch, self.at, self.seeds is None and not self.trial
        if self.overwrite and (self.resume or branch is not None or ladder or self.trial):
            wrong = "begins a run anew: no --resume, --branch, --dry-run or ladder"
            raise BadInput(f"--overwrite: {wrong}")
        if (branch is None) != (at is None):
            given, missing = ("--branch", "--at STEP") if at is None else ("--at", "--branch RUN")
            raise BadInput(f"{given}: needs {missing}, too")
        if branch is None:
            return
        if out is None:
            raise BadInput("--branch: name the folder of the new run: --out DIR")
        if ladder or not alone:
            raise BadInput("--branch: trains one run: not a ladder, --seeds or --dry-run")


def parse_duration(text: str | None) -> float:
    """Number of seconds in a text such as 90s, 30m, 2h or 1.5h; without a text, no limit."""
    if text is None:
        return inf
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if not match:
        raise BadInput((ArgumentName("budget"), f" {text}: not a time such as 90s, 30m or 2h"))
    return float(match[1]) * UNITS[match[2]]
