"""Write the frozen folders of ``frozen_folders.py``: models, half-done runs, a stopped output file.

It runs at the base commit of a refactoring alone: ``python tests/safety_net.py freeze FOLDER``.
Models are tiny, with random weights that depend on names; ``transformers`` writes those of Hugging
Face. What cannot be written small (published weights, tokenizers of 30,000 pieces) is left to
``tests/reference``.
"""

import json
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import regard
from hub_folders import FAMILIES, FolderForm, write_folder
from regard.experiments.bulk.line_source import LineSource
from regard.experiments.bulk.result_file import SavedProgress
from regard.models.facts import paths
from regard.models.folders.loaded_model import LoadedModel
from regard.models.label_heads import LabelHead
from regard.objectives.by_name import OBJECTIVES
from safety import frozen_folders as frozen
from safety.listings import write_listings
from safety.marian import write_marian
from safety.weights import set_weights
from small import WORDS
from small_bert import small_bert
from small_documents import KINDS
from small_elmo import write_elmo
from small_images import corners, small_vit

SIZES: dict[str, Any] = {
    **{"width": 4, "heads": 2, "inner": 4, "depth": 2, "vocab": 20, "embedding": 4},
    **{"last_width": 4, "longest": 12, "maxout": 4, "cells": 6, "filters": ((1, 2), (2, 3))},
    **{"patch_size": 4, "image_size": 8, "character_size": 3, "embedding_size": 6},
}
OWN_SIZES: dict[str, dict[str, Any]] = {
    "cove": {"target.width": 8},  # as wide as both directions of the source
    "ma": {"embedding": 9},  # 4 of words beside 5 of characters
}
DEEP = ("taglm", "transformer", "bert", "gpt-2", "albert", "xlnet", "luong")  # of two layers
IDS = [[5, 6, 7, 3], [9, 4]]
PAIRS = [[[5, 6, 7], [8, 3]], [[9, 4], [5, 5, 6]]]
TEXTS = ["the old sailor", "a storm came, and the cat"]
LARGE_TEXT = ("unigram", "xlnet-unigram", "marian")  # SentencePiece's table of Unicode: 500 kB
PAIRED: dict[str, Any] = {"pairs": {"logits": True, "score": True}}
QUESTIONS = [["who mended his nets?", "the old sailor mended his nets before the storm"]]
CHOICES = [["the old sailor", ["mended his nets", "read a cat"]]]
ENGLISH = ["cow dog owl", "sow rat pig owl newt"]


def freeze(folder: Path) -> None:
    """Everything, into a folder that is not there."""
    torch.set_num_threads(1)
    os.environ["COLUMNS"] = "100"
    frozen.FROZEN, frozen.MODELS = folder, folder / "models"
    frozen.RUNS, frozen.PARTIAL = folder / "runs", folder / "partial"
    folder.mkdir(parents=True)
    write_images(folder / "images")
    write_models(folder / "models")
    write_runs(folder / "runs")
    write_partial(folder / "partial", folder / "models")
    write_listings(folder)


def write_images(folder: Path) -> None:
    """Two small images."""
    from PIL import Image

    folder.mkdir()
    for number, pixels in enumerate(corners(2, 0)[0]):
        Image.fromarray(pixels).save(folder / f"{number}.png")


def write_models(folder: Path) -> None:
    """A folder for each family and format, with its answers beside it."""
    folder.mkdir()
    for paper in regard.LINEAGE:
        if paper.key not in ("elmo", "vit", "deit"):  # these read no ids of tokens
            write_paper(folder / f"regard-{paper.key}", paper)
        if paper.key in ("albert", "xlnet"):
            out = folder / f"hf-{paper.key}-ids"
            regard.load(folder / f"regard-{paper.key}", "cpu").save(out, "hf")
            answered(out, {"encode": IDS})
    for name, family in FAMILIES.items():
        if family.kind in LARGE_TEXT or name == "spanbert-base-cased":  # it is BERT's
            continue
        out = folder / f"hf-{name}"
        out.mkdir()
        write_folder(out, family, FolderForm())
        if family.kind:
            mask = "<mask>" if name == "roberta-base" else "[MASK]"
            answered(out, {"encode": TEXTS, "fill": [f"the {mask} sailor"]})
        else:
            answered(out, {"encode": ["0.png", "1.png"], "images": True})
    for kind in ("one", "several", "tags", "answer", "choose"):
        for form in ("regard", "hf") if kind in ("one", "tags") else ("regard",):
            out = folder / f"{form}-task-{kind}"
            write_task(out, kind, form)
            questions = {"answer": QUESTIONS, "choose": CHOICES}
            named = {"predict": questions[kind]} if kind in questions else {}
            answered(out, {"encode": TEXTS, **named, "pairs": {"predict": bool(named)}})
    write_data(folder)
    write_marian(folder / "hf-marian", folder / "train.src", folder / "train.tgt", "identity")
    for file in (path for path in folder.iterdir() if path.is_file() and path.suffix != ".json"):
        file.unlink()
    pairs = [[text, text] for text in ENGLISH]
    answered(folder / "hf-marian", {"encode": ENGLISH, "logits": pairs, "score": pairs, **PAIRED})
    images = {"encode": ["0.png", "1.png"], "images": True}
    vit = small_vit(seed=3)
    for form in ("timm", "regard"):
        vit.save(folder / f"{form}-vit", form)
        answered(folder / f"{form}-vit", images)
    elmo = write_elmo(folder / "elmo-elmo")
    answered(elmo, {"encode": TEXTS})
    regard.load(elmo, "cpu").save(folder / "regard-elmo")
    answered(folder / "regard-elmo", {"encode": TEXTS})
    write_sentence_transformer(folder / "st-bert", folder / "hf-bert-base-uncased")


