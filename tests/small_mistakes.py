"""A folder in which users make mistakes: small models, damaged models, texts, tables, recipes."""

import json
import shutil
from pathlib import Path

import torch
from PIL import Image

from regard.models.facts import change
from regard.models.folders import folder as folders
from regard.models.folders.loaded_model import LoadedModel
from regard.models.papers import bahdanau, t5, transformer
from regard.text.tokenizers.translation_tokenizer import train_translation_tokenizer
from safety.frozen_folders import FROZEN, MODELS, RUNS
from small import WORDS, write_corpus
from small_agreement import language_model
from small_bert import model as small_bert
from small_labels import write_owls
from small_roles import small_labeller
from small_spans import write_prefix

COPIED = {  # models, and their frozen folders
    "classifier": "regard-task-one",
    "tagger": "regard-task-tags",
    "answers": "regard-task-answer",
    "choices": "regard-task-choose",
    "causal": "hf-gpt2",
    "vision": "regard-vit",
    "ids": "hf-xlnet-ids",
}
BLOCKS = {"width": 8, "depth": 1, "inner": 8, "heads": 2}
TRANSLATORS = {  # papers, and the facts that make their models small
    "translator": (transformer.PAPER, BLOCKS),
    "t5": (t5.PAPER, BLOCKS),
    "recurrent": (bahdanau.PAPER, {"width": 8, "embedding": 8}),
}
TEXTS = {
    "texts.txt": "the owl\nthe cow and the dog\nan elf\n",
    "two.txt": "the owl\nthe cow\n",
    "empty.txt": "",
    "blank.txt": "\n\n",
    "long.txt": "owl " * 3_000 + "\n",
    "masked.txt": "the [MASK]\n",
    "pairs.tsv": "the owl\tdie Eule\nthe cow\tdie Kuh\n",
    "triples.tsv": "the owl\tdie Eule\tuhu\n",
    "table.csv": "id,body of text,note\n1,the owl,a b\n2,the cow,c d\n",
    "texts.csv": "id,text,label\n1,the owl,no\n2,the cow,yes\n",
    "wide.csv": "id,text\n1,the owl, or so\n",
    "quote.csv": 'id,text\n1,"the owl\n2,the cow\n',
    "header.csv": "id,text\n",
    "empty.csv": "",
    "twice.csv": "text,text\nthe owl,the cow\n",
    "broken.jsonl": '{"text": "the owl"}\n{"text": \n',
    "list.jsonl": '["the owl"]\n',
    "number.jsonl": '{"text": "the owl"}\n{"text": 3.5}\n',
    "other.jsonl": '{"text": "the owl"}\n{"body": "the cow"}\n',
    "answers.jsonl": '{"question": "who?"}\n',
    "choices.jsonl": '{"first": "the owl", "choices": []}\n',
    "queries.jsonl": '{"_id": "1", "text": "the owl"}\n',
    "nameless.jsonl": '{"text": "the owl"}\n',
    "qrels.tsv": "query-id\tcorpus-id\tscore\n9\t1\tyes\n",
    "paths.txt": "missing.png\n",
    "gold.txt": "0-0\n0-x\n0-0\n",
    "similar.txt": "owl cow\n",
    "likeness.txt": "owl cow 3.5\n",
    "vectors.txt": "owl 0.1 0.2\ncow 0.1\n",
    "nbest.jsonl": '{"line": 1, "text": "the owl"}\n',
    "broken.toml": "[data\ntrain = 1\n",
    "listing.toml": "data = 3\n",
}
BYTES = {
    "latin.txt": b"the owl\ncaf\xe9 \xff\xfe\n",
    "latin.toml": b"# caf\xe9\n",
    "binary.txt": bytes(range(256)) * 8,
    "binary.csv": bytes(range(256)) * 8,
    "damaged.parquet": b"not a table",
    "broken.png": b"\x89PNG\r\n\x1a\nnothing",
}
RECIPES = {  # changed copies of the recipe of the classifier: from, to
    "misspelt": ("[batches]\ntokens", "[batches]\ntoken"),
    "missing-file": ('"train.tsv"', '"trane.tsv"'),
    "missing-column": ('["text", "label"]', '["texts", "label"]'),
    "unknown-paper": ('paper = "lin"', 'paper = "linn"'),
    "unknown-size": ('size = "laptop"', 'size = "huge"'),
    "unknown-metric": ('metric = "accuracy"', 'metric = "acuracy"'),
    "unknown-task": ('task = "classify"', 'task = "clasify"'),
    "unknown-label": ('1 = "owl"', '2 = "owl"'),
    "unknown-fact": ("width = 12,", "widht = 12,"),
    "wrong-type": ("rate = 0.02", 'rate = "fast"'),
    "negative": ("steps = 12", "steps = -12"),
    "long-rows": ("longest = 32", "longest = 999"),
    "circular": ("task =", 'like = "circular"\ntask ='),
}


