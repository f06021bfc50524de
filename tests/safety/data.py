"""Tiny data of every kind that a recipe can read, always the same, written by the tool itself."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

NAMES = "ada bit cow dog elf fox gnu hen ibis jay kid lion mole newt owl pig rat sow"
WORDS = NAMES.split()
OTHERS = [word for word in WORDS if word != "owl"]
ANIMALS = {
    "water": ["seal", "otter", "heron", "salmon", "beaver", "swimming"],
    "wood": ["badger", "squirrel", "cuckoo", "marten", "hedgehog", "climbing"],
    "stone": ["ibex", "eagle", "marmot", "raven", "lizard", "sunbathing"],
}
PARTS = (("train", 96), ("dev", 16), ("test", 16))


def write_data(folder: Path) -> None:
    """All files, under ``folder``, in a folder for each kind."""
    for kind, write in WRITERS.items():
        (folder / kind).mkdir(parents=True)
        draw = random.Random(f"safety net: {kind}")
        for part, count in PARTS:
            for ending, content in write(draw, count).items():
                (folder / kind / f"{part}.{ending}").write_text(content)


def _words(draw: random.Random, owls: int) -> list[str]:
    words = draw.choices(OTHERS, k=draw.randint(2, 6)) + ["owl"] * owls
    draw.shuffle(words)
    return words


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _table(names: str, rows: Sequence[Sequence[Any]], between: str = "\t") -> str:
    return _lines([between.join(map(str, row)) for row in (names.split(), *rows)])


def _pairs(draw: random.Random, count: int) -> dict[str, str]:
    """The target is the source in reverse order; the links say so."""
    source = [draw.choices(WORDS, k=draw.randint(1, 7)) for _ in range(count)]
    links = [" ".join(f"{i}-{len(one) - 1 - i}" for i in range(len(one))) for one in source]
    return {
        "src": _lines([" ".join(one) for one in source]),
        "tgt": _lines([" ".join(one[::-1]) for one in source]),
        "links": _lines(links),
    }


def _documents(draw: random.Random, count: int) -> dict[str, str]:
    """Documents that stay with one kind of animal, whose words come two by two."""
    blocks = []
    for _ in range(count // 4):
        words = ANIMALS[draw.choice(sorted(ANIMALS))]
        pairs = [" ".join(words[i : i + 2]) for i in (0, 2, 4)]
        sentences = [" ".join(draw.choices(pairs, k=draw.randint(1, 3))) for _ in range(12)]
        blocks.append(_lines([f"{one} and the {draw.choice(WORDS)}." for one in sentences]))
    return {"txt": "\n".join(blocks)}


def _one(draw: random.Random, count: int) -> dict[str, str]:
    """Is there an owl? There is one in every third text, so that classes are not balanced."""
    owls = [int(i % 3 == 0) for i in range(count)]
    return {"tsv": _table("text label", [(" ".join(_words(draw, n)), n) for n in owls])}


def _two(draw: random.Random, count: int) -> dict[str, str]:
    """Is there an owl in the second text?"""
    rows = [
        (" ".join(_words(draw, 0)), " ".join(_words(draw, i % 2)), ("no", "yes")[i % 2])
        for i in range(count)
    ]
    return {"csv": _table("text other label", rows, ",")}


def _several(draw: random.Random, count: int) -> dict[str, str]:
    """Which of these are there?"""
    texts = [_words(draw, i % 2) for i in range(count)]
    rows = [(" ".join(one), ",".join(w for w in ("cow", "owl") if w in one)) for one in texts]
    return {"tsv": _table("text label", rows)}


def _number(draw: random.Random, count: int) -> dict[str, str]:
    """How many owls, about."""
    owls = [i % 3 for i in range(count)]
    return {"tsv": _table("text label", [(" ".join(_words(draw, n)), n - 0.5) for n in owls])}


def _tags(draw: random.Random, count: int) -> dict[str, str]:
    """Owls are birds."""
    texts = [_words(draw, 1 + i % 2) for i in range(count)]
    lines = [[f"{w} {'I-BIRD' if w == 'owl' else 'O'}" for w in one] for one in texts]
    return {"conll": "".join(_lines([*one, ""]) for one in lines)}


def _heights(draw: random.Random, count: int) -> dict[str, str]:
    """How high each word is."""
    texts = [_words(draw, 1) for _ in range(count)]
    records = [{"words": one, "tags": [float(w == "owl") for w in one]} for one in texts]
    return {"jsonl": _lines([json.dumps(one) for one in records])}


def _questions(draw: random.Random, count: int) -> dict[str, str]:
    """Where is the owl?"""
    paragraphs = []
    for i in range(count):
        context = " ".join([*_words(draw, 0), *_words(draw, 1), *_words(draw, 0)])
        answer = {"text": "owl", "answer_start": context.index("owl")}
        asked = {"id": f"q{i}", "question": "who is it?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [asked]})
    return {"json": json.dumps({"data": [{"title": "owls", "paragraphs": paragraphs}]})}


def _choices(draw: random.Random, count: int) -> dict[str, str]:
    """Which ending has an owl?"""
    rows = []
    for i in range(count):
        endings = [" ".join(_words(draw, int(i % 4 == one))) for one in range(4)]
        rows.append((" ".join(_words(draw, 0)), "there is", *endings, i % 4))
    return {"csv": _table("sent1 sent2 ending0 ending1 ending2 ending3 label", rows, ",")}


WRITERS: dict[str, Callable[[random.Random, int], dict[str, str]]] = {
    "pairs": _pairs,
    "documents": _documents,
    "one": _one,
    "two": _two,
    "several": _several,
    "number": _number,
    "tags": _tags,
    "heights": _heights,
    "questions": _questions,
    "choices": _choices,
}
