"""Recipes that come with regard: their list, and their texts; without torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from regard.experiments.result import (
    Cell,
    ExperimentResult,
    OutputTable,
    TableFormat,
    lines_of,
    number_column,
    text_column,
)
from regard.training.recipe_files import (
    AboutConfig,
    ExpectConfig,
    built_in_recipes,
    find,
    is_example,
    read_tables,
)

COLUMNS = (
    text_column("recipe"),
    text_column("what"),
    text_column("hardware"),
    number_column("minutes", "g", missing="–", left=True),
    text_column("expected"),
)


@dataclass(frozen=True)
class RecipeList(ExperimentResult):
    """Recipes with their expected scores, and examples, which have none."""

    paths: Sequence[Path]

    @classmethod
    def built_in(cls) -> "RecipeList":
        """The recipes that come with regard."""
        return cls(built_in_recipes())

    def tables(self) -> list[OutputTable]:
        by_kind = self._by_kind
        rows = [row[:-1] for row in by_kind[True]]
        title = "examples, without an expected score"
        return [OutputTable(COLUMNS, by_kind[False]), OutputTable(COLUMNS[:-1], rows, title)]

    def lines(
        self, table_format: TableFormat = "text", width: int | None = None
    ) -> Iterator[Text | str]:
        if table_format == "csv":  # one header
            rows = [row for of_kind in self._by_kind.values() for row in of_kind]
            return lines_of([OutputTable(COLUMNS, rows)], "csv", width)
        return super().lines(table_format, width)

    def records(self) -> Iterator[Mapping[str, object]]:
        for path in self.paths:
            yield {"recipe": path.stem, "example": is_example(path), **read_tables(path)}

    @property
    def _by_kind(self) -> dict[bool, list[list[Cell]]]:
        """Rows of recipes, and of examples."""
        rows: dict[bool, list[list[Cell]]] = {False: [], True: []}
        for path in self.paths:
            rows[is_example(path)].append(_row(path))
        return rows


@dataclass(frozen=True)
class RecipeText(ExperimentResult):
    """The text of a recipe without its expected score, which holds for its own data only."""

    path: Path

    @classmethod
    def find(cls, name: str) -> "RecipeText":
        """The recipe of a name, or of a path."""
        path = find(name)
        read_tables(path)  # a file that is no TOML is refused
        return cls(path)

    def tables(self) -> list[OutputTable]:
        return []

    def text(self, width: int | None = None) -> Iterator[str]:
        yield self.path.read_text(encoding="utf-8").split("\n[expect]")[0].rstrip()

    def records(self) -> list[Mapping[str, object]]:
        """Every key of the recipe, with the defaults."""
        from regard.training.recipe import read  # here: it imports torch

        return [read(self.path).model_dump(mode="json")]


def _row(path: Path) -> list[Cell]:
    tables = read_tables(path)
    about, rungs = AboutConfig(**tables["about"]), tables.get("rung", ())
    expected = f"{len(rungs)} models side by side" if rungs else "–"
    if "expect" in tables:
        expect = ExpectConfig(**tables["expect"])
        expected = f"{expect.metric} {expect.score:g} ± {expect.tolerance:g}"
    return [path.stem, about.title, about.hardware, about.minutes, expected]