def write_folder(folder: Path) -> Path:
    """Write all that the rows of the table name."""
    for name, frozen in COPIED.items():
        shutil.copytree(MODELS / frozen, folder / name)
    _write_models(folder)
    _write_damaged(folder)
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    for name, content in BYTES.items():
        (folder / name).write_bytes(content)
    Image.new("RGB", (8, 8)).save(folder / "picture.png")
    for name in ("emptyfolder", "pictures", "taken"):
        (folder / name).mkdir()
    shutil.copy(FROZEN / "images" / "0.png", folder / "pictures")
    (folder / "taken" / "notes.txt").write_text("keep me\n")
    shutil.copytree(RUNS / "classify", folder / "stopped")
    _write_recipes(folder)
    return folder


def _write_recipes(folder: Path) -> None:
    for name, write in (("words", write_corpus), ("owls", write_owls), ("prefix", write_prefix)):
        (folder / name).mkdir()
        write(folder / name)
    text = (folder / "owls" / "owls.toml").read_text()
    for name, (old, new) in RECIPES.items():
        assert old in text, name
        (folder / "owls" / f"{name}.toml").write_text(text.replace(old, new))
    badly_labelled = folder / "owls" / "unlabelled.tsv"
    badly_labelled.write_text("text\tlabel\nthe owl\t\nthe cow\t0\n")


def _write_models(folder: Path) -> None:
    """Random translators with one vocabulary, a masked and a recurrent language model."""
    for name in TRANSLATORS:
        folders.write(folder / name, small_translator(name))
    small_bert("words").save(folder / "bert")
    small_labeller(predicates="given").save(folder / "labeller")
    language_model().save(folder / "lstm")


def small_translator(name: str) -> LoadedModel:
    """One of ``TRANSLATORS`` with random weights."""
    text = train_translation_tokenizer(WORDS, WORDS, "bpe", 320, joint=True)
    paper, sizes = TRANSLATORS[name]
    facts = change(paper.sizes[paper.default_size], vocab=len(text.source), **sizes)
    torch.manual_seed(0)
    return LoadedModel(paper, facts, facts.build().eval(), text)


def _write_damaged(folder: Path) -> None:
    """Copies of a model folder, each with one fault."""
    for name in ("weightless", "cut", "configless", "listed", "shapeless", "formless"):
        shutil.copytree(MODELS / "hf-task-one", folder / name)
    (folder / "weightless" / "model.safetensors").unlink()
    weights = folder / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "configless" / "config.json").unlink()
    (folder / "listed" / "config.json").write_text("[1, 2]")
    change_config(folder / "shapeless", hidden_size=24)
    change_config(folder / "formless", model_type="mamba", architectures=["MambaForCausalLM"])
    shutil.copytree(MODELS / "hf-gpt2", folder / "foo")
    change_config(folder / "foo", architectures=["GPT2ForFoo"])
    shutil.copytree(MODELS / "regard-task-one", folder / "future")
    change_config(folder / "future", paper="no such paper")


def change_config(folder: Path, **keys: object) -> None:
    """Change keys of a config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **keys}))
