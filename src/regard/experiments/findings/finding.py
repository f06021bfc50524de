"""Published findings as values, and verdicts on them from a run.

A finding states its rule before anything is measured. A verdict has the published value beside
ours, with the command and with hashes of model and data, and is one page.
"""

import hashlib
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

from regard.api import Model, load
from regard.core.errors import ArgumentName, BadInput
from regard.core.files import digest_files, digest_folder
from regard.metrics.intervals import Interval
from regard.models.folders.hub import local_folder
from regard.views import markup

DIGITS = 12  # of a hash
LEAST_EXAMPLES = 10  # fewest examples for an interval
NO_EFFECT = 1e-6  # largest value, or width of an interval, that counts as 0
Outcome = Literal["reproduced", "not reproduced", "cannot be shown"]
Option = Literal["recipe", "limit", "seed"]


class CannotShow(Exception):
    """Reason why a model or its data cannot show a finding, whatever the finding is worth."""


class Judgement(NamedTuple):
    """Outcome by the rule of a finding, and the reason in one line."""

    outcome: Outcome
    reason: str


class DataUsed(NamedTuple):
    """Name and hash of the data of a check."""

    name: str
    hash: str

    @classmethod
    def of_files(cls, files: Iterable[Path]) -> "DataUsed":
        """Data of files, by their names, with folders where names are alike, and contents."""
        return cls._of_names(unique_names(files))

    @classmethod
    def of_run(cls, run: Path, files: Iterable[Path]) -> "DataUsed":
        """Data of files of a run, by their paths from the name of its folder on."""
        names = {f"{run.resolve().name}/{path.relative_to(run).as_posix()}": path for path in files}
        return cls._of_names(names)

    @classmethod
    def of_folder(cls, folder: Path) -> "DataUsed":
        """Data of all files of a folder, by its name and its parent."""
        name = "/".join(folder.resolve().parts[-2:])
        return cls(name, digest_folder(folder)[:DIGITS])

    @classmethod
    def of_all(cls, *parts: "DataUsed") -> "DataUsed":
        """Data of several parts."""
        joined = cls.of_texts("", (f"{part.name} {part.hash}" for part in parts))
        return joined._replace(name=", ".join(part.name for part in parts))

    @classmethod
    def _of_names(cls, paths: Mapping[str, Path]) -> "DataUsed":
        contents = (f"{name} {digest_files([path])}" for name, path in paths.items())
        return cls.of_texts(", ".join(paths), contents)

    @classmethod
    def of_texts(cls, name: str, texts: Iterable[str]) -> "DataUsed":
        """Data that no file holds."""
        return cls(name, hashlib.sha256("\n".join(texts).encode()).hexdigest()[:DIGITS])


@dataclass(frozen=True)
class CheckInputs:
    """Model, data and options of a check; ``data`` are paths in the order of ``Finding.data``."""

    model: str
    data: tuple[Path, ...] = ()
    recipe: str | None = None
    limit: int | None = None
    seed: int = 0
    device: str | None = None
    note: Callable[[str], None] = field(default=lambda line: None, repr=False)

    @cached_property
    def loaded(self) -> Model:
        """The model, read from its folder."""
        return load(self.model, self.device)

    def command(self, name: str) -> str:
        """Command that repeats the check of this name."""
        words = ["regard", "check", name, "--model", self.model]
        for path in self.data:
            words += ["--data", str(path)]
        options = {"--recipe": self.recipe, "--limit": self.limit, "--seed": self.seed or None}
        words += [word for flag, value in options.items() if value for word in (flag, str(value))]
        return shlex.join(words)


@dataclass(frozen=True)
class Evidence:
    """Measurement of a finding: our value, the judgement by its rule, a table, SVG drawings."""

    ours: str
    judgement: Judgement
    data: DataUsed
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    drawings: Sequence[str] = field(default=(), repr=False)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Finding:
    """Published finding: its claim, the published value, and the rule of our verdict.

    ``model`` and ``data`` describe what the check reads, ``options`` what else it uses. A
    ``published`` value with "about" is quoted from memory. ``measure`` raises ``CannotShow`` if the
    model cannot show the finding.
    """

    name: str
    paper: str
    year: int
    claim: str
    published: str
    rule: str
    model: str
    data: tuple[str, ...]
    measure: Callable[[CheckInputs], Evidence] = field(repr=False)
    options: tuple[Option, ...] = ()

    @property
    def needs(self) -> str:
        """Description of the model and the data that the check reads."""
        recipe = ["a recipe"] if "recipe" in self.options else []
        return "; ".join([self.model, *recipe, *self.data])

    def check(self, inputs: CheckInputs) -> "Verdict":
        """Measure the finding, and judge it by its rule."""
        self._check_inputs(inputs)
        inputs.loaded  # noqa: B018 a folder that is no model is an error, not a verdict
        try:
            evidence = self.measure(inputs)
        except CannotShow as reason:
            judgement = Judgement("cannot be shown", str(reason))
            evidence = Evidence("–", judgement, DataUsed("not read", "–"))
        digest = digest_folder(local_folder(inputs.model))[:DIGITS]
        return Verdict(self, evidence, inputs.model, digest, inputs.command(self.name))

    def _check_inputs(self, inputs: CheckInputs) -> None:
        """Refuse missing data, and options that the check does not use."""
        if len(inputs.data) != len(self.data):
            data = ArgumentName("data")
            needed = [part for text in self.data for part in ("; ", data, f" {text}")][1:]
            raise BadInput((f"{self.name}: needs ", *(needed or ("no ", data))))
        if "recipe" in self.options and inputs.recipe is None:
            raise BadInput((f"{self.name}: needs ", ArgumentName("recipe"), " of the model"))
        given = {"recipe": inputs.recipe, "limit": inputs.limit, "seed": inputs.seed}
        unused = [name for name, value in given.items() if value and name not in self.options]
        if unused:
            named = [part for name in unused for part in (", ", ArgumentName(name))][1:]
            raise BadInput((f"{self.name}: ", *named, " cannot be used with this finding"))
        for path in inputs.data:
            if not path.exists():
                raise BadInput(f"{path}: cannot be read (No such file or directory)")


