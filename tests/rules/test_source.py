"""House rules of the source: names, docstrings, sizes, and nothing that ties it to one machine."""

import ast
import re
from pathlib import Path

import pytest

from regard.ground import axes

PACKAGE = Path(__file__).parents[2] / "src" / "regard"
TEXT = {".py", ".html", ".css", ".js", ".toml", ".md", ".json", ".txt"}
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in TEXT)
MODULES = [path for path in FILES if path.suffix == ".py"]
LONGEST = 400

SUFFIX = re.compile(r"[a-z]\w*_([A-Z]+)")  # as in q_THK
HOST = re.compile(r"https?://([^\s/\"'`<>)\]]*)")
HOSTS = {"arxiv.org", "www.w3.org"}  # papers, and the name of SVG
MACHINE = re.compile(r"(?<![\w.:~-])/(?:home|root|work|Users|tmp|mnt|opt|srv|var|usr|etc)/")
PICKLES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


each_file = pytest.mark.parametrize("path", FILES, ids=name)
each_module = pytest.mark.parametrize("path", MODULES, ids=name)


def strange_letters(source: str) -> set[str]:
    """Names whose suffix has letters that the legend does not know."""
    names = set()
    for node in ast.walk(ast.parse(source)):
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
    for node in ast.walk(ast.parse(source)):
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


def tied_to_a_machine(text: str) -> list[str]:
    """Absolute paths, and hosts that are no paper's."""
    hosts = [host for host in HOST.findall(text) if host not in HOSTS]
    return hosts + MACHINE.findall(text)


@each_module
def test_axis_letters_are_those_of_the_legend(path):
    assert strange_letters(path.read_text(encoding="utf-8")) == set()


def test_the_legend_explains_every_letter():
    explained = re.findall(r"^\| ([A-Z]) +\|", axes.__doc__ or "", flags=re.MULTILINE)
    assert sorted(explained) == sorted(axes.LEGEND)


@each_module
def test_every_module_says_what_it_means(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@each_file
def test_no_file_is_long(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


@each_module
def test_nothing_is_unpickled(path):
    assert unsafe(path.read_text(encoding="utf-8")) == []


@each_file
def test_nothing_names_a_machine(path):
    assert tied_to_a_machine(path.read_text(encoding="utf-8")) == []


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
    for text in ("see https://example.com/x", "open('/home/someone/data')"):
        assert tied_to_a_machine(text)
    assert not tied_to_a_machine("https://arxiv.org/abs/1706.03762, 'a/home/b', ./tmp/x")
