"""Recipe files: where they are, and their tables before they are checked.

Nothing that runs a model is imported here, so that recipes can be listed quickly.
"""

import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.core.config import Config
from regard.core.errors import BadInput, did_you_mean
from regard.core.files import is_there, read_bytes

BUILT_IN = Path(__file__).parents[1] / "recipes"
EXAMPLES = BUILT_IN / "examples"  # recipes that have not been run to their end, without a score
REPLACES = {"steps": "epochs", "epochs": "steps"}  # keys of [train] of which a recipe has one


class AboutConfig(Config):
    """Title, source and notes of a recipe; the default title is the file's name."""

    free_keys = ("title", "command", "hardware", "minutes")
    title: str = ""
    """One line for `regard recipes`."""
    command: str = ""
    """The command that trains it."""
    hardware: str = ""
    """The machine that the minutes and the score were measured on."""
    minutes: float | None = None
    """The training time on that machine, in minutes."""


class ExpectConfig(Config):
    """The score that the test set must reach, with its source."""

    free_keys = ("metric", "score", "tolerance", "source")
    metric: str = "BLEU"
    """A metric of the task."""
    score: float
    """Its expected value."""
    tolerance: float = Field(ge=0)
    """The tolerance: how much worse the score may be."""
    source: str
    """Where the expected value comes from: a publication, or runs of this recipe."""


def find(name: str) -> Path:
    """The path of a recipe, given by file name or, if it comes with regard, by its bare name."""
    path = Path(name)
    if is_there(path) and path.is_file():
        return path
    if path.suffix == ".toml":
        raise BadInput(f"{name}: no such recipe file")
    built_in = {recipe.stem: recipe for recipe in built_in_recipes()}
    if path.is_dir() and name not in built_in:
        raise BadInput(f"{name}: is a folder; name the recipe file in it")
    if name not in built_in:
        raise BadInput(f"no recipe is called {name!r}{did_you_mean(name, list(built_in))}")
    return built_in[name]


def built_in_recipes() -> list[Path]:
    """The recipes that come with regard; the examples among them come last."""
    return [*sorted(BUILT_IN.glob("*.toml")), *sorted(EXAMPLES.glob("*.toml"))]


def is_example(path: Path) -> bool:
    """Whether a recipe that comes with regard is an example, without an expected score."""
    return path.parent == EXAMPLES


def read_tables(path: Path) -> dict[str, Any]:
    """Unchecked tables of a recipe file, merged into the recipe that it is ``like``."""
    content = _merged_tables(path)
    if isinstance(about := content.setdefault("about", {}), dict):
        about.setdefault("title", path.stem)
    return content


def parse_tables(content: str | Mapping[str, object], where: str) -> dict[str, object]:
    """The tables of a recipe in memory, or in the text of a recipe file."""
    tables = _toml(content, where) if isinstance(content, str) else deepcopy(dict(content))
    return _over_like(tables, Path(where))


def _merged_tables(path: Path, above: tuple[Path, ...] = ()) -> dict[str, object]:
    """Tables of a file; ``above`` are the files that led here by ``like``."""
    try:
        written = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not TOML ({error})") from None
    return _over_like(_toml(written, str(path)), path, above)


def _toml(text: str, where: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: not TOML ({error})") from None


def _over_like(
    content: dict[str, object], path: Path, above: tuple[Path, ...] = ()
) -> dict[str, object]:
    """Tables of the recipe at a path, merged into the recipe that it is ``like``."""
    like = content.pop("like", None)
    if like is None:
        return content
    beside, chain = path.parent / f"{like}.toml", (*above, path)
    base = beside if beside.is_file() else find(str(like))
    if base in chain:
        names = " → ".join(recipe.stem for recipe in (*chain, base))
        raise BadInput(f"{path}: circular `like` reference: {names}")
    under = _merged_tables(base, chain)
    under.pop("about", None)  # that recipe's title, command and minutes are not this one's
    both = merged(under, content)
    data, model = (_table(content, name) for name in ("data", "model"))
    if data:  # where examples come from is said as a whole
        both["data"] = data if "train" in data else {**_table(under, "data"), **data}
    if "train" in data or model:  # scores to expect are of that recipe's own test sets and model
        own = {name: content[name] for name in both.keys() & content.keys() & {"expect", "rung"}}
        both = {**_without_scores(both), **own}
    if "paper" in model:  # sizes and changes are those of a paper
        both["model"] = model
    return both


def _without_scores(content: Any) -> Any:
    """Copy of a recipe, or of a rung, without its expected scores."""
    match content:
        case {"rung": [*rungs], **rest}:
            return {**_without_scores(rest), "rung": [_without_scores(rung) for rung in rungs]}
        case {"expect": _, **rest}:
            return rest
    return content


def _table(content: dict[str, object], name: str) -> dict[str, object]:
    """A table of a recipe, or an empty one."""
    return table if isinstance(table := content.get(name), dict) else {}


def merged(under: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    """Merge one recipe into another, key by key; ``false`` removes a table."""
    both = {**under, **over}
    for key in over.keys() & REPLACES.keys():
        if REPLACES[key] not in over:
            both.pop(REPLACES[key], None)
    for name in under.keys() & over.keys():
        if isinstance(below := under[name], dict) and isinstance(above := over[name], dict):
            both[name] = merged(below, above)
        elif isinstance(below, dict) and over[name] is False:
            del both[name]
    return both
