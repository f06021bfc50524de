"""Tiny jobs of every kind an encoder can be tuned for: all of them are about owls."""

import json
import random
from pathlib import Path
from typing import Any

import torch

from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.label_heads import MLMHead
from regard.models.papers import bert
from regard.text.tokenizers.encoder_tokenizer import train_encoder_tokenizer
from small import WORDS

RECIPE = """
task = "{task}"

[about]
title = "owls"
command = "regard train owls.toml"
hardware = "any"
minutes = 0.1

[data]
train = {{ {reader}, file = "train.{ending}"{options} }}
dev = {{ {reader}, file = "dev.{ending}"{options} }}
test = {{ {reader}, file = "test.{ending}"{options} }}

[text]
vocab = 90
lower = true

{tables}

[model]
paper = "bert"
size = "tiny"

[model.change]
width = 16
inner = 32
depth = 2
heads = 2
longest = 48
init_std = 0.2
"stack.dropout" = 0.1
attention_dropout = 0.0

[batches]
tokens = 512
rows = 16
longest = 40
mixed = true

[optimiser]
kind = "adamw"
rate = 0.01
schedule = "constant"
warmup = 3
betas = [0.9, 0.999]
eps = 1e-8
decay = 0.01
clip = 1.0

[train]
steps = 12
smoothing = 0.0
precision = "fp32"
metric = "{metric}"
evaluate_every = 6
checkpoint_every = 3
report_every = 1
"""

TSV = ', options = { texts = ["text"], label = "label" }'
SEVERAL = ', options = { texts = ["text"], label = "label", separator = "," }'
PAIRS = ', options = { texts = ["text", "other"], label = "label" }'
KINDS: dict[str, dict[str, str]] = {
    "one": {"task": "classify", "reader": "tsv", "options": TSV, "metric": "accuracy"},
    "pairs": {"task": "classify", "reader": "csv", "options": PAIRS, "metric": "Matthews"},
    "several": {
        "task": "classify",
        "reader": "tsv",
        "options": SEVERAL,
        "tables": '[labels]\nkind = "several"',
        "metric": "micro-F1",
    },
    "number": {
        "task": "classify",
        "reader": "tsv",
        "options": TSV,
        "tables": '[labels]\nkind = "number"',
        "metric": "Pearson",
    },
    "tags": {
        "task": "tag",
        "reader": "CoNLL",
        "ending": "conll",
        "tables": '[labels]\nscheme = "BIOES"',
        "metric": "F1",
    },
    "numbers": {
        "task": "tag",
        "reader": "jsonl",
        "tables": '[labels]\nkind = "number"',
        "metric": "Pearson",
    },
    "roles": {
        "task": "roles",
        "reader": "jsonl",
        "tables": '[roles]\nmark = "segment"',
        "metric": "F1",
    },
    "coreference": {
        "task": "coreference",
        "reader": "jsonl",
        "tables": "[coreference]\nwidest = 2\nantecedents = 4\nhidden = 16\nsegment = 40",
        "metric": "CoNLL-F1",
    },
    "answer": {
        "task": "answer",
        "reader": "SQuAD",
        "ending": "json",
        "tables": "[answers]\nstride = 8\nquestion = 8\nlongest = 3",
        "metric": "exact match",
    },
    "choose": {"task": "choose", "reader": "SWAG", "ending": "csv", "metric": "accuracy"},
}
OTHERS = [word for word in WORDS if word != "owl"]


def write_tuning(folder: Path, kind: str, train: int = 96, held_out: int = 24) -> Path:
    """Files of that kind, with a recipe beside them."""
    draw = random.Random(3)
    how = {"tables": "", "options": "", **KINDS[kind]}
    how.setdefault("ending", how["reader"])
    for name, count in (("train", train), ("dev", held_out), ("test", held_out)):
        content = WRITERS[kind](draw, count)
        (folder / f"{name}.{how['ending']}").write_text(content)
    recipe = folder / "owls.toml"
    recipe.write_text(RECIPE.format(**{**how, "reader": f'reader = "{how["reader"]}"'}))
    return recipe


def write_start(folder: Path) -> Path:
    """An encoder to begin with: it fills blanks and has no pooler."""
    text = train_encoder_tokenizer([" ".join(WORDS)], "wordpiece", 90, longest=48)
    sizes = {"vocab": len(text.words), "width": 16, "inner": 32, "longest": 48, "init_std": 0.2}
    facts = change(bert.TINY, pool=None, output_heads=(MLMHead(),), **sizes)
    torch.manual_seed(5)
    folders.write(folder, folders.LoadedModel(bert.PAPER, facts, facts.build(), text), "hf")
    return folder


