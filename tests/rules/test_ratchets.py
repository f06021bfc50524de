"""Figures of the source that only go down: files, lines, untyped values, circles of imports.

A figure above its bound fails, and so does one more than 2% below it: then lower the bound.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from regard.experiments.paper_path import PATHS
from regard.inside.forward_path import count_lines
from regard.models.papers import paper
from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
BOUNDS = {
    "files": 668,
    "lines": 108_600,
    "lines of code": 69_030,
    "files under 40 lines": 7,
    "basenames used twice": 29,
    "Any": 226,
    "cast(Any": 3,
    "aliases of Any": 0,
    "type: ignore": 35,
    "circles of imports": 0,
    "modules in circles": 0,
    "choices by kind": 107,
}
# Files that run in one forward pass of a paper (``regard papers PAPER --path``), in one step of
# beam search or of training, and their lines.
RUN = {
    ("GPT-2", "forward"): (15, 3_328),
    ("BERT", "forward"): (16, 3_760),
    ("ViT", "forward"): (15, 3_709),
    ("Bahdanau", "forward"): (16, 3_518),
    ("XLNet", "forward"): (15, 3_602),
    ("Transformer", "beam"): (26, 5_089),
    ("BERT", "train"): (41, 8_558),
}
SMALL = 40  # lines under which a file usually belongs to the one that imports it
SLACK = 0.02

# Modules that import what they export when it is first used: circles do not count these imports.
LAZY = {"regard"}

# Types that are not ours: to ask for them checks an input, and does not choose by kind.
PLAIN = {
    *("str", "int", "float", "bool", "dict", "list", "tuple", "bytes", "set", "frozenset", "type"),
    *("object", "slice", "Path", "Tensor", "Module", "Linear", "Embedding", "LayerNorm", "ndarray"),
    *("Sequence", "Mapping", "Iterable", "Iterator", "Callable", "Generator", "Number"),
    *("Exception", "BaseException", "BadInput", "Parameter", "device", "dtype", "Dataset"),
    *("ModuleType", "UnionType", "EllipsisType", "Hashable", "Sized", "Collection", "datetime"),
    *("DTensor", "FSDPModule"),
}

TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NO_CODE = re.compile(r"\s*(?:#|from |import |$)")


def lines_of_code(source: str) -> int:
    """Lines that are neither empty nor comments, docstrings or imports."""
    documented = [node for node in nodes(source) if isinstance(node, DOCUMENTED)]
    strings = [node.body[0] for node in documented if ast.get_docstring(node, clean=False)]
    prose = {n for one in strings for n in range(one.lineno, (one.end_lineno or 0) + 1)}
    lines = enumerate(source.splitlines(), 1)
    return sum(number not in prose and not NO_CODE.match(line) for number, line in lines)


def is_cast(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name("cast"), args=[ast.Name("Any"), _]):
            return True
    return False


def is_alias(node: ast.AST) -> bool:
    match node:
        case ast.Assign(value=ast.Name("Any")) | ast.AnnAssign(value=ast.Name("Any")):
            return True
    return False


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


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("regard", *parts)).removesuffix(".__init__")


def parents(module: str) -> Iterator[str]:
    """The packages around a module, which Python imports before it."""
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def imported(module: str, source: str) -> set[str]:
    """Names of everything that is imported anywhere in a module, with the packages around it."""
    checked = [node for node in nodes(source) if is_lazy(module, node)]
    skipped = {id(inner) for node in checked for inner in ast.walk(node)}
    names = set[str]()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in skipped:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {f"{node.module}"}
    return names | {parent for name in names for parent in parents(name)}


def is_lazy(module: str, node: ast.AST) -> bool:
    """Whether this block names what a module imports when it is first used."""
    return module in LAZY and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each module imports, but for the packages it is in."""
    return {
        module: (imported(module, source) & sources.keys()) - {module, *parents(module)}
        for module, source in sources.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Sets of modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in graph[module]:
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            place = stack.index(module)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for module in graph:
        if module not in index:
            visit(module)
    return found


def is_small(path: Path, text: str) -> bool:
    apart = path.name == "__init__.py" or path.parent.name in ("papers", "verbs")
    return not apart and len(text.splitlines()) < SMALL


@pytest.fixture(scope="module")
def figures() -> dict[str, int]:
    everything = [node for text in TEXTS.values() for node in nodes(text)]
    names = Counter(path.name for path in TEXTS if path.name != "__init__.py")
    loops = circles(import_graph({module_of(path): text for path, text in TEXTS.items()}))
    return {
        "files": len(TEXTS),
        "lines": sum(len(text.splitlines()) for text in TEXTS.values()),
        "lines of code": sum(map(lines_of_code, TEXTS.values())),
        "files under 40 lines": sum(is_small(path, text) for path, text in TEXTS.items()),
        "basenames used twice": sum(count > 1 for count in names.values()),
        "Any": sum(isinstance(node, ast.Name) and node.id == "Any" for node in everything),
        "cast(Any": sum(map(is_cast, everything)),
        "aliases of Any": sum(map(is_alias, everything)),
        "type: ignore": sum(text.count("# type: ignore") for text in TEXTS.values()),
        "circles of imports": len(loops),
        "modules in circles": sum(map(len, loops)),
        "choices by kind": sum(
            len([*choices(text)])
            for path, text in TEXTS.items()
            if "toy_language" not in path.parts  # grammar is made of kinds
        ),
    }


def verdict(name: str, figure: int, bound: int) -> str:
    """What is wrong with a figure; empty if nothing is."""
    if figure > bound:
        return f"{name}: {figure:,}, more than {bound:,}"
    if figure < bound * (1 - SLACK):
        return f"{name}: lower the bound to {figure:,} (now {bound:,})"
    return ""


@pytest.mark.parametrize("name", BOUNDS)
def test_a_figure_does_not_rise(name, figures):
    wrong = verdict(name, figures[name], BOUNDS[name])
    assert not wrong, wrong


@pytest.mark.thinned
@pytest.mark.parametrize(("name", "kind"), RUN)
def test_a_step_runs_through_no_more_files(name, kind):
    files = count_lines(step.file for step in PATHS[kind](paper(name), paper(name).default_size))
    for what, figure, bound in zip(
        ("files", "lines of files"), (len(files), sum(files.values())), RUN[name, kind], strict=True
    ):
        wrong = verdict(f"{what} in the {kind} path of {name}", figure, bound)
        assert not wrong, wrong


def test_the_rules_would_notice():
    source = (
        '"""A file."""\nimport os\n\n# why\nx: Any = cast(Any, 1)\nY = Any\ndef f():\n    "Do."\n'
    )
    assert lines_of_code(source) == 3
    assert sum(map(is_cast, nodes(source))) == sum(map(is_alias, nodes(source))) == 1
    inner = "def f():\n    from regard.a.y import z"
    sources = {"regard.a": "import regard.b", "regard.a.y": "", "regard.b": inner}
    assert circles(import_graph(sources)) == [["regard.a", "regard.b"]]  # by the package of a.y
    assert circles(import_graph({**sources, "regard.b": ""})) == []
    assert verdict("files", 101, 100) == "files: 101, more than 100"
    assert verdict("files", 97, 100) == "files: lower the bound to 97 (now 100)"
    assert verdict("files", 98, 100) == ""


def test_choices_by_kind_are_noticed():
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