def write_paper(folder: Path, paper: Any) -> None:
    """A small model of a paper, without tokenizer, with the heads of its objectives."""
    facts = next(iter(paper.sizes.values()))
    small = SIZES if paper.key in DEEP else SIZES | {"depth": 1}
    known = {path.split(".")[-1] for path, value in paths(facts) if value is not None}
    sizes = {name: size for name, size in small.items() if name in known}
    facts = regard.change(facts, **sizes | OWN_SIZES.get(paper.key, {}))
    pairs = "target" in facts.sides
    if not pairs:
        size = next(iter(paper.sizes))
        objectives = [
            OBJECTIVES[name].from_config(OBJECTIVES[name].config(**keys), 0.0)
            for name, keys in paper.pretraining_of(size).items()
            if name != "distillation"
        ]
        heads = [head for objective in objectives for head in objective.make_heads()]
        heads += [LabelHead(3)] if not heads and (paper.pool or facts.pool) else []
        facts = paper.fit_heads(facts.with_heads(*heads))
    torch.manual_seed(0)
    module = facts.build().eval()
    set_weights(module)
    regard.Model(LoadedModel(paper, facts, module)).save(folder)
    if pairs:
        answered(folder, {"encode": IDS, "logits": PAIRS, "score": PAIRS, **PAIRED})
    else:
        answered(folder, {"encode": IDS})


def write_task(folder: Path, kind: str, form: str) -> None:
    """A small BERT with a tokenizer and the head of a task."""
    stored = small_bert(kind)
    facts = regard.change(stored.facts, width=8, inner=8, depth=1, heads=2)
    module = facts.build().eval()
    set_weights(module)
    loaded = LoadedModel(stored.paper, facts, module, stored.tokenizer, stored.labels)
    regard.Model(loaded).save(folder, form)


def write_sentence_transformer(folder: Path, bert: Path) -> None:
    """A BERT with the files of sentence-transformers beside it."""
    shutil.copytree(bert, folder)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": number, "name": str(number), "path": place, "type": f"x.models.{kind}"}
        for number, (kind, place) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    (folder / "config_sentence_transformers.json").write_text("{}")
    answered(folder, {"encode": TEXTS})


def answered(folder: Path, inputs: dict[str, Any]) -> None:
    """Store the answers of a model, and which of its files come back when it is saved again."""
    model = regard.load(folder, "cpu")
    answers = {name: frozen.answer(model, name, inputs) for name in frozen.VERBS}
    refused = [name for name in frozen.VERBS if answers[name] is None]
    spelled = model.facts.encoder.ids_per_token and model.tokenizer is None
    assert bool(spelled) == ("encode" in refused), folder  # words with characters have no one id
    form = folder.name.split("-")[0].replace("st", "hf")
    again = folder.with_name(f".{folder.name}")
    model.save(again, form)
    before, after = frozen.files_of(folder), frozen.files_of(again)
    same = [
        name
        for name, path in before.items()
        if name in after and frozen.content_of(path) == frozen.content_of(after[name])
    ]
    weights = [name for name in before if name.endswith((".safetensors", ".hdf5"))]
    assert set(weights) <= set(same), folder
    shutil.rmtree(again)
    content = {
        "inputs": inputs,
        "format": form,
        "saved": sorted(after),
        "same": same,
        "refused": refused,
        "answers": {name: value for name, value in answers.items() if value is not None},
    }
    path = folder.with_name(f"{folder.name}.json")
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


