"""BPE vocabularies of GPT, GPT-2 and RoBERTa: pieces with their ids, and merges in order.

tokenizer.json writes a merge as two pieces, ``["Ġ", "t"]``, or, before version 0.20 of the library
(2024), as one string, ``"Ġ t"``. Both are read. Without tokenizer.json, vocab.json has the pieces
and merges.txt the merges.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from regard.ground.errors import BadInput, shown
from regard.ground.files import read_bytes, read_json
from regard.text.families.tokenizer_family import Model, TokenizerFamily

VOCAB, MERGES = "vocab.json", "merges.txt"


class BPEFamily(TokenizerFamily):
    """Base class of families whose vocabulary is BPE."""

    model: ClassVar = "BPE"
    files: ClassVar = (VOCAB, MERGES)

    def read_files(self, folder: Path) -> Model:
        """Pieces with their ids, and merges in order, one in each line."""
        path = folder / MERGES
        try:
            lines = read_bytes(path).decode().split("\n")
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: not UTF-8 (byte {error.start})") from None
        lines = [line.rstrip("\r") for line in lines]
        merges = [line for line in lines if line and not line.startswith("#version")]
        return {"vocab": read_json(folder / VOCAB), "merges": _pairs(merges, path)}

    def write_files(self, model: Model) -> dict[str, str]:
        """The same files."""
        lines = ["#version: 0.2", *(f"{left} {right}" for left, right in model["merges"]), ""]
        vocabulary = json.dumps(model["vocab"], ensure_ascii=False)
        return {VOCAB: vocabulary, MERGES: "\n".join(lines)}

    def model_in(self, content: Mapping[str, Any], path: Path) -> Model:
        """The model in a tokenizer.json, with its merges as pairs."""
        model = super().model_in(content, path)
        return {**model, "merges": _pairs(model.get("merges"), path)}


def merges_like(earlier: bytes, content: str) -> str:
    """The ``content`` of a tokenizer.json; merges are strings if those of ``earlier`` are."""
    merges = json.loads(earlier or b"{}").get("model", {}).get("merges")
    if not merges or not all(isinstance(merge, str) for merge in merges):
        return content
    written = json.loads(content)
    written["model"]["merges"] = [" ".join(pair) for pair in written["model"]["merges"]]
    return json.dumps(written, indent=2, ensure_ascii=False)


def _pairs(merges: Any, path: Path) -> list[tuple[str, str]]:
    """Merges as pairs of pieces. A piece has no space: the one in a string is between pieces."""
    if not isinstance(merges, list):
        raise BadInput(f"{path}: has no list of merges")
    pairs = []
    for number, merge in enumerate(merges, start=1):
        match merge.split(" ") if isinstance(merge, str) else merge:
            case [str(left), str(right)] if left and right:
                pairs.append((left, right))
            case _:
                raise BadInput(f"{path}: merge {number}, {shown(merge)}, is not two pieces")
    return pairs
