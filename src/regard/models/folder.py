"""A model on disk: config.json (which paper, which facts), model.safetensors, its tokenizers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.ground.files import read_json, write_json
from regard.models import paper as paper_named
from regard.models.facts import AnyFacts, PairFacts, from_json, to_json
from regard.models.paper import Paper
from regard.text.bilingual import Bilingual
from regard.weights.files import load_weights, read_tensors, weights_of, write_tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Stored:
    """What a folder holds. ``notes`` is anything JSON that belongs to it: cost, chosen readings."""

    paper: Paper
    facts: AnyFacts
    module: nn.Module
    text: Bilingual | None
    notes: dict[str, Any]


def write(folder: Path, stored: Stored) -> None:
    """Write a folder; config.json comes last, so that a folder that has it is whole."""
    (folder / CONFIG).unlink(missing_ok=True)
    if stored.text is not None:
        stored.text.save(folder)
    write_tensors(folder / WEIGHTS, weights_of(stored.module))
    config = {
        "regard": FORMAT,
        "paper": stored.paper.key,
        "facts": to_json(stored.facts),
        "notes": stored.notes,
    }
    write_json(folder / CONFIG, config)


def read(folder: Path, device: torch.device | str = "cpu") -> Stored:
    """The model in a folder, ready to run."""
    if not folder.is_dir():
        raise BadInput(f"{folder}: no such folder")
    config = read_json(folder / CONFIG)
    if config.get("regard") != FORMAT:
        raise BadInput(f"{folder / CONFIG}: not a folder written by regard (format {FORMAT})")
    paper = paper_named(str(config.get("paper")))
    facts = from_json(config.get("facts"), str(folder / CONFIG))
    try:
        with torch.device(device):
            module = paper.build(facts)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(f"{folder / CONFIG}: its facts give no model ({error})") from None
    load_weights(module, read_tensors(folder / WEIGHTS), str(folder / WEIGHTS))
    text = Bilingual.load(folder) if any(folder.glob("*tokenizer.json")) else None
    if text is not None and isinstance(facts, PairFacts):
        for name, words in (("source", text.source), ("target", text.target)):
            if len(words) > (known := getattr(facts, name).embed.vocab):
                raise BadInput(f"{folder}: {len(words)} {name} tokens, but the model knows {known}")
    return Stored(paper, facts, module.eval(), text, config.get("notes", {}))
