"""Papers as rows of tables: sizes, changes, and results printed or reached.

They come from ``models/papers/table.json``, which ``docs/reference.py`` writes, and from the TOML
files beside it: papers are listed without torch.
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from regard.ground.errors import BadInput, did_you_mean
from regard.inside.views.papers_html import PaperSection

Value = int | float | str | None
Row = dict[str, Value]


@dataclass(frozen=True)
class PaperSize:
    """A size of a paper: parameters, those that the paper prints, training and model facts."""

    parameters: int
    published: int | None
    sides: list[str]
    training: Row
    facts: Row

    @property
    def encoder(self) -> Row:
        """Facts of the side that reads the input, and which sides there are."""
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
    """The paper and the size of "PAPER:SIZE"; of "PAPER", its default size."""
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
    """Every size, with its exact parameters and those that the paper prints."""
    return [
        {"size": name, "parameters": size.parameters, "in the paper": size.published}
        for name, size in paper.sizes.items()
    ]


def change_rows(before: str, after: str) -> list[Row]:
    """Facts that differ between two models "PAPER:SIZE"; a fact that one does not have is None.

    An encoder is compared with the encoder of an encoder-decoder.
    """
    (_, one), (_, other) = find_size(before), find_size(after)
    tables = [(one.training, other.training)]
    alike = one.sides == other.sides
    tables.append((one.facts, other.facts) if alike else (one.encoder, other.encoder))
    return [
        {"fact": name, before: here.get(name), after: there.get(name)}
        for here, there in tables
        for name in {**here, **there}
        if here.get(name) != there.get(name)
    ]


def result_rows(paper: PaperRecord) -> list[Row]:
    """Results that the paper prints, then those that recipes reach, then others of ours."""
    printed = [
        _result(model, data, score, f"{paper.reference}, {table}")
        for table, model, data, score in _scores("results.toml", paper)
    ]
    measured = [
        _result(f"ours, {model}", data, score, command)
        for command, model, data, score in _scores("measured.toml", paper)
    ]
    return [*printed, *paper.reached, *measured]


def section(paper: PaperRecord) -> PaperSection:
    """A paper as a section of the page."""
    tables = {"Sizes": size_rows(paper)}
    if paper.after is not None:
        tables[f"Changed from {paper.after}"] = change_rows(paper.after, paper.name)
    tables["Results"] = result_rows(paper)
    link = f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else None
    about = (paper.name, paper.year, paper.title, paper.reference, link, paper.after)
    return PaperSection(*about, tables)


def _result(model: str, data: str, score: float, source: str) -> Row:
    return {"model": model, "data": data, "score": score, "source": source}


def _scores(file: str, paper: PaperRecord) -> Iterator[tuple[str, str, str, float]]:
    """The scores of a paper in a file: where they stand, the model, the data, the score."""
    for title, models in _tables(file).get(paper.key, {}).items():
        where, _, about = title.partition(": ")
        for model, scores in models.items():
            for data, score in scores.items():
                yield where, model, f"{about}: {data}", score


@cache
def _tables(file: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    return tomllib.loads(_read(file))


def _read(file: str) -> str:
    """The text of a file of ``models/papers``, whose import would load torch."""
    return (files("regard") / "models" / "papers" / file).read_text(encoding="utf-8")