ABOUT = """
[about]
title = "a frozen run"
command = "regard train recipe.toml"
hardware = "any"
minutes = 0.1
"""
TRAIN = """
[optimiser]
rate = 0.01
warmup = 3
[train]
steps = 8
smoothing = 0.0
precision = "fp32"
evaluate_every = 4
checkpoint_every = 4
report_every = 1
"""
SMALL = "width = 8, inner = 16, depth = 1, heads = 2, dropout = 0.1"
PRETRAIN = """
task = "pretrain"
[data]
train = {{ documents = "animals.txt" }}
dev = {{ held_out = 2 }}
[text]
vocab = {vocab}
{text}
[model]
{model}
[batches]
tokens = 96
rows = 8
longest = 24
"""
STREAMS = """
task = "pretrain"
[data]
train = { text = "animals.txt" }
dev = { text = "animals.txt" }
[text]
kind = "words"
vocab = 30
[objective.causal-lm]
rows = "streams"
[model]
paper = "zaremba"
change = { width = 6, embedding = 6 }
[batches]
tokens = 64
rows = 4
longest = 16
"""
TRANSLATE = """
[data]
train = {{ source = "train.src", target = "train.tgt" }}
dev = {{ source = "dev.src", target = "dev.tgt" }}
test = {{ source = "dev.src", target = "dev.tgt" }}
[text]
kind = "wordpiece"
vocab = 60
[model]
{model}
[batches]
tokens = 96
rows = 12
longest = 24
[decode]
beam = 2
"""
CLASSIFY = """
task = "classify"
[data]
train = { table = "train.tsv", columns = ["text", "label"] }
dev = { held_out = 6 }
[text]
kind = "words"
vocab = 30
[model]
paper = "lin"
size = "laptop"
change = { width = 6, embedding = 6 }
[batches]
tokens = 96
rows = 12
longest = 24
"""
TAG = """
task = "tag"
[data]
train = { file = "train.conll", reader = "CoNLL" }
dev = { held_out = 6 }
[text]
kind = "words"
vocab = 30
[model]
paper = "ma"
size = "laptop"
change = { width = 6, embedding = 10, filters = [[3, 4]], character_size = 3 }
[batches]
tokens = 96
rows = 12
longest = 24
"""
IMAGES = """
task = "classify"
[data]
train = { file = "corners.npz", reader = "npz", options = { names = ["left", "right"] } }
dev = { held_out = 8 }
[images]
crop = 1
mixup = 0.2
[model]
paper = "vit"
size = "tiny"
change = { width = 8, depth = 1, heads = 2, inner = 8, patch_size = 4, image_size = 8 }
[batches]
tokens = 8
rows = 8
longest = 1
"""


def _pretrain(model: str, vocab: int = 90, text: str = "") -> str:
    return PRETRAIN.format(model=model, vocab=vocab, text=text)


def _paper(name: str, change: str, size: str = "") -> str:
    return f'paper = "{name}"\n{size}change = {{ {change} }}'


ELMO = "width = 4, cells = 6, filters = [[1, 4], [2, 4]], longest = 8, character_size = 3"
HALF_DONE = {  # recipe, and keys of [train]
    "translate-transformer": (
        TRANSLATE.format(model=f'size = "laptop"\nchange = {{ {SMALL} }}'),
        'metric = "bleu"\nema = 0.9',
    ),
    "translate-bahdanau": (
        TRANSLATE.format(
            model=_paper("bahdanau", "width = 6, embedding = 6, maxout = 6", 'size = "laptop"\n')
        ),
        "",
    ),
    "classify": (CLASSIFY, 'metric = "accuracy"'),
    "images": (IMAGES, 'metric = "accuracy"'),
    "bert": (
        _pretrain(
            _paper("bert", SMALL + ", longest = 24", 'size = "tiny"\n'), text='kind = "wordpiece"'
        ),
        "",
    ),
    "gpt-2": (_pretrain(_paper("gpt-2", SMALL + ", longest = 24"), 300), ""),
    "xlnet": (_pretrain(_paper("xlnet", SMALL)) + "[objective.permutation-lm]\nmemory = 8\n", ""),
    "electra": (
        _pretrain(
            _paper("electra", SMALL + ", longest = 24, embedding_size = 8", 'size = "base"\n'),
            text='kind = "wordpiece"',
        ),
        "",
    ),
    "elmo": (_pretrain(_paper("elmo", ELMO), 30) + "[objective.bilm]\nwords = 20\n", ""),
    "context2vec": (_pretrain(_paper("context2vec", "width = 6, embedding = 6"), 30), ""),
    "lstm": (STREAMS, ""),
    "tag": (TAG, 'metric = "F1"'),
}


