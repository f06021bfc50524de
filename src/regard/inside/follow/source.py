"""File and line that compute a step, found by object: a value put on a tape, or a function."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import cast

PACKAGE = Path(__file__).parents[2]


@dataclass(frozen=True)
class SourceLine:
    """File under the folder of the package, and line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    @cache
    def of(cls, place: str, value: str = "") -> "SourceLine":
        """Source of "module:object", or of the call in it that puts this ``value`` on a tape."""
        module, _, name = place.partition(":")
        file = Path(str(import_module(module).__file__))
        node: ast.AST = ast.parse(file.read_text(encoding="utf-8"))
        for part in name.split("."):
            node = _definition(node, part)
        line = next(_tape_calls(node, value), None) if value else None
        return cls(str(file.relative_to(PACKAGE)), line or cast(ast.FunctionDef, node).lineno)


def _definition(tree: ast.AST, name: str) -> ast.AST:
    """The class or function of this name in a module or class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    raise KeyError(name)


def _tape_calls(tree: ast.AST, value: str) -> Iterator[int]:
    """Lines of calls whose first argument is the name of a value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value == value:
                yield node.lineno
