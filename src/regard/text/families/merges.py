"""The files of BPE vocabularies without tokenizer.json: vocab.json and merges.txt."""

import json
from pathlib import Path

from regard.ground.errors import BadInput
from regard.ground.files import read_bytes, read_json
from regard.text.families.tokenizer_family import Model

MERGES = ("vocab.json", "merges.txt")


def read_merges(folder: Path) -> Model:
    """Pieces with their ids, and merges in order, one in each line."""
    path = folder / "merges.txt"
    try:
        lines = read_bytes(path).decode().split("\n")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 (byte {error.start})") from None
    lines = [line.rstrip("\r") for line in lines]
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    return {"vocab": read_json(folder / "vocab.json"), "merges": merges}


def write_merges(model: Model) -> dict[str, str]:
    """The same files."""
    lines = ["#version: 0.2", *(f"{left} {right}" for left, right in model["merges"]), ""]
    vocabulary = json.dumps(model["vocab"], ensure_ascii=False)
    return {"vocab.json": vocabulary, "merges.txt": "\n".join(lines)}
