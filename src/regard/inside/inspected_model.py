"""A model whose inside is studied: it reads inputs with labels, and runs them with a tape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
import torch
from torch import nn

from regard.ground.batch import TokenRow, pack_rows, pack_texts
from regard.ground.errors import BadInput
from regard.ground.tape import NULL_TAPE, NullTape, Tape
from regard.inference.inputs import InputLimits
from regard.inference.model_runner import ModelRunner
from regard.models.attention_site import AttentionSite
from regard.models.edits import AnyEdit, edit_module
from regard.models.encoder_decoder import ModelFacts
from regard.models.folders.loaded_model import LoadedModel
from regard.models.trunk_with_heads import Outputs
from regard.tasks.components import runner_of
from regard.text.segmentation import LabelledImage, LabelledRow
from regard.text.tokenizers.list import Tokenizer
from regard.text.tokenizers.row_tokenizer import require_tokenizer
from regard.text.words import check_text

LabelledRows = Mapping[str, LabelledRow | LabelledImage]
"""One input: a row with labels for each side of the model."""


@dataclass(frozen=True, eq=False)
class InspectedModel:
    """Runner, facts and tokenizer of a model: all that views, reports and studies of it need."""

    runner: ModelRunner
    facts: ModelFacts
    tokenizer: Tokenizer | None

    @classmethod
    def of(cls, loaded: LoadedModel) -> Self:
        """The model of a folder, in the precision of its weights."""
        return cls(runner_of(loaded), loaded.facts, cast(Tokenizer | None, loaded.tokenizer))

    @property
    def module(self) -> nn.Module:
        """The module that runs."""
        return self.runner.model

    @property
    def reads_images(self) -> bool:
        """Whether inputs are images."""
        return self.facts.encoder.embed.reads_images

    @property
    def sites(self) -> tuple[AttentionSite, ...]:
        """Attention sites that have heads; a model without any is an error."""
        sites = tuple(site for site in self.facts.attention_sites if any(site.heads))
        if not sites:
            raise BadInput("this model has no attention to show")
        return sites

    def edited(self, edits: Sequence[AnyEdit]) -> Self:
        """Copy of the model, with the same weights, whose runs are edited."""
        module = edit_module(self.module, self.facts.sides, edits)
        return replace(self, runner=self.runner.with_module(module))

    def read(
        self, first: object, second: str | None = None, *, repeat: bool = False
    ) -> LabelledRows:
        """Rows of a text, of two texts, or of an image.

        Without a ``second`` text, a translator translates the first. With ``repeat``, all tokens
        follow twice.
        """
        if self.reads_images:
            return {"trunk": self.runner.label(first)}
        tokenizer = require_tokenizer(self.tokenizer)
        text, *_ = (check_text(text, 1) for text in (first, second) if text is not None)
        second = self.runner.default_target(text) if second is None else second
        rows = tokenizer.label(text, second)
        if not all(len(row.row.tokens) for row in rows.values()):
            raise BadInput("the text has no tokens: there is no attention to show")
        return {side: row.repeated() if repeat else row for side, row in rows.items()}

    def run(self, inputs: Sequence[LabelledRows], tape: NullTape = NULL_TAPE) -> Outputs:
        """Outputs of a forward pass over inputs, with gradients unless torch is told otherwise.

        On a tape, values of tokens are packed: first the tokens of the first input, then others.
        """
        packed = []
        for side in self.facts.sides:
            limits = InputLimits.of(getattr(self.module, side))
            for number, rows in enumerate(inputs, start=1):
                limits.check_row(rows[side].row, number)
            packed.append(pack_texts([rows[side].row for rows in inputs]))
        device = next(self.module.parameters()).device
        return self.module(self.facts.inputs(*packed).to(device), tape=tape)

    def tape_names(self) -> list[str]:
        """Names of all values that a tape can record or edit in a forward pass."""
        tape = Tape()
        self._run_one_token(tape)
        return list(tape.names)

    def tape_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all values of a forward pass over one token, by name."""
        tape = Tape("*")
        self._run_one_token(tape)
        return {name: tuple(value.shape) for name, value in tape.records.items()}

    @torch.no_grad()
    def _run_one_token(self, tape: Tape) -> None:
        sides = [getattr(self.facts, side).ids_per_token for side in self.facts.sides]
        tokens = [pack_rows([TokenRow(np.zeros((1, *shape)), [0])]) for shape in sides]
        device = next(self.module.parameters()).device
        self.module(self.facts.inputs(*tokens).to(device), tape=tape)


def title_of(text: object) -> str:
    """Title of a view: the texts, or the name of an image file."""
    if isinstance(text, Path):
        return text.name
    texts = text if isinstance(text, tuple) else (text,)
    return " ".join(one if isinstance(one, str) else "image" for one in texts)
