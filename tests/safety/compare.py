"""Where two records differ."""

from collections.abc import Iterator
from math import isclose
from typing import Any

TOLERANCE = 1e-6  # where gradients are clipped: their norm is a sum in the order of parameters
LISTED = 3  # differences shown of each entry


def differences(name: str, base: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for an entry that is not the same, with the first differences; else none."""
    if name not in new["entries"]:
        return [f"{name}: missing"]
    old, now = base["entries"][name], new["entries"][name]
    if "failed" in now:
        return [f"{name}: failed: {str(now['failed']).splitlines()[0]}"]
    found = list(_differences("", old, now, old["exact"]))
    if not found:
        return []
    more = f"; {len(found) - LISTED} more" if len(found) > LISTED else ""
    return [f"{name}: {'; '.join(found[:LISTED])}{more}"]


def _differences(path: str, old: Any, new: Any, exact: bool) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            inner = f"{path} {key}".strip()
            if key not in new or key not in old:
                yield f"{inner} {'is missing' if key not in new else 'is new'}"
            else:
                yield from _differences(inner, old[key], new[key], exact)
    elif _is_digest(old) and _is_digest(new):
        same = old[0] == new[0] if exact else _close(old[1], new[1])
        if not same:
            yield f"{path} has norm {old[1]} → {new[1]}"
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} values → {len(new)}"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _differences(f"{path} {number}", one, other, exact)
    elif old != new and (exact or not _close(old, new)):
        yield f"{path}: {_shown(old)} → {_shown(new)}"


def _is_digest(value: Any) -> bool:
    """A digest of bytes and a norm."""
    pair = isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)
    return pair and len(value[0]) == 20 and all(one in "0123456789abcdef" for one in value[0])


def _close(old: Any, new: Any) -> bool:
    first, second = _number(old), _number(new)
    if first is None or second is None:
        return False
    return isclose(first, second, rel_tol=TOLERANCE)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            return float.fromhex(value) if "0x" in value else float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) else None


def _shown(value: Any) -> str:
    number = _number(value) if isinstance(value, str) and "0x" in value else None
    return repr(value if number is None else number)
