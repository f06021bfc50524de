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

# Every case runs in a child of one process, which has imported torch.
IMPORTED = """
import json, os, sys, torch

for code in json.load(sys.stdin):
    if os.fork() == 0:
        exec(code, {})
        prefix = "regard.models.papers."
        papers = {name[len(prefix):].split(".")[0] for name in sys.modules if prefix in name}
        print(*sorted(papers), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
"""
FOUND = """
from regard.models.papers import KINDS, PAPERS, paper
from regard.objectives.by_name import OBJECTIVES
from regard.tasks.components import TASKS
"""


def papers_after(*codes: str) -> list[str]:
    """Papers that a process has imported after each of some pieces of code."""
    command, asked = [sys.executable, "-c", IMPORTED], json.dumps(codes)
    done = subprocess.run(command, input=asked, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()


def test_a_paper_is_imported_with_those_it_builds_on_alone(tmp_path):
    write_bert(tmp_path / "bert")
    regard.load(tmp_path / "bert", "cpu").save(tmp_path / "own", "regard")
    loaded = "import regard; model = regard.load({!r}, 'cpu')"
    cases = {
        "import regard": "",
        "from regard.models.papers import bert": "bert",
        "import regard.models.papers as papers; papers.bert.BASE": "bert",
        FOUND + "paper('RoBERTa'); KINDS['TaskTokens']": "bert ernie roberta",
        FOUND + "[*PAPERS, *KINDS, *OBJECTIVES, *TASKS]; KINDS['Stack']; KINDS.get('sys:path')": "",
        FOUND + "import regard.api; TASKS['classify'], OBJECTIVES['masked-lm']": "",
        loaded.format(str(tmp_path / "bert")): "bert",
        loaded.format(str(tmp_path / "own")): "bert",
    }
    all_papers = "from regard.models.papers import LINEAGE"
    *found, all_found = papers_after(*cases, all_papers)
    assert dict(zip(cases, found, strict=True)) == cases
    modules = {entry.module.split(".")[3] for entry in map(PAPERS.entry, PAPERS)}
    assert {*all_found.split()} == modules and len(modules) == 41


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
