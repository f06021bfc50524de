"""The syntax of source files, parsed once: many rules read the same ones."""

import ast
from functools import cache


@cache
def nodes(source: str) -> list[ast.AST]:
    """All nodes of a module, which is the first."""
    return list(ast.walk(ast.parse(source)))
