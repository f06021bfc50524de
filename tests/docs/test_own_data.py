"""The recipes and commands of docs/own-data.md work, on files of the shape it describes."""

import re
from pathlib import Path

import pytest

from verb import run_line

PAGE = (Path(__file__).parents[2] / "docs" / "own-data.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"`([\w-]+\.toml)`:\n\n```toml\n(.*?)^```", PAGE, re.M | re.S))
COMMANDS = re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S)
SHORT = ("--set", "train.steps=2", "--set", "train.precision=fp32", "--device", "cpu")
SUBJECTS = "The old man", "A young woman", "My sister", "The dog", "Angela", "Our teacher"
VERBS = "reads", "sees", "finds", "likes", "takes"
OBJECTS = "a book", "the film", "an apple", "the letter", "Paris"


def files(folder: Path) -> None:
    """Data for the three tasks."""
    texts = [f"{s} {v} {o}." for s in SUBJECTS for v in VERBS for o in OBJECTS]
    pairs = [(text, text.upper()) for text in texts]
    for name, some in (("train", pairs), ("dev", pairs[::10]), ("test", pairs[5::10])):
        (folder / f"{name}.en").write_text("".join(f"{source}\n" for source, _ in some))
        (folder / f"{name}.de").write_text("".join(f"{target}\n" for _, target in some))
        tagged = [
            "".join(f"{w} {'B-LOC' if w == 'Paris' else 'O'}\n" for w in text[:-1].split())
            for text, _ in some
        ]
        (folder / f"{name}.conll").write_text("\n".join(tagged))
    (folder / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    rows = [f'"{text}, yes",{"good" if "dog" in text else "bad"}\n' for text in texts]
    (folder / "reviews.csv").write_text("text,label\n" + "".join(rows))
    (folder / "test.csv").write_text("text,label\n" + "".join(rows[::5]))


def small(text: str) -> str:
    """A recipe or code with fewer subwords, and a model that is a fraction of a laptop's."""
    text = text.replace("8000", "400").replace(
        'size = "laptop"', 'size = "laptop"\nchange.width = 32'
    )
    return text.replace('"size": "laptop"', '"size": "laptop", "change": {"width": 32}')


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the data and the recipes."""
    folder = tmp_path_factory.mktemp("own")
    for name in ("mine", "reviews"):
        (folder / name).mkdir()
        files(folder / name)
    (folder / "reviews/reviews.csv").rename(folder / "reviews/train.csv")
    pairs = (folder / "mine/pairs.tsv").read_text()
    (folder / "pairs.tsv").write_text(f"source\ttarget\n{pairs}")
    for name, recipe in RECIPES.items():
        (folder / name).write_text(small(recipe))
    return folder


def test_recipes_are_short():
    assert len(RECIPES) == 4
    assert all(recipe.count("\n") <= 15 for recipe in RECIPES.values())


@pytest.mark.slow
@pytest.mark.parametrize("block", COMMANDS, ids=["new", "pairs", "translation", "labels", "tags"])
def test_commands(desk, monkeypatch, block):
    monkeypatch.chdir(desk)
    for command in block.splitlines():
        done = run_line(command, *(SHORT if command.startswith("regard train") else ()))
        assert done.exit_code == 0 and done.output, done.output


def test_the_same_from_python(tmp_path, monkeypatch):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    texts = [f"{s} {v} {o}." for s in SUBJECTS for v in VERBS for o in OBJECTS]
    pairs = [(text, text.upper()) for text in texts]
    short = small(code).replace('"steps": 5000', '"steps": 2')
    short = short.replace('"dev": 200', '"dev": 20').replace(
        '"runs/mine")', '"runs/mine", device="cpu")'
    )
    names = {"pairs": pairs, "others": pairs[:5]}
    exec(compile(short, "own-data.md", "exec"), names)
    assert names["model"].paper.name == "Transformer"
