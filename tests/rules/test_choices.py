"""The code seldom chooses by kind: values answer for themselves."""

import ast
from collections.abc import Iterator
from pathlib import Path

from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
MOST = 70
# Types that are not ours: to ask for them checks an input, and does not choose by kind.
PLAIN = {
    *("str", "int", "float", "bool", "dict", "list", "tuple", "bytes", "set", "frozenset", "type"),
    *("object", "slice", "Path", "Tensor", "Module", "Linear", "Embedding", "LayerNorm", "ndarray"),
    *("Sequence", "Mapping", "Iterable", "Iterator", "Callable", "Generator", "Number"),
    *("Exception", "BaseException", "BadInput", "Parameter", "device", "dtype"),
}


def names(node: ast.expr) -> list[str]:
    """The names in the second argument of isinstance."""
    if isinstance(node, ast.Tuple):
        return [name for element in node.elts for name in names(element)]
    if isinstance(node, ast.BinOp):
        return names(node.left) + names(node.right)
    return [ast.unparse(node).split(".")[-1]]


def choices(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every choice by kind."""
    for node in nodes(source):
        if is_choice(node):
            yield node.lineno, ast.unparse(node).splitlines()[0]  # type: ignore[attr-defined]


def is_choice(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("isinstance"), args=[_, kind]):
            return not set(names(kind)) <= PLAIN
        case ast.Call(func=ast.Name("hasattr")):
            return True
        case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(), _]):
            return True
        case ast.Match(cases=cases):
            return any(isinstance(case.pattern, ast.MatchClass) for case in cases)
        case ast.Compare(left=left):
            text = ast.unparse(left)
            return text.split(".")[-1] in ("task", "kind") or text.startswith("type(")
    return False


def test_there_are_few():
    found = [
        f"{path.relative_to(PACKAGE)}:{line} {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if "toy_language" not in path.parts  # grammar is made of kinds
        for line, text in choices(path.read_text(encoding="utf-8"))
    ]
    assert len(found) <= MOST, "\n".join(found)


def test_the_rule_would_notice():
    source = """
if isinstance(x, Facts | int): ...
if isinstance(x, int | str): ...
if recipe.task == "tag" or type(x) is Facts: ...
match x:
    case Facts(): ...
    case _: ...
hasattr(x, "build"), getattr(x, "build", None), getattr(x, "build")
"""
    assert sorted(line for line, _ in choices(source)) == [2, 4, 4, 5, 8, 8]
