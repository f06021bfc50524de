"""Papers as rows of tables: sizes, differences and results.

Rows come from ``models/papers/table.json``, which ``docs/reference.py`` writes, and from the TOML
files beside it, so that papers are listed without torch.
"""

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from rich.text import Text

from regard.core.errors import BadInput, did_you_mean
from regard.experiments.result import Column, ExperimentResult, OutputTable, TableFormat, lines_of
from regard.views.papers_view import PaperSection, show_value

Value = int | float | str | None
Row = dict[str, Value]
RIGHT = ("parameters", "in the paper", "score")  # columns of numbers


@dataclass(frozen=True)
class PaperSize:
    """A size of a paper: parameters, counted and ``published``, training and model facts."""

    parameters: int
    published: int | None
    sides: list[str]
    training: Row
    facts: Row

    @property
    def encoder(self) -> Row:
        """Facts of the side that reads the input, and the names of all sides."""
        side = f"{self.sides[0]}."
        own = (path for path in self.facts if path.startswith(side))
        paths = {path.removeprefix(side): self.facts[path] for path in own}
        return {"sides": ", ".join(self.sides), **paths}


@dataclass(frozen=True)
class PaperRecord:
    """A paper in the table; ``reached`` are the expected scores of recipes, as result rows."""

    name: str
    year: int
    title: str
    authors: str
    arxiv: str | None
    reference: str
    after: str | None
    default: str
    sizes: dict[str, PaperSize]
    reached: list[Row]

    @property
    def key(self) -> str:
        """The name in recipes and configuration files."""
        return self.name.lower()


@cache
def lineage() -> dict[str, PaperRecord]:
    """All papers by key, from the first to the last."""
    records = [
        PaperRecord(**record | {"sizes": {n: PaperSize(**s) for n, s in record["sizes"].items()}})
        for record in json.loads(_read("table.json"))
    ]
    return {record.key: record for record in records}


def find_size(name: str) -> tuple[PaperRecord, PaperSize]:
    """The paper and the size named by "PAPER:SIZE"; "PAPER" names its default size."""
    key, colon, size = name.partition(":")
    known = lineage()
    if key.lower() not in known:
        raise BadInput(f"no paper is called {key!r}{did_you_mean(key.lower(), list(known))}")
    paper = known[key.lower()]
    size = size if colon else paper.default
    if size not in paper.sizes:
        raise BadInput(f"{paper.name} has no size {size!r}{did_you_mean(size, list(paper.sizes))}")
    return paper, paper.sizes[size]


def size_rows(paper: PaperRecord) -> list[Row]:
    """A row for every size, with counted and published parameters."""
    return [
        {"size": name, "parameters": size.parameters, "in the paper": size.published}
        for name, size in paper.sizes.items()
    ]


def change_rows(before: str, after: str) -> list[Row]:
    """Facts that differ between two models "PAPER:SIZE"; a fact that a model lacks is None.

    An encoder is compared with the encoder of an encoder-decoder.
    """
    (_, old), (_, new) = find_size(before), find_size(after)
    alike = old.sides == new.sides
    facts = (old.facts, new.facts) if alike else (old.encoder, new.encoder)
    return [
        {"fact": name, before: old_facts.get(name), after: new_facts.get(name)}
        for old_facts, new_facts in ((old.training, new.training), facts)
        for name in {**old_facts, **new_facts}
        if old_facts.get(name) != new_facts.get(name)
    ]


def result_rows(paper: PaperRecord) -> list[Row]:
    """Results in the paper, then expected scores of recipes, then other measurements of ours."""
    printed = _scores("results.toml", paper, source=f"{paper.reference}, ")
    return [*printed, *paper.reached, *_scores("measured.toml", paper, model="ours, ")]


def section(paper: PaperRecord) -> PaperSection:
    """A paper as a section of the HTML page."""
    tables = {"Sizes": size_rows(paper)}
    if paper.after is not None:
        tables[f"Changed from {paper.after}"] = change_rows(paper.after, paper.name)
    tables["Results"] = result_rows(paper)
    link = f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else None
    about = (paper.name, paper.year, paper.title, paper.reference, link, paper.after)
    return PaperSection(*about, tables)


def _scores(file: str, paper: PaperRecord, model: str = "", source: str = "") -> Iterator[Row]:
    """Rows of a paper's scores in a file, with prefixes of the model and the source."""
    for title, models in _tables(file).get(paper.key, {}).items():
        where, _, about = title.partition(": ")
        for name, scores in models.items():
            for data, score in scores.items():
                row: Row = {"model": f"{model}{name}", "data": f"{about}: {data}", "score": score}
                yield {**row, "source": f"{source}{where}"}


@cache
def _tables(file: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return tomllib.loads(_read(file))


def _read(file: str) -> str:
    """Text of a file in ``models/papers``, a package whose import would load torch."""
    return (files("regard") / "models" / "papers" / file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class PaperTables(ExperimentResult):
    """Tables of records; one without records says that nothing differs."""

    rows: Sequence[Sequence[Row]]

    def tables(self) -> list[OutputTable]:
        return [_table(records) for records in self.rows if records]

    def lines(
        self, table_format: TableFormat = "text", width: int | None = None
    ) -> Iterator[Text | str]:
        if table_format == "json":
            yield from super().lines(table_format, width)
            return
        for number, records in enumerate(self.rows):
            if number:
                yield ""
            if records:
                yield from lines_of([_table(records)], table_format, width)
            elif table_format == "text":
                yield "nothing differs"


def _table(records: Sequence[Row]) -> OutputTable:
    columns = [
        Column(name, show_value, left=name not in RIGHT, missing=show_value(None))
        for name in records[0]
    ]
    return OutputTable(columns, [[*record.values()] for record in records])


def paper_tables(names: Sequence[str], *, results: bool = False) -> PaperTables:
    """All papers, one with its changes, the changes between two, or their ``results``."""
    chosen = [find_size(name)[0] for name in names] or [*lineage().values()]
    if results:
        scores = [{"paper": paper.name, **row} for paper in chosen for row in result_rows(paper)]
        return PaperTables([scores])
    if len(names) > 2:
        raise BadInput("PAPER: name at most two models, as PAPER:SIZE")
    if len(names) == 2:
        return PaperTables([change_rows(*names)])
    rows: list[Row] = [
        {"paper": paper.name, "year": paper.year, "arxiv": paper.arxiv or "", **row}
        for paper in chosen
        for row in size_rows(paper)
    ]
    before = chosen[0].after if names else None
    return PaperTables([rows, *([] if before is None else [change_rows(before, *names)])])
