"""Papers and facts are found by name, and importing one paper imports no other."""

import json
import subprocess
import sys
from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import walk_packages

import pytest

import regard
from bert_folders import write_bert
from regard.models import papers
from regard.models.papers import KINDS, LINEAGE, PAPERS, bert, paper, paper_of_folder

IMPORTED = """
import sys
{}
prefix = "regard.models.papers."
names = {{name[len(prefix):].split(".")[0] for name in sys.modules if name.startswith(prefix)}}
print(*sorted(names), "torch" if "torch" in sys.modules else "")
"""
FOUND = """
from regard.models.papers import KINDS, PAPERS, paper
from regard.objectives.by_name import OBJECTIVES
from regard.tasks.components import TASKS
"""


def papers_after(code: str) -> str:
    """Papers that a fresh process has imported after these lines, and torch."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED.format(code)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import regard", ""),
        pytest.param("from regard.models.papers import bert", "bert torch", marks=pytest.mark.slow),
        ("import regard.models.papers as papers; papers.bert.BASE", "bert torch"),
        (FOUND + "paper('RoBERTa'); KINDS['TaskTokens']", "bert ernie roberta torch"),
        (
            FOUND + "[*PAPERS, *KINDS, *OBJECTIVES, *TASKS]; KINDS['Stack']; KINDS.get('sys:path')",
            "torch",
        ),
        pytest.param(
            FOUND + "import regard.api; TASKS['classify'], OBJECTIVES['masked-lm']",
            "torch",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_paper_is_imported_with_those_it_builds_on_alone(code, expected):
    assert papers_after(code) == expected


def test_loading_a_folder_of_bert_imports_bert_alone(tmp_path):
    write_bert(tmp_path / "bert")
    code = "import regard; model = regard.load({!r}, 'cpu')"
    assert papers_after(code.format(str(tmp_path / "bert"))) == "bert torch"
    regard.load(tmp_path / "bert", "cpu").save(tmp_path / "own", "regard")
    assert papers_after(code.format(str(tmp_path / "own"))) == "bert torch"


def test_what_needs_all_papers_imports_all():
    modules = {entry.module.split(".")[3] for entry in map(PAPERS.entry, PAPERS)}
    found = papers_after("from regard.models.papers import LINEAGE").split()
    assert {*found} == {*modules, "torch"} and len(modules) == 41


def test_the_catalogue_says_what_the_papers_say():
    assert [*PAPERS] == [entry.key for entry in LINEAGE] and (*PAPERS.values(),) == LINEAGE
    for key, entry in zip(PAPERS, LINEAGE, strict=True):
        model_type = entry.formats["hf"].model_type if "hf" in entry.formats else ""
        assert PAPERS.entry(key).about == model_type
        assert import_module(PAPERS.entry(key).module).PAPER is PAPERS[key] is paper(entry.name)
    assert regard.LINEAGE == LINEAGE and papers.bert is bert
    with pytest.raises(AttributeError, match=r"'regard\.models\.papers' has no attribute 'brt'"):
        _ = papers.brt  # type: ignore[attr-defined]


def test_every_paper_of_the_folder_is_in_the_catalogue():
    modules = {f"{papers.__name__}.{module.name}" for module in walk_packages(papers.__path__)}
    assert modules == {PAPERS.entry(name).module for name in PAPERS}


def classes_in(value: object) -> set[type]:
    """The classes of all facts in a value."""
    if isinstance(value, tuple):
        return {kind for member in value for kind in classes_in(member)}
    if not is_dataclass(value):
        return set()
    return {type(value), *(kind for part in vars(value).values() for kind in classes_in(part))}


def test_the_facts_of_every_paper_have_a_name():
    for entry in LINEAGE:
        facts = [*entry.sizes.values(), *(form.head for form in entry.heads)]
        for kind in classes_in((*facts, *(form.pool for form in entry.heads if form.pool))):
            assert KINDS[kind.__name__] is kind
    for name, kind in KINDS.items():
        assert kind.__name__ == name and KINDS.entry(name).module == kind.__module__


def test_a_file_cannot_name_a_module(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("Value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    regard.load(write_bert(tmp_path / "bert"), "cpu").save(tmp_path / "own", "regard")
    path = tmp_path / "own" / "config.json"
    config = json.loads(path.read_text())
    for name in ("planted:Value", "planted.Value", "planted"):
        for changes, message in (
            ({"facts": {**config["facts"], "is": name}}, "facts of unknown class"),
            ({"paper": name}, "no paper is called"),
        ):
            path.write_text(json.dumps(config | changes))
            with pytest.raises(regard.BadInput, match=message):
                regard.load(tmp_path / "own", "cpu")
        with pytest.raises(regard.BadInput, match=f"model_type '{name}' is not supported"):
            paper_of_folder({"model_type": name}, "config.json")
    assert "planted" not in sys.modules
    assert import_module("planted").Value == 1  # it could be imported
