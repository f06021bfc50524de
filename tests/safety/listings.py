"""Listings of public formats: tape paths, state-dict keys, recipe keys, exports, options, outputs.

They are text files, one entry a line, so that a difference is one line that names what is missing
or new. The modules of the package that they need stand here.
"""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import typer

import regard
from regard.cli import app
from regard.core.config import Config
from regard.tasks.components import TASKS
from regard.training.recipe import recipe_class
from safety import frozen_folders as frozen
from verb import run

FLOAT = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?")


def tape_paths() -> Iterator[str]:
    """Every value that a tape can record, by frozen model."""
    for name, model in _models():
        yield from (f"{name} {path}" for path in model.tape_names())


def state_dict_keys() -> Iterator[str]:
    """Every tensor of a module with its shape, by frozen model."""
    for name, model in _models():
        for key, tensor in model.module.state_dict().items():
            yield f"{name} {key} {'×'.join(map(str, tensor.shape))}"


def _models() -> Iterator[tuple[str, regard.Model]]:
    for folder in sorted(path for path in frozen.MODELS.iterdir() if path.is_dir()):
        yield folder.name, regard.load(folder, "cpu")


def recipe_keys() -> Iterator[str]:
    """Every key of every table of recipes, by task, with its default."""
    for task in TASKS:
        yield from (f"{task} {line}" for line in _keys(recipe_class(task), ""))


def _keys(config: type[Config], prefix: str, above: tuple[Any, ...] = ()) -> Iterator[str]:
    for key, field in config.model_fields.items():
        inner = _table(field.annotation)
        default = "required" if field.is_required() else field.get_default()
        shown = "…" if isinstance(default, Config) else default
        yield f"{prefix}{key} = {shown!r}"
        if inner is not None and inner not in above:
            yield from _keys(inner, f"{prefix}{key}.", (*above, config))


def _table(annotation: Any) -> type[Config] | None:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return annotation
    return next((one for part in get_args(annotation) if (one := _table(part))), None)


def exports() -> Iterator[str]:
    """Every name of ``regard.__all__`` with its signature, and the methods of classes."""
    for name in sorted(regard.__all__):
        value = getattr(regard, name)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            yield name
            continue
        yield f"{name}{_signature(value)}"
        if inspect.isclass(value):
            for method in sorted(dir(value)):
                if not method.startswith("_"):
                    yield f"{name}.{method}{_member(inspect.getattr_static(value, method))}"


def _member(value: Any) -> str:
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(plain, property | cached_property) or not inspect.isfunction(plain):
        return ""
    return _signature(inspect.unwrap(plain))


def _signature(value: Any) -> str:
    """Names, kinds and plain defaults of arguments: types may be spelled in other ways."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown = []
    for one in parameters:
        text = str(one.replace(annotation=inspect.Parameter.empty))
        shown.append(text if isinstance(one.default, int | float | str | None | type) else one.name)
    return f"({', '.join(shown)})"


def options() -> Iterator[str]:
    """Every option and argument of every verb, with its default."""
    group: Any = typer.main.get_command(app)
    for verb in sorted(group.commands):
        for one in group.commands[verb].params:
            names = " ".join((*one.opts, *one.secondary_opts))
            yield f"{verb} {names} = {one.default!r}"


COMMANDS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "papers": (("papers",), None),
    "papers-one": (("papers", "RoBERTa"), None),
    "papers-two": (("papers", "transformer:base", "marian:base"), None),
    "papers-results": (("papers", "--results", "Bahdanau"), None),
    "recipes": (("recipes",), None),
    "translate": (("translate", "{models}/hf-marian", "--best", "2"), "cow dog\nowl\n"),
    "score": (("score", "{models}/hf-marian"), "cow dog\tdog cow\nowl\tsow\n"),
    "generate": (("generate", "{models}/hf-gpt2", "--max-new-tokens", "3"), "the old\n"),
    "fill": (("fill", "{models}/hf-bert-base-uncased", "--top", "2"), "the [MASK] sailor\n"),
    "predict-one": (("predict", "{models}/regard-task-one"), "the storm\nnets, boats\n"),
    "predict-tags": (("predict", "{models}/regard-task-tags"), "Ada met Charles\n"),
    "predict-answer": (("predict", "{models}/regard-task-answer"), "who?\tthe old sailor\n"),
    "predict-images": (("predict", "{models}/regard-vit", "{images}"), None),
    "embed": (("embed", "{models}/st-bert"), "the old sailor\n"),
    "look": (("look", "{models}/hf-marian", "cow dog"), None),
    "look-bert": (("look", "{models}/hf-bert-base-uncased", "the old sailor"), None),
    "tree": (("tree", "{models}/hf-marian", "cow dog", "--beam", "2"), None),
    "align": (("align", "{models}/hf-marian", "{data}/dev.src", "{data}/dev.tgt"), None),
    "bleu": (("bleu", "{data}/dev.src", "{data}/dev.tgt"), None),
    "neighbours": (("neighbours", "{models}/hf-gpt2", "the"), "the old sailor\nthe cat\n"),
}


def outputs() -> Iterator[str]:
    """What verbs print for frozen models, plain and as JSON; digits after a point are rounded."""
    places = {
        "models": frozen.MODELS,
        "images": frozen.FROZEN / "images",
        "data": frozen.RUNS / "data",
    }
    for name, (arguments, stdin) in COMMANDS.items():
        words = [word.format(**places) for word in arguments]
        exact = words[0] in ("papers", "recipes", "bleu")
        words += [] if exact else ["--device", "cpu", "--precision", "fp32"]
        words += ["--engine", "torch"] if words[0] in ("translate", "generate") else []
        for form in ((), ("--json",)) if name != "recipes" else ((),):
            text = run(*words, *form, stdin=stdin).stdout.replace(str(frozen.FROZEN), "")
            label = " ".join((name, *form))
            for line in text.splitlines():
                yield f"{label}: {line.rstrip() if exact else rounded(line)}"


def rounded(line: str) -> str:
    """A line with two digits after each point, and every vector cut to its first number."""
    line = re.sub(r"\[(-?\d+\.\d+)(?:, ?-?\d[\d.e+-]*)+\]", r"[\1, …]", line)
    return FLOAT.sub(lambda number: f"{float(number[0]):.2f}", line).rstrip()


LISTINGS = {
    "tape_paths": tape_paths,
    "state_dict_keys": state_dict_keys,
    "recipe_keys": recipe_keys,
    "exports": exports,
    "options": options,
    "outputs": outputs,
}


def write_listings(folder: Path) -> None:
    """All listings, as text files."""
    for name, listing in LISTINGS.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in listing()))
