"""A paper: its name and place in the lineage, the sizes it published, and its folders elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.models.facts import AnyPool, ModelFacts, TrunkWithHeads, change
from regard.models.formats.hf_format import HFFormat


@dataclass(frozen=True)
class Paper:
    """One step of the lineage.

    ``published`` are the parameter counts as the paper rounds them; ``heads`` the facts of heads
    that differ from plain ones ("label.dense"), and ``pools`` the pools under heads that do not
    read the pool of its sizes. ``formats`` are those in which others keep its models: "hf".
    """

    name: str
    year: int
    title: str
    arxiv: str
    after: str | None
    sizes: Mapping[str, ModelFacts]
    published: Mapping[str, int] = field(default_factory=dict)
    tokenizer: str = "plain"  # which one is learned for a model of its own
    heads: Mapping[str, Any] = field(default_factory=dict)
    pools: Mapping[str, AnyPool] = field(default_factory=dict)
    formats: Mapping[str, HFFormat] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name in recipes and configuration files."""
        return self.name.lower()

    def fit_heads(self, facts: TrunkWithHeads) -> TrunkWithHeads:
        """A model of the paper with its heads, and the pool under them, in the paper's form."""
        names = [head.name for head in facts.output_heads]
        changes = {key: value for key, value in self.heads.items() if key.split(".")[0] in names}
        pools = [self.pools[name] for name in names if name in self.pools]
        return change(facts, pool=pools[0] if pools else facts.pool, **changes)

    def parameters(self, facts: ModelFacts) -> int:
        """How many parameters a model of these facts has, tied ones counted once."""
        with torch.device("meta"):
            return count_parameters(facts.build())


def count_parameters(model: nn.Module) -> int:
    """Parameters of a model, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
