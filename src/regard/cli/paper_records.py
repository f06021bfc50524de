"""What is known of a paper, as rows of tables: sizes, changes, and results printed or reached."""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from regard.inside.views.papers_html import PaperSection
from regard.models.paper import Paper
from regard.models.papers import changes
from regard.training.recipe import Recipe, read
from regard.training.recipe_files import built_in_recipes

Rows = list[dict[str, Any]]


def size_rows(paper: Paper) -> Rows:
    """Every size, with its exact parameters and those that the paper prints."""
    return [
        {
            "size": size,
            "parameters": paper.parameters(facts),
            "in the paper": paper.published.get(size),
        }
        for size, facts in paper.sizes.items()
    ]


def change_rows(before: str, after: str) -> Rows:
    """What differs between two models "PAPER:SIZE"."""
    changed = changes(before, after).items()
    return [{"fact": name, before: one, after: other} for name, (one, other) in changed]


def result_rows(paper: Paper) -> Rows:
    """Results that the paper prints, then those that recipes reach, then others of ours."""
    return [*_published(paper), *_reached(paper), *_measured(paper)]


def section(paper: Paper) -> PaperSection:
    """A paper as a section of the page."""
    tables = {"Sizes": size_rows(paper)}
    if paper.after is not None:
        tables[f"Changed from {paper.after}"] = change_rows(paper.after, paper.name)
    tables["Results"] = result_rows(paper)
    link = f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else None
    about = (paper.name, paper.year, paper.title, paper.reference, link, paper.after)
    return PaperSection(*about, tables)


def _published(paper: Paper) -> Iterator[dict[str, Any]]:
    for table, model, data, score in _scores("results.toml", paper):
        yield _result(model, data, score, f"{paper.reference}, {table}")


def _measured(paper: Paper) -> Iterator[dict[str, Any]]:
    for command, model, data, score in _scores("measured.toml", paper):
        yield _result(f"ours, {model}", data, score, command)


def _reached(paper: Paper) -> Iterator[dict[str, Any]]:
    for recipe in _recipes():
        runs = [(recipe.about.title, recipe)]
        if recipe.rung:
            runs = [(f"{recipe.about.title}: {one.name}", recipe.at(one)) for one in recipe.rung]
        for title, run in runs:
            if run.expect is None or run.model.paper != paper.key:
                continue
            folder = "fine-tuned" if run.model.start else None
            model = f"ours, {folder or run.model.size or paper.default_size}"
            data = f"{title}, {run.expect.metric}"
            yield _result(model, data, run.expect.score, recipe.about.command)


def _result(model: str, data: str, score: float, source: str) -> dict[str, Any]:
    return {"model": model, "data": data, "score": score, "source": source}


def _scores(file: str, paper: Paper) -> Iterator[tuple[str, str, str, float]]:
    """The scores of a paper in a file: where they stand, the model, the data, the score."""
    for title, models in _tables(file).get(paper.key, {}).items():
        where, _, about = title.partition(": ")
        for model, scores in models.items():
            for data, score in scores.items():
                yield where, model, f"{about}: {data}", score


@cache
def _tables(file: str) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    text = (files("regard.models.papers") / file).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _recipes() -> list[Recipe]:
    return [read(path) for path in built_in_recipes()]
