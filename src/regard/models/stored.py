"""What a folder holds, whoever wrote it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.ground.errors import BadInput
from regard.models.facts import AnyFacts, PairFacts
from regard.models.form import Origin
from regard.models.paper import Paper
from regard.text.bilingual import Bilingual

CONFIG, WEIGHTS = "config.json", "model.safetensors"


@dataclass(frozen=True, eq=False)
class Stored:
    """What a folder holds. ``notes`` is anything JSON that belongs to it: cost, chosen readings."""

    paper: Paper
    facts: AnyFacts
    module: nn.Module
    text: Bilingual | None
    notes: dict[str, Any]
    origin: Origin | None = None


def built(paper: Paper, facts: AnyFacts, device: torch.device | str, where: str) -> nn.Module:
    """The model of facts that came from outside."""
    try:
        with torch.device(device):
            return paper.build(facts)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise BadInput(f"{where}: its facts give no model ({error})") from None


def check_text(text: Bilingual | None, facts: AnyFacts, folder: Path) -> None:
    """A model must know every id that its vocabularies give."""
    if text is None or not isinstance(facts, PairFacts):
        return
    for name, words in (("source", text.source), ("target", text.target)):
        if len(words) > (known := getattr(facts, name).embed.vocab):
            raise BadInput(f"{folder}: {len(words)} {name} tokens, but the model knows {known}")
    if not 0 <= text.target.bos < (known := facts.target.embed.vocab):
        raise BadInput(f"{folder}: texts begin with {text.target.bos}, the model knows {known} ids")