def write_data(folder: Path) -> None:
    """The data of all recipes; each run has the files that it reads."""
    draw = random.Random(5)
    for name, count in (("train", 40), ("dev", 6)):
        lines = [draw.choices(WORDS, k=draw.randint(1, 5)) for _ in range(count)]
        for ending, step in (("src", 1), ("tgt", -1)):
            text = "".join(" ".join(words[::step]) + "\n" for words in lines)
            (folder / f"{name}.{ending}").write_text(text)
    rows = [(" ".join(draw.sample(WORDS, 3)), ("no", "yes")[i % 2]) for i in range(30)]
    table = "".join(f"{text}{' owl' * (label == 'yes')}\t{label}\n" for text, label in rows)
    (folder / "train.tsv").write_text("text\tlabel\n" + table)
    tags = [
        [f"{word} {'B-BIRD' if word == 'owl' else 'O'}" for word in text.split()]
        for text, _ in rows
    ]
    (folder / "train.conll").write_text("".join("\n".join(one) + "\n\n" for one in tags))
    blocks = []
    for _ in range(8):
        words = KINDS[draw.choice(sorted(KINDS))]
        lines = [" ".join(draw.choices(words, k=draw.randint(3, 6))) for _ in range(10)]
        blocks.append("".join(f"{line}.\n" for line in lines))
    (folder / "animals.txt").write_text("\n".join(blocks))
    images, labels = corners(24, 0)
    np.savez_compressed(folder / "corners.npz", x_train=images, y_train=labels)


def write_runs(folder: Path) -> None:
    """Runs that stopped in the middle, with their losses up to the end."""
    (folder / "data").mkdir(parents=True)
    write_data(folder / "data")
    for name, (text, train) in HALF_DONE.items():
        recipe = folder / "data" / f"{name}.toml"
        recipe.write_text(f"{text}{TRAIN}{train}\n{ABOUT}".lstrip())
        frozen.train(recipe, folder / name, stop=4)
        for path in (folder / name / "checkpoints").iterdir():
            if path.name != "step-00000004":
                shutil.rmtree(path)
        (folder / name / "run.lock").unlink()
        shutil.rmtree(folder / name / "data", ignore_errors=True)  # a cache, with paths
        whole = folder / ".whole"
        shutil.copytree(folder / name, whole)
        losses = frozen.train(recipe, whole, resume=True)
        content = {"machine": frozen.machine(), "losses": losses}
        content["weights"] = frozen.weights_of(whole)
        (folder / f"{name}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
        shutil.rmtree(whole)


LINES = [" ".join(pair) for pair in zip(WORDS, WORDS[7:] + WORDS[:7], strict=True)]
STOPPED = {  # options, model, lines
    "translate": (("--search", "sample", "--seed", "3"), "hf-marian", LINES),
    "fill": ((), "hf-bert-base-uncased", [f"the [MASK] {line}" for line in LINES]),
    "generate": (("--max-new-tokens", "3"), "hf-gpt2", LINES),
    "predict": (("--json",), "regard-task-one", LINES),
    "embed": ((), "regard-task-one", LINES),
}


class Stop(BaseException):
    """A run ends here as if it was killed."""


def write_partial(folder: Path, models: Path) -> None:
    """Commands with ``--out`` and ``--resume`` that were stopped, and their results in the end."""
    add = SavedProgress.add

    def stopped(progress: SavedProgress, keys: list[str]) -> None:
        add(progress, keys)
        if keys:
            raise Stop

    for name, (options, model, lines) in STOPPED.items():
        place = folder / name
        place.mkdir(parents=True)
        (place / "in.txt").write_text("".join(f"{line}\n" for line in lines))
        common = ["--device", "cpu", "--precision", "fp32", "--batch-size", "2"]
        command = [name, "model", "in.txt", *options, *common]
        out = "out.npy" if name == "embed" else "out.txt"
        stored = {"machine": frozen.machine(), "model": model, "out": out, "arguments": command}
        (place / "command.json").write_text(json.dumps(stored) + "\n")
        windows = patch.object(LineSource.__init__, "__defaults__", (8, False))
        with windows, patch.object(SavedProgress, "add", stopped), suppress(Stop):
            frozen.continue_output(place, models, place)
        whole = frozen.continue_output(place, models, folder / ".whole")
        state = json.loads((place / f"{out}.partial.json").read_text())
        assert 0 < state["inputs"] < len(lines) and whole.keys() == {out}, name
        (place / f"expected{Path(out).suffix}").write_bytes(whole[out])
        shutil.rmtree(folder / ".whole")
