"""The eager engine: torch's operators, one after the other, for every model on every device."""

from typing import Any

from torch import nn

from regard.decoding.prompt import Prompts
from regard.decoding.state import DecodingState
from regard.ground.batch import PackedTokens


class EagerEngine:
    """See ``Engine``."""

    name = "torch"
    description = ""
    packed_layers: frozenset[nn.Module] = frozenset()

    def open(
        self, model: Any, source: PackedTokens | None, prompts: Prompts | None, capacity: int
    ) -> DecodingState:
        """A state for search."""
        return DecodingState(model, source, prompts, capacity)


EAGER = EagerEngine()
