"""What a folder holds, whoever wrote it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.errors import BadInput, reason_of
from regard.models.facts import EncoderDecoder, ModelFacts, TrunkWithHeads, paths
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
    facts: ModelFacts
    module: nn.Module
    text: Text | None
    notes: dict[str, Any]
    origin: Origin | None = None


def built(facts: ModelFacts, device: torch.device | str, where: str) -> nn.Module:
    """The model of facts that came from outside."""
    try:
        with torch.device(device):
            return facts.build()
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(f"{where}: its facts give no model ({reason_of(error)})") from None


def refuse_depth(facts: ModelFacts, tensors: int) -> None:
    """A stack of more layers than tensors is not even tried: it could be endless."""
    for path, value in paths(facts):
        if path.endswith(".depth") and value > tensors:
            raise BadInput(f"{value} layers are said to be in {tensors} tensors")


def outputs_of(facts: TrunkWithHeads) -> int:
    """How many labels its head tells apart."""
    heads = (facts.head("label"), facts.head("token_label"))
    return next((head.outputs for head in heads if head is not None), 0)


def check_text(text: Text | None, facts: ModelFacts, folder: Path) -> None:
    """A model must know every id that its vocabularies give."""
    match facts, text:
        case EncoderDecoder(), TranslationTokenizer():
            sizes = {
                "source tokens": (len(text.source), facts.source.embed.vocab),
                "target tokens": (len(text.target), facts.target.embed.vocab),
            }
            if not 0 <= text.target.bos < (known := facts.target.embed.vocab):
                said = f"texts begin with {text.target.bos}, the model knows {known} ids"
                raise BadInput(f"{folder}: {said}")
        case TrunkWithHeads(), LabelledText():
            sizes = {
                "tokens": (len(text.words), facts.trunk.embed.vocab),
                "labels": (len(text.labels), outputs_of(facts)),
            }
        case TrunkWithHeads(), EncoderTokenizer():
            sizes = {"tokens": (len(text.words), facts.trunk.embed.vocab)}
        case TrunkWithHeads(), TunedText():
            sizes = {
                "tokens": (len(text.encoder.words), facts.trunk.embed.vocab),
                "labels": (len(text.labels), outputs_of(facts)),
            }
        case _:
            return
    for name, (given, known) in sizes.items():
        if given > known or (name == "labels" and given < known):
            raise BadInput(f"{folder}: {given} {name}, but the model knows {known}")
