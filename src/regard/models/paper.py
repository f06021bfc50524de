"""A paper: its name and place in the lineage, the sizes it published, and its folders elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import nn

from regard.models.facts import ModelFacts
from regard.models.formats.hf_format import HFFormat


@dataclass(frozen=True)
class Paper:
    """One step of the lineage.

    ``published`` are the parameter counts as the paper rounds them; ``formats`` are those in which
    others keep its models: "hf".
    """

    name: str
    year: int
    title: str
    arxiv: str
    after: str | None
    sizes: Mapping[str, ModelFacts]
    published: Mapping[str, int] = field(default_factory=dict)
    tokenizer: str = "plain"  # which one is learned for a model of its own
    formats: Mapping[str, HFFormat] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name in recipes and configuration files."""
        return self.name.lower()

    def parameters(self, facts: ModelFacts) -> int:
        """How many parameters a model of these facts has, tied ones counted once."""
        with torch.device("meta"):
            return count_parameters(facts.build())


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
