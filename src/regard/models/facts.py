"""Facts: models as values, which can be changed, compared, checked, and written as JSON."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from math import isfinite
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from regard.core.errors import BadFact, BadInput, KeyName, did_you_mean

Facts = TypeVar("Facts")
NAMED = "named"  # in the metadata of a field: values that ``change`` takes by name


def _numbers(facts: object, names: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Numbers in the fields of these names, also in tuples; None is left out."""
    for name in names:
        value = getattr(facts, name)
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float):
                yield name, number


def at_least(least: int, facts: object, *names: str) -> None:
    """Raise BadInput if one of these fields is below ``least``."""
    for name, number in _numbers(facts, names):
        if number < least:
            raise BadFact(name, f"must be at least {least}, not {number}")


def above_zero(facts: object, *names: str) -> None:
    """Raise BadInput if one of these fields is not positive."""
    for name, number in _numbers(facts, names):
        if not number > 0:
            raise BadFact(name, f"must be above 0, not {number}")


def share(facts: object, *names: str) -> None:
    """Raise BadInput if one of these fields is outside [0, 1)."""
    for name, number in _numbers(facts, names):
        if not 0 <= number < 1:
            raise BadFact(name, f"must be at least 0 and below 1, not {number}")


def one_of(known: Collection[str], name: str, value: str) -> None:
    """Raise BadInput if ``value`` is not one of the ``known`` names."""
    if value not in known:
        missing = f" is called {value!r}{did_you_mean(value, list(known))}"
        raise BadInput(("no ", KeyName(name), missing))


def check_type(kind: type, name: str, value: object) -> None:
    """Raise BadInput if a value does not have the type of its field."""
    expected = _hints(kind)[name]
    if not _fits(value, expected):
        description = expected.__name__ if isinstance(expected, type) else expected
        raise BadFact(name, f"of {kind.__name__} must be {description}, not {value!r}")
    if isinstance(value, float) and not isfinite(value):
        raise BadFact(name, f"of {kind.__name__} must be a finite number, not {value}")


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)


def _fits(value: object, expected: object) -> bool:
    if get_origin(expected) in (Union, UnionType):
        return any(_fits(value, kind) for kind in get_args(expected))
    if get_origin(expected) is tuple:
        member = get_args(expected)[0]
        return isinstance(value, tuple) and all(_fits(item, member) for item in value)
    if isinstance(value, bool):
        return expected is bool
    return isinstance(value, cast(type, expected)) or (isinstance(value, int) and expected is float)


def change(facts: Facts, **changes: object) -> Facts:
    """Return facts with other values of the named fields, at any depth.

    ``change(BASE, depth=2)`` changes every stack of an encoder-decoder, ``**{"source.depth": 12}``
    only one. A field with ``NAMED`` values (position, pool) also takes a name; if it already has a
    value of that class, the value is unchanged. All changes are made at once; if two name one
    field, the later one wins.
    """
    known, values, tables = dict(paths(facts)), dict[str, object](), dict(_named_fields(facts))

    def value_named(name: str, now: object) -> object:
        return _value_named(name, changes[name], now, tables)

    def replaces_parts(name: str) -> bool:
        """Whether a change replaces a value with fields, which other changes may name."""
        now = [known[path] for path in _matches(known, name)]
        return any(is_dataclass(value) for old in now for value in (old, value_named(name, old)))

    for name in sorted(changes, key=replaces_parts, reverse=True):
        matches = _matches(known, name)
        if not matches:
            names = sorted({path.split(".")[-1] for path in known})
            correct = did_you_mean(name, names)
            raise BadInput(("no fact is called ", KeyName(name, quoted=True), correct))
        new = {path: value_named(name, known[path]) for path in matches}
        values |= new
        moves = any(_children(known[path]) or _children(new[path]) for path in matches)
        known = dict(paths(facts, values=values)) if moves else known | new
    return _rebuild(facts, values)


def paths(
    facts: object, prefix: str = "", values: Mapping[str, object] = MappingProxyType({})
) -> list[tuple[str, object]]:
    """Every field with its dotted path; the fields of a nested value come before the value.

    Members of tuples that have a name, such as heads, have it in the path. Values in ``values``
    replace values of the facts.
    """
    listed: list[tuple[str, object]] = []
    for name, own in _children(facts):
        path = prefix + name
        value = values.get(path, own)
        listed += paths(value, f"{path}.", values)
        listed.append((path, value))
    return listed


