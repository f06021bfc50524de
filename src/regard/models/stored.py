"""What a folder holds, whoever wrote it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.errors import BadInput, reason_of
from regard.models.facts import AnyFacts, ClassifierFacts, EncoderFacts, PairFacts, paths
from regard.models.form import Origin, Text
from regard.models.paper import Paper
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.labels import LabelledText
from regard.text.translation_tokenizer import TranslationTokenizer
from regard.text.tuned import TunedText

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True, eq=False)
class Stored:
    """What a folder holds. ``notes`` is anything JSON that belongs to it: cost, chosen readings."""

    paper: Paper
    facts: AnyFacts
    module: nn.Module
    text: Text | None
    notes: dict[str, Any]
    origin: Origin | None = None


def built(paper: Paper, facts: AnyFacts, device: torch.device | str, where: str) -> nn.Module:
    """The model of facts that came from outside."""
    try:
        with torch.device(device):
            return paper.build(facts)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(f"{where}: its facts give no model ({reason_of(error)})") from None


def refuse_depth(facts: AnyFacts, tensors: int) -> None:
    """A stack of more layers than tensors is not even tried: it could be endless."""
    for path, value in paths(facts):
        if path.endswith(".depth") and value > tensors:
            raise BadInput(f"{value} layers are said to be in {tensors} tensors")


def check_text(text: Text | None, facts: AnyFacts, folder: Path) -> None:
    """A model must know every id that its vocabularies give."""
    match facts, text:
        case PairFacts(), TranslationTokenizer():
            sizes = {
                "source tokens": (len(text.source), facts.source.embed.vocab),
                "target tokens": (len(text.target), facts.target.embed.vocab),
            }
            if not 0 <= text.target.bos < (known := facts.target.embed.vocab):
                said = f"texts begin with {text.target.bos}, the model knows {known} ids"
                raise BadInput(f"{folder}: {said}")
        case ClassifierFacts(), LabelledText():
            sizes = {
                "tokens": (len(text.words), facts.reader.embed.vocab),
                "labels": (len(text.labels), facts.classes),
            }
        case EncoderFacts(), EncoderTokenizer():
            sizes = {"tokens": (len(text.words), facts.embed.vocab)}
        case EncoderFacts(), TunedText():
            sizes = {
                "tokens": (len(text.encoder.words), facts.embed.vocab),
                "labels": (len(text.labels), facts.head.outputs if facts.head else 0),
            }
        case _:
            return
    for name, (given, known) in sizes.items():
        if given > known or (name == "labels" and given < known):
            raise BadInput(f"{folder}: {given} {name}, but the model knows {known}")