def _words(draw: random.Random, owls: int) -> list[str]:
    words = draw.choices(OTHERS, k=draw.randint(2, 6)) + ["owl"] * owls
    draw.shuffle(words)
    return words


def _table(lines: list[tuple[Any, ...]], between: str, names: str = "text label") -> str:
    rows = [tuple(names.split()), *lines]
    return "".join(between.join(map(str, row)) + "\n" for row in rows)


def _one(draw: random.Random, count: int) -> str:
    """Is there an owl?"""
    lines = [(" ".join(_words(draw, i % 2)), ("no", "owl")[i % 2]) for i in range(count)]
    return _table(lines, "\t")


def _pairs(draw: random.Random, count: int) -> str:
    """Is there an owl in the second text?"""
    lines = [
        (" ".join(_words(draw, 0)), " ".join(_words(draw, i % 2)), ("no", "owl")[i % 2])
        for i in range(count)
    ]
    return _table(lines, ",", "text other label")


def _several(draw: random.Random, count: int) -> str:
    """Which of these are there?"""
    lines = []
    for i in range(count):
        words = _words(draw, i % 2)
        lines.append((" ".join(words), ",".join(one for one in ("cow", "owl") if one in words)))
    return _table(lines, "\t")


def _number(draw: random.Random, count: int) -> str:
    """Is there an owl, in numbers?"""
    return _table([(" ".join(_words(draw, i % 2)), i % 2 - 0.5) for i in range(count)], "\t")


def _tags(draw: random.Random, count: int) -> str:
    """Owls are birds."""
    sentences = [_words(draw, 1 + i % 2) for i in range(count)]
    lines = [[f"{one} {'I-BIRD' if one == 'owl' else 'O'}" for one in words] for words in sentences]
    return "".join("\n".join(one) + "\n\n" for one in lines)


def _numbers(draw: random.Random, count: int) -> str:
    """How high each is."""
    sentences = [_words(draw, 1) for _ in range(count)]
    records = [
        {"words": words, "tags": [1.0 if one == "owl" else 0.0 for one in words]}
        for words in sentences
    ]
    return "".join(json.dumps(one) + "\n" for one in records)


def _roles(draw: random.Random, count: int) -> str:
    """Owls are predicates, and what stands before them is an argument."""
    records = []
    for i in range(count):
        words = ["dog", *_words(draw, i % 2)]
        owls = [place for place, word in enumerate(words) if word == "owl"]
        frames = [{"index": place, "args": [[0, place - 1, "A0"]]} for place in owls]
        records.append({"tokens": words, "predicates": frames})
    return "".join(json.dumps(one) + "\n" for one in records)


def _coreference(draw: random.Random, count: int) -> str:
    """The owls of a document are one."""
    records = []
    for _ in range(count):
        sentences = [_words(draw, 1) for _ in range(2)]
        words = [word for sentence in sentences for word in sentence]
        owls = [[place, place] for place, word in enumerate(words) if word == "owl"]
        records.append({"sentences": sentences, "clusters": [owls]})
    return "".join(json.dumps(one) + "\n" for one in records)


def _answer(draw: random.Random, count: int) -> str:
    """Where is the owl?"""
    paragraphs = []
    for i in range(count):
        context = " ".join(_words(draw, 1))
        answer = {"text": "owl", "answer_start": context.index("owl")}
        asked = {"id": f"q{i}", "question": "who?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [asked]})
    return json.dumps({"data": [{"title": "owls", "paragraphs": paragraphs}]})


def _choose(draw: random.Random, count: int) -> str:
    """Which has an owl?"""
    lines = []
    for i in range(count):
        endings = [" ".join(_words(draw, int(i % 4 == one))) for one in range(4)]
        lines.append((" ".join(_words(draw, 0)), "there is", *endings, i % 4))
    return _table(lines, ",", "sent1 sent2 ending0 ending1 ending2 ending3 label")


WRITERS = {
    "one": _one,
    "pairs": _pairs,
    "several": _several,
    "number": _number,
    "tags": _tags,
    "numbers": _numbers,
    "roles": _roles,
    "coreference": _coreference,
    "answer": _answer,
    "choose": _choose,
}