@dataclass(frozen=True)
class Verdict(markup.HTMLPage):
    """Verdict on a finding: published value and ours, with model, data and command."""

    finding: Finding
    evidence: Evidence
    model: str
    model_hash: str
    command: str

    @property
    def outcome(self) -> Outcome:
        """Outcome by the rule of the finding."""
        return self.evidence.judgement.outcome

    @property
    def title(self) -> str:
        """Name of the finding, and the outcome."""
        return f"{self.finding.name} ({self.finding.paper}): {self.outcome}"

    def facts(self) -> list[tuple[str, str]]:
        """Names and texts of all parts of the verdict."""
        finding, evidence = self.finding, self.evidence
        shown = f"{self.outcome}: {evidence.judgement.reason}"
        if self.outcome == "cannot be shown":
            shown = f"{self.outcome} with this model: {evidence.judgement.reason}"
        return [
            ("finding", f"{finding.name}: {finding.paper}"),
            ("claim", finding.claim),
            ("rule", finding.rule),
            ("published", finding.published),
            ("ours", evidence.ours),
            ("model", f"{self.model}, SHA-256 {self.model_hash}"),
            ("data", f"{evidence.data.name}, SHA-256 {evidence.data.hash}"),
            ("command", self.command),
            ("verdict", shown),
        ]

    def to_json(self) -> dict[str, object]:
        """Record for JSON."""
        finding, evidence = self.finding, self.evidence
        cells = [dict(zip(evidence.columns, row, strict=True)) for row in evidence.rows]
        return {
            "finding": finding.name,
            "paper": finding.paper,
            "claim": finding.claim,
            "rule": finding.rule,
            "published": finding.published,
            "ours": evidence.ours,
            "model": {"name": self.model, "sha256": self.model_hash},
            "data": {"name": evidence.data.name, "sha256": evidence.data.hash},
            "command": self.command,
            "verdict": self.outcome,
            "reason": evidence.judgement.reason,
            "figures": cells,
            "notes": [*evidence.notes],
        }

    def html(self) -> str:
        evidence = self.evidence
        rows = "\n".join(
            f"<dt>{name}</dt><dd>{escape(markup.escape_line(text))}</dd>"
            for name, text in self.facts()
        )
        table = markup.html_table(evidence.columns, evidence.rows) if evidence.rows else ""
        notes = (f"<p>{escape(markup.escape_line(note))}</p>" for note in evidence.notes)
        return markup.fill_template(
            "report.html",
            title=self.title,
            styles=["report.css", "finding.css"],
            table=f"<dl>\n{rows}\n</dl>\n{table}",
            chart="\n".join(evidence.drawings),
            notes="\n".join(notes),
        )


def unique_names(files: Iterable[Path]) -> dict[str, Path]:
    """Files by their names, with as many folders before them as make names differ."""
    paths = [*dict.fromkeys(path.resolve() for path in files)]
    lengths = dict.fromkeys(paths, 1)
    while True:
        names = {path: "/".join(path.parts[-lengths[path] :]) for path in paths}
        counts = Counter(names.values())
        alike = [path for path, name in names.items() if counts[name] > 1]
        if not alike:
            return {name: path for path, name in names.items()}
        for path in alike:
            lengths[path] += 1


def require_examples(count: int, unit: str) -> None:
    """Refuse fewer examples than an interval needs."""
    if count < LEAST_EXAMPLES:
        raise CannotShow(f"{count} {unit} are too few: {LEAST_EXAMPLES} or more are needed")


def judge_interval(name: str, bounds: Interval, bound: float, form: str = "+.1f") -> Judgement:
    """Judgement of a value that must be above ``bound``, by its 95% interval.

    Reproduced, if the whole interval is above; not reproduced, if none of it is. An interval of no
    width is from examples that are all alike, and shows nothing.
    """
    shown = f"{name} ({bounds.low:{form}} to {bounds.high:{form}})"
    if not all(map(math.isfinite, bounds)):
        return Judgement("cannot be shown", f"{shown} is no number")
    if max(map(abs, bounds)) <= NO_EFFECT:
        return Judgement("cannot be shown", f"{shown} is 0: there is no effect to judge")
    if bounds.high - bounds.low <= NO_EFFECT:
        return Judgement("cannot be shown", f"the interval of {shown} has no width")
    if bounds.low > bound:
        return Judgement("reproduced", f"{shown} is above {bound:.3g}")
    if bounds.high <= bound:
        return Judgement("not reproduced", f"{shown} is not above {bound:.3g}")
    return Judgement("cannot be shown", f"the interval of {shown} includes {bound:.3g}")


def weakest(*judgements: Judgement) -> Judgement:
    """Judgement of a finding with several conditions: one that fails, else one that is open."""
    for outcome in ("not reproduced", "cannot be shown"):
        for judgement in judgements:
            if judgement.outcome == outcome:
                return judgement
    return Judgement("reproduced", "; ".join(each.reason for each in judgements))
