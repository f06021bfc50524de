"""Change facts, compare them, and name every field by its path."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, cast

from regard.ground.errors import BadInput, did_you_mean
from regard.models.facts.checks import check_type, one_of
from regard.models.facts.pools import POOLS
from regard.models.facts.positions import Learned, Position, Relative, Sinusoid

POSITIONS: dict[str, Position | None] = {
    "none": None,
    "sinusoid": Sinusoid(),
    "learned": Learned(512),  # as many as BERT's
    "relative": Relative(16),  # as far as in Shaw et al. (2018)
}
NAMED: dict[str, Mapping[str, Any]] = {"position": POSITIONS, "pool": POOLS}


def change(facts: Any, **changes: Any) -> Any:
    """The same facts except for the named fields, wherever they stand.

    ``change(BASE, depth=2)`` changes every stack of an encoder-decoder; ``**{"source.depth": 12}``
    only one. A position may be given by its name in ``POSITIONS``, a pool by its name in ``POOLS``;
    one of that kind stays as it is.
    All changes are made at once, in any order; where two name one field, the later one wins.
    """
    known, given = dict(paths(facts)), dict[str, Any]()

    def replaces_parts(name: str) -> bool:
        """Whether a value with fields of its own comes or goes: other changes may name those."""
        now = [known[path] for path in _matches(known, name)]
        return any(
            is_dataclass(value)
            for old in now
            for value in (old, _value_named(name, changes[name], old))
        )

    for name in sorted(changes, key=replaces_parts, reverse=True):
        matches = _matches(known, name)
        if not matches:
            names = sorted({path.split(".")[-1] for path in known})
            raise BadInput(f"no fact is called {name!r}{did_you_mean(name, names)}")
        new = {path: _value_named(name, changes[name], known[path]) for path in matches}
        given |= new
        moves = any(_children(known[path]) or _children(new[path]) for path in matches)
        known = dict(paths(facts, given=given)) if moves else known | new
    return _rebuild(facts, given)


def paths(
    facts: Any, prefix: str = "", given: Mapping[str, Any] = MappingProxyType({})
) -> list[tuple[str, Any]]:
    """Every field with its dotted path; values with fields of their own come after these.

    Named values in a tuple, such as heads, have their names in the path. Values in ``given`` stand
    in for those of the facts.
    """
    listed: list[tuple[str, Any]] = []
    for name, own in _children(facts):
        path = prefix + name
        value = given.get(path, own)
        listed += paths(value, f"{path}.", given)
        listed.append((path, value))
    return listed


def difference(one: Any, other: Any) -> dict[str, tuple[Any, Any]]:
    """The fields in which two facts differ: path to (this, that); ``None`` where one has none."""
    here, there = _leaves(one), _leaves(other)
    pairs = {path: (here.get(path), there.get(path)) for path in {**here, **there}}
    return {path: both for path, both in pairs.items() if both[0] != both[1]}


def values_named(facts: Any, name: str) -> list[Any]:
    """The values that a name means in ``change``; none where there is no such field."""
    known = dict(paths(facts))
    return [known[path] for path in _matches(known, name)]


def _children(value: Any) -> list[tuple[str, Any]]:
    """The parts of a value by name: fields of a dataclass, named members of a tuple."""
    if isinstance(value, tuple):
        return [(cast(Any, member).name, member) for member in value if is_dataclass(member)]
    kind: Any = type(value)
    return [(name, getattr(value, name)) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _leaves(facts: Any) -> dict[str, Any]:
    return {path: value for path, value in paths(facts) if not _children(value)}


def _matches(known: Mapping[str, Any], name: str) -> list[str]:
    """The paths that a name means: all that end in it, else those it abbreviates."""
    ending = [path for path in known if path == name or path.endswith("." + name)]
    return ending or [path for path in known if "." in name and _abbreviates(name, path)]


def _abbreviates(name: str, path: str) -> bool:
    """ "source.depth" names "source.stack.depth": the first and last steps, others left out."""
    steps, named = path.split("."), name.split(".")
    return steps[-1] == named[-1] and steps[: len(named) - 1] == named[:-1]


def _value_named(name: str, value: Any, now: Any) -> Any:
    """A position or pool for its name; any other value as it is."""
    field = name.rpartition(".")[2]
    if field not in NAMED or value is None or is_dataclass(value):
        return value
    one_of(NAMED[field], field, str(value))
    named = NAMED[field][value]
    return now if type(now) is type(named) else named


def _rebuild(facts: Any, given: Mapping[str, Any], prefix: str = "") -> Any:
    """The facts with these values, by their paths; every part is made once, inner ones first."""
    changed = {}
    for name, before in _children(facts):
        path = prefix + name
        value = given.get(path, before)
        if _children(value) and any(other.startswith(f"{path}.") for other in given):
            value = _rebuild(value, given, f"{path}.")
        if is_dataclass(facts) and (path in given or value is not before):
            check_type(type(facts), name, value)
        if value is not before:
            changed[name] = value
    if not changed:
        return facts
    if isinstance(facts, tuple):
        return tuple(changed.get(member.name, member) for member in facts)
    return replace(facts, **changed)
