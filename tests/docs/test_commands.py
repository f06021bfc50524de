"""Every command that a page of the documentation has can be given: its verb, options and their
values are parsed by the command line, the keys of ``--set`` are keys of recipes, and recipes that
are named exist.
"""

import re
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from regard.cli import LazyCommands, UsageError
from regard.tasks.components import TASKS
from regard.training.recipe import recipe_class

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
RECIPES = {path.stem for path in (ROOT / "recipes").rglob("*.toml")}


def commands_of(text: str) -> list[str]:
    """Commands of the blocks of code and of the tables of a page, without comments."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    whole = (block.replace("\\\n", "") for language, block in blocks if language in ("", "console"))
    lines = [line.split("  #")[0] for block in whole for line in block.splitlines()]
    rows = [row for row in text.splitlines() if row.startswith("|")]
    cells = [cell for row in rows for cell in re.findall(r"`(regard [a-z]+ [^`]+)`", row)]
    parts = [part.strip() for line in [*lines, *cells] for part in line.split(" | ")]
    return [part for part in parts if re.match(r"regard [a-z]", part)]


COMMANDS = [(name, command) for name, text in PAGES.items() for command in commands_of(text)]


@cache
def parse(command: str) -> dict[str, Any]:
    """Arguments and options of a command, as the command line parses them."""
    _, verb, *words = shlex.split(re.split(r"\s>\s", command)[0])
    return LazyCommands()[verb].make_context(verb, words).params


@cache
def tables() -> dict[str, set[str]]:
    """Keys of each table of recipes, of any task; none where a table has free keys."""
    keys: dict[str, set[str]] = {}
    for task in TASKS:
        for name, field in recipe_class(task).model_fields.items():
            kinds = get_args(field.annotation) or (field.annotation,)
            named = (key for kind in kinds for key in getattr(kind, "model_fields", ()))
            keys.setdefault(name, set()).update(named)
    return keys


def unknown_settings(settings: Iterable[str]) -> list[str]:
    """Keys of ``--set`` that no recipe has."""
    names = [setting.split("=")[0] for setting in settings]
    known = tables()

    def is_known(table: str, key: str = "", *_: str) -> bool:
        return table in known and (not key or not known[table] or key in known[table])

    return [name for name in names if not is_known(*name.split("."))]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_can_be_parsed(page):
    for command in commands_of(PAGES[page]):
        try:
            options = parse(command)
        except UsageError as error:
            pytest.fail(f"{command}: {error.format_message()}")
        assert unknown_settings(options.get("settings") or ()) == [], command


def test_recipes_that_are_named_exist():
    named = {
        recipe
        for _, command in COMMANDS
        for recipe in [parse(command).get("recipe")]
        if recipe and not recipe.endswith(".toml") and recipe == recipe.lower()
    }
    assert len(named) > 30
    assert named - RECIPES == set()


def test_the_check_would_notice():
    with pytest.raises(UsageError):
        parse("regard look runs/tour/model")
    with pytest.raises(UsageError):
        parse("regard look runs/tour/model TEXT --htm FILE")
    with pytest.raises(UsageError):
        parse("regard translate MODEL --beam many")
    assert unknown_settings(["train.step=3"]) == ["train.step"]
    assert unknown_settings(["training.steps=3"]) == ["training.steps"]
    assert unknown_settings(["train.steps=3", "model.change.width=8"]) == []


def test_there_are_commands_on_the_pages():
    assert len(COMMANDS) > 250


def test_ten_commands_for_those_who_come_from_another_library():
    sections = PAGES["docs/coming-from.md"].split("\n## ")[1:]
    assert len(sections) == 7
    for section in sections:
        assert section.count("\n| ") == 1 + 10, section.splitlines()[0]
