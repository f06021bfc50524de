"""Two captured folders: which probes differ, and where first."""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 160  # characters of a value that is shown


class Change(NamedTuple):
    """Probes that are meant to differ: at will, or by what a pattern is replaced with."""

    probe: str
    reason: str
    old: str = ""
    new: str = ""

    def fits(self, probe: str) -> bool:
        """Whether a probe is meant."""
        return fnmatchcase(probe, self.probe)


def read_changes(path: Path) -> list[Change]:
    """The changes in a file, each of which has a reason."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("changed", [])
    changes = [Change(**row) for row in rows]
    for change in changes:
        if not change.reason.strip():
            raise SystemExit(f"{path}: {change.probe}: a reason is missing")
    return changes


def probes_in(folder: Path) -> dict[str, Path]:
    """Files of a captured folder by the names of their probes."""
    files = (path for path in folder.rglob("*") if path.suffix in (".txt", ".json"))
    named = {path.relative_to(folder).with_suffix("").as_posix(): path for path in files}
    return {
        name: path
        for name, path in sorted(named.items())
        if "/" in name and not name.startswith("inputs/")
    }


def compare(before: Path, after: Path, changes: Sequence[Change]) -> tuple[list[str], int]:
    """A line for each probe that differs or is in one folder only, and the number of probes."""
    old, new = probes_in(before), probes_in(after)
    parts = {name.partition("/")[0] for name in new}
    names = sorted({*old, *new})
    lines = []
    for name in names:
        meant = [change for change in changes if change.fits(name)]
        if any(not change.old for change in meant):
            continue
        if name not in old or name not in new:
            missing = "missing" if name in old else "new"
            whole = name.partition("/")[0] not in parts
            lines.append(f"{name}: {missing}{' (the whole part)' if whole else ''}")
            continue
        text = old[name].read_text(encoding="utf-8")
        for change in meant:
            text = re.sub(change.old, change.new, text)
        difference = first_difference(text, new[name].read_text(encoding="utf-8"))
        if old[name].suffix != new[name].suffix:
            difference = f"{old[name].suffix} → {new[name].suffix}"
        if difference:
            lines.append(f"{name}: {difference}")
    return lines, len(names)


def first_difference(old: str, new: str) -> str:
    """Where two files first differ: a path of JSON, or a line; empty if they are the same."""
    if old == new:
        return ""
    try:
        pair = json.loads(old), json.loads(new)
    except ValueError:
        return _first_line(old, new)
    return next(_differences("", *pair), "") or _first_line(old, new)


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if key not in old or key not in new:
                yield f"{path}.{key} is {'missing' if key in old else 'new'}"
            else:
                yield from _differences(f"{path}.{key}", old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        for number, pair in enumerate(zip(old, new, strict=False)):
            yield from _differences(f"{path}[{number}]", *pair)
        if len(old) != len(new):
            yield f"{path} has {len(old)} → {len(new)} items"
    elif isinstance(old, str) and isinstance(new, str) and old != new and "\n" in old + new:
        yield f"{path} {_first_line(old, new)}"
    elif old != new or type(old) is not type(new):
        yield f"{path}: {_short(old)} → {_short(new)}"


def _first_line(old: str, new: str) -> str:
    lines = [text.split("\n") for text in (old, new)]
    for number, pair in enumerate(zip(*lines, strict=False), 1):
        if pair[0] != pair[1]:
            return f"line {number}: {' → '.join(_around(*pair))}"
    return f"{len(lines[0])} → {len(lines[1])} lines"


def _around(old: str, new: str) -> tuple[str, str]:
    """Both lines, from a little before the first character that differs."""
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    start = max(0, same - 40) if max(len(old), len(new)) > LONGEST else 0
    return _short(old[start:]), _short(new[start:])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
