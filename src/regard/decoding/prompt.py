"""Prompts: tokens that rows start with, as many as each row has."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.ground.batch import Ids, PackedTokens, pack
from regard.ground.errors import BadInput


@dataclass(frozen=True, eq=False)
class Prompts:
    """All tokens but the last of each prompt, to be read at once, and the ``last`` ones.

    The last token of a prompt is the first that a search feeds: its ``Constraints.bos``.
    """

    read: PackedTokens
    last: list[int]

    @classmethod
    def of(cls, rows: Sequence[Ids], device: torch.device | str = "cpu") -> "Prompts":
        """Prompts in token ids."""
        for number, row in enumerate(rows, 1):
            if not len(row):
                raise BadInput(f"prompt {number} is empty: it needs a first token, such as BOS")
        read = pack([row[:-1] for row in rows]).to(device)
        return cls(read, [int(row[-1]) for row in rows])

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return self.read.layout.longest + 1
