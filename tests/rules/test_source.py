"""House rules of the source: names, docstrings, sizes, and nothing that ties it to one machine."""

import ast
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.core import axes
from syntax import nodes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
TEXT = {".py", ".html", ".css", ".js", ".toml", ".md", ".json", ".txt"}
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in TEXT)
MODULES = [path for path in FILES if path.suffix == ".py"]
LONGEST = 600  # a file is as long as its idea, 50 to 400 lines as a rule

SUFFIX = re.compile(r"[a-z]\w*_([A-Z]+)")  # as in q_THK
HOST = re.compile(r"https?://([^\s/\"'`<>)\]]*)")
HOSTS = {"arxiv.org", "www.w3.org"}  # papers, and the name of SVG
MACHINE = re.compile(r"(?<![\w.:~-])/(?:home|root|work|Users|tmp|mnt|opt|srv|var|usr|etc)/")
OPTION = re.compile(r"(?:^|[\s(`])--[a-z]\w")
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def offenders(paths: list[Path], rule: Callable[[str], Any]) -> dict[str, Any]:
    """What a rule finds wrong, by file."""
    found = {name(path): rule(path.read_text(encoding="utf-8")) for path in paths}
    return {path: wrong for path, wrong in found.items() if wrong}


def asks_the_client(source: str) -> list[str]:
    """Paths by the header Host, and threads for which the process waits at its end."""
    return re.findall(r"request\.(?:base_)?url\b|to_thread|ThreadPoolExecutor", source)


def lines_beyond(text: str) -> int:
    return max(0, len(text.splitlines()) - LONGEST)


def lacks_docstring(source: str) -> bool:
    return not ast.get_docstring(nodes(source)[0])


def strange_letters(source: str) -> set[str]:
    """Names whose suffix has letters that the legend does not know."""
    names = set()
    for node in nodes(source):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    matched = [(one, SUFFIX.fullmatch(one)) for one in names]
    return {one for one, found in matched if found and not set(found[1]) <= axes.LEGEND}


def unsafe(source: str) -> list[str]:
    """Whatever would run code that lies in a file."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name.split(".")[0] in PICKLES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PICKLES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            settings = {one.arg: ast.unparse(one.value) for one in node.keywords}
            careless = ast.unparse(node.func) == "torch.load" and (
                settings.get("weights_only") != "True"
            )
            if careless or settings.get("allow_pickle", "False") != "False":
                found.append(ast.unparse(node))
    return found


def checked_by_assert(source: str) -> list[str]:
    """Assertions that do more than tell the type of a value: ``python -O`` leaves them out."""

    def narrows(test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp):
            return all(map(narrows, test.values))
        return bool(re.match(r"isinstance\(|[\w.]+ is not None$", ast.unparse(test)))

    asserted = [one.test for one in nodes(source) if isinstance(one, ast.Assert)]
    return [ast.unparse(test) for test in asserted if not narrows(test)]


def tied_to_a_machine(text: str) -> list[str]:
    """Absolute paths, and hosts that are no paper's."""
    hosts = [host for host in HOST.findall(text) if host not in HOSTS]
    return hosts + MACHINE.findall(text)


def options_named(source: str) -> list[str]:
    """Texts, docstrings apart, that name an option of the command line: people use the library."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(source)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    texts = [node for node in nodes(source) if isinstance(node, ast.Constant)]
    return [
        one.value
        for one in texts
        if id(one) not in docstrings and isinstance(one.value, str) and OPTION.search(one.value)
    ]


def test_axis_letters_are_those_of_the_legend():
    assert offenders(MODULES, strange_letters) == {}


def test_the_legend_explains_every_letter():
    explained = re.findall(r"^\| ([A-Z]) +\|", axes.__doc__ or "", flags=re.MULTILINE)
    assert sorted(explained) == sorted(axes.LEGEND)


def test_every_module_says_what_it_means():
    assert offenders(MODULES, lacks_docstring) == {}


def test_no_file_is_long():
    assert offenders(FILES, lines_beyond) == {}


def test_nothing_is_unpickled():
    assert offenders(MODULES, unsafe) == {}


def test_assertions_only_tell_types():
    assert offenders(MODULES, checked_by_assert) == {}
    assert checked_by_assert("assert a.b is not None and isinstance(c, int)") == []
    assert checked_by_assert("assert self.search") == ["self.search"]


def test_nothing_names_a_machine():
    assert offenders(FILES, tied_to_a_machine) == {}


def test_messages_of_the_library_name_no_option():
    terminal = (
        "cli/",
        "tour.py",
        "experiments/options/",  # help texts, and refusals of options that do not fit together
        "experiments/new_recipe.py",  # the command that trains it
        "experiments/training.py",  # how an interrupted run goes on
        "experiments/translation_scores.py",  # where the other n-grams are
        "serving/serve_options.py",
        "experiments/findings/finding.py",  # the command of a check
        "studio/branches.py",
    )  # what ``regard`` prints
    others = [path for path in MODULES if not name(path).startswith(terminal)]
    compiler = {"layers/cpp/build.py": ["--version"]}
    views = {one for one in others if name(one).startswith("views/")}  # CSS has them too
    assert offenders([one for one in others if one not in views], options_named) == compiler


def test_offending_files_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    paths = [tmp_path / "good.py", tmp_path / "long.py"]
    for path, lines in zip(paths, (LONGEST, LONGEST + 3), strict=True):
        path.write_text("pass\n" * lines)
    assert offenders(paths, lines_beyond) == {"long.py": 3}
    assert offenders(paths, lacks_docstring) == {"good.py": True, "long.py": True}


def test_the_rules_would_notice():
    assert strange_letters("def f(x_BQ): return x_BQ.y_TD + self.z_XY + MAX_Q") == {"x_BQ", "z_XY"}
    for source in (
        "import pickle",
        "from joblib import load",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
    ):
        assert unsafe(source)
    assert not unsafe("torch.load(path, weights_only=True); np.load(path, allow_pickle=False)")
    assert options_named('"""Like --out."""\nraise BadInput(f"{x}: choose another --out")')
    assert not options_named('"""Like --out."""\nwidth = "var(--w)"; dash = "a -- b"')
    for text in ("see https://example.com/x", "open('/home/someone/data')"):
        assert tied_to_a_machine(text)
    assert not tied_to_a_machine("https://arxiv.org/abs/1706.03762, 'a/home/b', ./tmp/x")


def test_a_server_asks_no_header_for_the_path_and_waits_for_no_thread():
    assert asks_the_client("if request.url.path == x: await asyncio.to_thread(f)") == [
        "request.url",
        "to_thread",
    ]
    paths = [path for path in MODULES if {"serving", "studio"} & {*path.parts}]
    assert paths and not offenders(paths, asks_the_client)


def private_names_of_others(text: str) -> list[str]:
    return re.findall(r"(?<!\bself)(?<!\bcls)(?<!\bos)\._[a-z]\w*", text)


def test_serving_uses_no_private_names_of_models():
    assert private_names_of_others("self.model._with_limits(); os._exit(0)") == ["._with_limits"]
    serving = [path for path in MODULES if "serving" in path.parts]
    assert serving and not offenders(serving, private_names_of_others)
