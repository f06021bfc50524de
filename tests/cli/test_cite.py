"""``regard cite``: BibTeX entries from the values of papers."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import regard
from regard.experiments.citations import OWN, bibtex, paper_entry
from regard.experiments.paper_records import lineage
from regard.models.papers import LINEAGE
from small_gpt import write_gpt2
from verb import run

ROOT = Path(__file__).parents[2]
BERT = """@misc{devlin2018bert,
  title = {{BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding}},
  author = {Jacob Devlin and Ming-Wei Chang and Kenton Lee and Kristina Toutanova},
  year = {2018},
  eprint = {1810.04805},
  archivePrefix = {arXiv},
  url = {https://arxiv.org/abs/1810.04805},
}
"""


def test_a_paper():
    assert run("cite", "bert").stdout == run("cite", "BERT:large").stdout == BERT


def test_regard_has_a_name():
    assert run("cite", "regard").stdout == run("cite").stdout
    assert run("cite", "bert", "regard", "bert").stdout == f"{BERT}\n{run('cite').stdout}"


@pytest.mark.parametrize("paper", lineage().values(), ids=lambda paper: paper.name)
def test_every_paper_has_what_an_entry_needs(paper):
    names = paper.authors.split(", ")
    assert all(re.fullmatch(r"[^\W\d_].*[^\W\d_]", name) and name.strip() == name for name in names)
    assert all(" " in name for name in names if name != "others")
    assert "others" not in names or names[5:] == ["others"]
    entry = paper_entry(paper)
    assert re.fullmatch(r"[^\W\d_]+\d{4}\w+", entry["key"]) and entry["key"].islower()
    assert entry.get("eprint", entry.get("howpublished"))
    text = bibtex(entry)
    assert text.count("{") == text.count("}") and not re.search(r"(?<!\\)[&%#]", text)


def test_keys_differ_and_authors_are_those_of_the_values():
    keys = [paper_entry(paper)["key"] for paper in lineage().values()]
    assert len(set(keys)) == len(keys)
    assert [(paper.key, paper.authors) for paper in LINEAGE] == [
        (paper.key, paper.authors) for paper in lineage().values()
    ]


def test_papers_that_are_called_after_their_first_author():
    for name in ("Cho", "Sutskever", "Zaremba", "Bahdanau", "Luong", "Dai", "Ma", "Gehring", "Lin"):
        first, *_ = lineage()[name.lower()].authors.split(", ")
        assert first.split()[-1] == name


def test_models_of_regard_and_of_hugging_face(small_run, tmp_path):
    write_gpt2(tmp_path / "gpt2")
    text = run("cite", small_run / "run" / "model", tmp_path / "gpt2", "Transformer").stdout
    assert re.findall(r"@misc\{(\w+)", text) == ["vaswani2017attention", "radford2019language"]
    assert "howpublished = {OpenAI, 2019}" in text


def test_regard_itself():
    assert run("cite").stdout == bibtex(OWN) + "\n"
    assert f"version = {{{regard.__version__}}}" in run("cite").stdout
    assert json.loads(run("cite", "--json").stdout) == OWN


def test_the_citation_file_agrees():
    text = (ROOT / "CITATION.cff").read_text()
    fields = dict(re.findall(r'^([\w-]+): "?(.*?)"?$', text, re.M))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert fields["cff-version"] == "1.2.0" and fields["type"] == "software"
    assert fields["version"] == regard.__version__ and fields["license"] == project["license"]
    assert fields["title"] == OWN["title"]
    assert f"{{{re.search(r'- name: (.*)', text)[1]}}}" == OWN["author"]


def test_unknown_names_are_one_line(tmp_path):
    (line,) = run("cite", "BRET", code=2).stderr.splitlines()
    assert line == "regard: no paper is called 'BRET'; did you mean 'bert'?"
    (line,) = run("cite", tmp_path, code=2).stderr.splitlines()
    assert "not a model folder" in line


@pytest.mark.skipif(shutil.which("bibtex") is None, reason="bibtex is not installed")
def test_bibtex_reads_all_entries(tmp_path):
    (tmp_path / "all.bib").write_text(run("cite", *lineage()).stdout)
    (tmp_path / "all.aux").write_text("\\citation{*}\n\\bibstyle{plain}\n\\bibdata{all}\n")
    done = subprocess.run(["bibtex", "all"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
