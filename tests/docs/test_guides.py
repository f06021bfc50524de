"""Recipes and commands of docs/sentences.md, docs/roles.md, and of docs/pretraining.md for own
text, work on small files of the shapes that the pages describe.
"""

import json
import re
from pathlib import Path

import pytest
import torch

from small_labels import write_owls
from small_tuning import write_start
from verb import run_line

DOCS = Path(__file__).parents[2] / "docs"
SHORT = ("--set", "train.steps=2", "--set", "train.precision=fp32", "--device", "cpu")
THINGS = "password", "parcel", "card", "refund", "voucher", "address", "account", "order"
QUESTIONS = [f"Where is my {thing}, and {what}?" for thing in THINGS for what in ("when", "why")]


def guide(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S)
    return [block for kind, block in found if kind == language]


def give(block: str) -> None:
    for command in block.splitlines():
        done = run_line(command, *(SHORT if command.startswith("regard train") else ()))
        assert done.exit_code == 0 and done.output, f"{command}\n{done.output}"


def test_sentences(tmp_path, monkeypatch):
    page = guide("sentences.md")
    (recipe,), (train, search), (code,) = (blocks(page, k) for k in ("toml", "console", "python"))
    monkeypatch.chdir(tmp_path)
    write_start(Path("all-MiniLM-L6-v2"))
    rows = [f'"{question}","See {number}, please."\n' for number, question in enumerate(QUESTIONS)]
    Path("faq.csv").write_text("question,answer\n" + "".join(rows))
    Path("sentences.toml").write_text(recipe.replace("longest = 128", "longest = 48"))
    give(train)
    for name in ("queries", "corpus"):
        records = [{"_id": f"{name}-{n}", "text": text} for n, text in enumerate(QUESTIONS)]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    Path("qrels.tsv").write_text("query\tdocument\tscore\nqueries-3\tcorpus-3\t1\n")
    Path("questions.txt").write_text("".join(f"{question}\n" for question in QUESTIONS))
    give(search)
    names: dict = {}
    exec(compile(code, "sentences.md", "exec"), names)
    assert names["vectors"].shape == (1, 16) and names["nearest"][0][0].item in (0, 1)


def test_own_text(tmp_path, monkeypatch):
    page = guide("pretraining.md").split("## BERT in four commands")[0]
    (recipe,), (first, second) = blocks(page, "toml"), blocks(page, "console")
    monkeypatch.chdir(tmp_path)
    stories = "".join(f"{question}\nThe sea is quiet.\n\n" for question in QUESTIONS)
    Path("stories.txt").write_text(stories)
    Path("other.txt").write_text("The sea is quiet.\n")
    give(first)
    Path("reviews").mkdir()
    rows = [f'"{question}",{"ab"[n % 2]}\n' for n, question in enumerate(QUESTIONS)]
    Path("reviews/train.csv").write_text("text,label\n" + "".join(rows))
    Path("bert.toml").write_text(recipe)
    give(second)


def test_roles(tmp_path, monkeypatch):
    page = guide("roles.md")
    (code,), (recipe,), (commands,) = (blocks(page, k) for k in ("python", "toml", "console"))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "roles.md", "exec"), {})
    Path("eaters.toml").write_text(recipe)
    give(commands)


def test_comparing(tmp_path, monkeypatch, capsys):
    (code,) = blocks(guide("comparing.md"), "python")
    write_owls(tmp_path).rename(tmp_path / "reviews.toml")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(code, "comparing.md", "exec"), names)
    printed = capsys.readouterr().out
    assert (
        "2 runs" in printed
        and "accuracy" in printed
        and r"\begin{tabular}" in printed
        and "trial-001" in printed
    )
    assert printed.splitlines()[-1] == str(names["search"].model)
    assert (names["search"].model / "config.json").is_file()


@pytest.mark.parametrize("name", ["notebooks", "sentences", "comparing"])
def test_is_short(name):
    assert len(guide(f"{name}.md").splitlines()) <= 95


def test_a_score_of_ones_own():
    (code,) = blocks(guide("attend.md"), "python")
    names: dict = {}
    exec(compile(code, "attend.md", "exec"), names)
    x, weights = names["x_THK"][:, 0], names["tape"].records["weights"][:, 0]
    for row, tokens in zip(weights, (x[:3], x[3:]), strict=True):
        n = len(tokens)
        kernel = torch.exp(-torch.cdist(tokens, tokens).square() / 2).tril()
        torch.testing.assert_close(row[:n, :n], kernel / kernel.sum(1, keepdim=True))
        assert not row[:, n:].any()
    first = weights[0] @ x[:3]
    torch.testing.assert_close(names["mixed_THK"][:3, 0], first)