def difference(one: object, other: object) -> dict[str, tuple[object, object]]:
    """Paths of the fields in which two facts differ → both values; None: no such field."""
    old, new = _leaves(one), _leaves(other)
    pairs = {path: (old.get(path), new.get(path)) for path in {**old, **new}}
    return {path: both for path, both in pairs.items() if both[0] != both[1]}


def values_named(facts: object, name: str) -> list[Any]:
    """Values of all fields that a name refers to in ``change``."""
    known = dict(paths(facts))
    return [known[path] for path in _matches(known, name)]


def _children(value: object) -> list[tuple[str, object]]:
    """The parts of a value by name: fields of a dataclass, named members of a tuple."""
    if isinstance(value, tuple):
        return [(member.name, member) for member in value if is_dataclass(type(member))]
    kind: type = type(value)
    return [(name, getattr(value, name)) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _leaves(facts: object) -> dict[str, object]:
    return {path: value for path, value in paths(facts) if not _children(value)}


def _matches(known: Mapping[str, object], name: str) -> list[str]:
    """Paths that a name refers to: those that end in it, else those it abbreviates."""
    ending = [path for path in known if path == name or path.endswith("." + name)]
    return ending or [path for path in known if "." in name and _abbreviates(name, path)]


def _abbreviates(name: str, path: str) -> bool:
    """Whether a name has the first and last steps of a path: source.depth, source.stack.depth."""
    steps, named = path.split("."), name.split(".")
    return steps[-1] == named[-1] and steps[: len(named) - 1] == named[:-1]


def _named_fields(facts: object) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The fields with ``NAMED`` values anywhere in the facts."""
    for member in fields(facts) if is_dataclass(facts) else ():
        if NAMED in member.metadata:
            yield member.name, member.metadata[NAMED]
    for _, child in _children(facts):
        yield from _named_fields(child)


def _value_named(
    name: str, value: object, now: object, tables: Mapping[str, Mapping[str, object]]
) -> object:
    """The value for a name in a field with ``NAMED`` values; other values are unchanged."""
    field = name.rpartition(".")[2]
    if field not in tables or value is None or is_dataclass(value):
        return value
    one_of(tables[field], field, str(value))
    new = tables[field][str(value)]
    return now if type(now) is type(new) else new


def _rebuild(facts: Facts, values: Mapping[str, object], prefix: str = "") -> Facts:
    """The facts with the values of these paths; inner values are rebuilt first."""
    changed = {}
    for name, before in _children(facts):
        path = prefix + name
        value = values.get(path, before)
        if _children(value) and any(other.startswith(f"{path}.") for other in values):
            value = _rebuild(value, values, f"{path}.")
        if is_dataclass(facts) and (path in values or value is not before):
            check_type(type(facts), name, value)
        if value is not before:
            changed[name] = value
    if not changed:
        return facts
    if isinstance(facts, tuple):
        return cast(Facts, tuple(changed.get(member.name, member) for member in facts))
    return replace(cast(Any, facts), **changed)


def to_json(value: object) -> object:
    """Convert facts to plain JSON values."""
    if isinstance(value, tuple):
        return [to_json(member) for member in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "is": type(value).__name__,
            **{field.name: to_json(getattr(value, field.name)) for field in fields(value)},
        }
    return value


def from_json(data: object, kinds: Mapping[str, type], where: str) -> Any:
    """Rebuild facts, of classes ``kinds``, from the JSON of ``to_json``; errors name ``where``."""
    if not isinstance(data, dict):
        raise BadInput(f"{where}: {data!r} is not an object with the facts of a model")
    facts_class = kinds.get(str(data.get("is")))
    if facts_class is None:
        raise BadInput(f"{where}: facts of unknown class {data.get('is')!r}")
    values = {name: _value(value, kinds, where) for name, value in data.items() if name != "is"}
    try:
        for field in fields(facts_class):
            if field.name in values:
                check_type(facts_class, field.name, values[field.name])
        return facts_class(**values)
    except (TypeError, BadInput) as error:
        raise BadInput(f"{where}: {error}") from None


def _value(data: object, kinds: Mapping[str, type], where: str) -> object:
    if isinstance(data, list):
        return tuple(_value(member, kinds, where) for member in data)
    return from_json(data, kinds, where) if isinstance(data, dict) else data
