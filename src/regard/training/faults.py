"""What is wrong with a recipe, in the words of those who write one."""

from pydantic import BaseModel, ValidationError

from regard.ground.errors import did_you_mean

SHAPES = {
    "tuple_type": 'write a list, as in ["embed", "head"]',
    "dict_type": "write a table, as in { yes = 2.0 }",
    "model_type": "write a table of keys and values",
}
"""What a value must look like, in the words of TOML."""


def first_fault(error: ValidationError, recipe: type[BaseModel]) -> tuple[str, str]:
    """The key that is wrong first, and what is wrong."""
    fault = error.errors()[0]
    place = [str(step) for step in fault["loc"] if "[" not in str(step)]  # not kinds of values
    name = ".".join(place)
    if fault["type"] == "extra_forbidden":
        known = _keys(place[:-1], recipe)
        return name, f"unknown key {name!r}{did_you_mean(place[-1], known)}"
    if fault["type"] == "missing":
        return name, f"{name} is missing"
    message = SHAPES.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    given = "" if isinstance(fault["input"], dict) else f" (given {fault['input']!r})"
    return name, f"{name}: {message}{given}" if name else message


def _keys(tables: list[str], kind: type[BaseModel]) -> list[str]:
    for table in tables:
        if table.isdigit():  # the number of a rung
            continue
        annotation = kind.model_fields[table].annotation
        choices = getattr(annotation, "__args__", (annotation,))
        kind = next(c for c in choices if isinstance(c, type) and issubclass(c, BaseModel))
    return list(kind.model_fields)
