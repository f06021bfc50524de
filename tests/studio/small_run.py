"""A small run with checkpoints, as ``regard train`` leaves it."""

import json
from pathlib import Path

from small import write_corpus
from verb import run

SETTINGS = ("train.steps=12", "train.keep_every=4", "train.checkpoint_every=2")
WORDS = [word for setting in SETTINGS for word in ("--set", setting)]


def train_small_run(folder: Path, name: str = "one") -> Path:
    """Train a run in a folder of runs; return its folder. Its data are beside the runs."""
    corpus = folder.parent / "corpus"
    corpus.mkdir()
    write_corpus(corpus)
    recipe = ("train", str(corpus / "small.toml"), "--data", str(corpus))
    run(*recipe, "--out", str(folder / name), *WORDS)
    environment = folder / name / "environment.jsonl"
    record = json.loads(environment.read_text())
    words = " ".join(["regard train small.toml", *WORDS, "--out old"])
    record |= {"command": words, "folder": str(corpus)}
    environment.write_text(json.dumps(record) + "\n")
    return folder / name
