"""Exports, signatures, and the keys of recipes, of saved folders and of modules."""

import inspect
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

import regard
from net.adapter import recipe_classes
from net.parts import Place, Probes, attempt

PLAIN = int | float | str | None | type  # defaults that are shown


def probes(place: Place) -> Probes:
    """All names; those of folders by model."""
    yield "exports", sorted(regard.__all__)
    yield "version", regard.__version__
    for name in sorted(regard.__all__):
        yield f"signatures/{name}", "".join(f"{line}\n" for line in signatures(name))
    for task, recipe in recipe_classes():
        yield f"recipe_keys/{task}", "".join(f"{line}\n" for line in keys(recipe))
    yield (
        "papers",
        "".join(
            f"{paper.key} {paper.name} {paper.year} {size} {paper.parameters(facts)}\n"
            for paper in regard.LINEAGE
            for size, facts in paper.sizes.items()
        ),
    )
    for folder in model_folders(place):
        model = regard.load(folder, "cpu")
        yield f"state_dict/{folder.name}", "".join(state_dict_keys(model.module))
        yield f"tape/{folder.name}", "".join(f"{name}\n" for name in model.tape_names())
        yield f"formats/{folder.name}", model.formats
        for form in ("regard", "hf"):
            if model.formats.get(form, "no such format") is None:
                out = place.work / form / folder.name
                files = attempt(lambda model=model, out=out, form=form: saved(model, out, form))
                yield f"saved/{folder.name}-{form}", files


def model_folders(place: Place) -> list[Path]:
    """Folders of all small models."""
    folders = [*(place.inputs / "models").iterdir(), *(place.inputs / "papers").iterdir()]
    return sorted(folder for folder in folders if folder.is_dir())


def state_dict_keys(module: Any) -> Iterator[str]:
    """Each tensor of a module with its shape."""
    for key, tensor in module.state_dict().items():
        yield f"{key} {'×'.join(map(str, tensor.shape))}\n"


def saved(model: regard.Model, folder: Path, form: str) -> dict[str, Any]:
    """The files of a folder that is saved, with the keys of JSON and the content of config.json."""
    model.save(folder, form)
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "config.json":
            found[name] = json.loads(path.read_text())
        elif path.suffix == ".json" and path.stat().st_size < 20_000:
            found[name] = sorted(json_keys(json.loads(path.read_text())))
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def json_keys(value: Any, prefix: str = "", depth: int = 2) -> set[str]:
    """Paths of the keys of a JSON value, to a depth."""
    if not isinstance(value, dict) or not depth:
        return set()
    return {
        path
        for key, inner in value.items()
        for path in ({f"{prefix}{key}"} | json_keys(inner, f"{prefix}{key}.", depth - 1))
    }


def keys(recipe: type[BaseModel], prefix: str = "", above: tuple[Any, ...] = ()) -> Iterator[str]:
    """Every key of the tables of a recipe, with its default."""
    for key, field in recipe.model_fields.items():
        default = "required" if field.is_required() else field.get_default()
        inner = table_of(field.annotation)
        is_table = isinstance(default, BaseModel)
        yield f"{prefix}{field.alias or key} = {'…' if is_table else repr(default)}"
        if inner is not None and inner not in above:
            yield from keys(inner, f"{prefix}{field.alias or key}.", (*above, recipe))


def table_of(annotation: Any) -> type[BaseModel] | None:
    """The type of a table in an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next((table for part in get_args(annotation) if (table := table_of(part))), None)


def signatures(name: str) -> Iterator[str]:
    """A public name with its signature; a class with its public members."""
    value = getattr(regard, name)
    if not inspect.isclass(value) and not inspect.isfunction(value):
        yield name
        return
    yield f"{name}{signature(value)}"
    if inspect.isclass(value):
        for member in sorted(dir(value)):
            if not member.startswith("_"):
                yield f"{name}.{member}{member_signature(inspect.getattr_static(value, member))}"


def member_signature(value: Any) -> str:
    """The signature of a method; of anything else, nothing."""
    plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
    if isinstance(plain, property | cached_property) or not inspect.isfunction(plain):
        return ""
    return signature(inspect.unwrap(plain))


def signature(value: Any) -> str:
    """Names, kinds and plain defaults of arguments: types may be spelled in other ways."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    shown = []
    for parameter in parameters:
        text = str(parameter.replace(annotation=inspect.Parameter.empty))
        shown.append(text if isinstance(parameter.default, PLAIN) else parameter.name)
    return f"({', '.join(shown)})"
