"""What can be done with an encoder, by its facts, its text and what is noted of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, cast

import numpy as np
import torch
from torch import Tensor

from regard.ground.batch import Ids, Row
from regard.ground.errors import BadInput
from regard.ground.tape import SILENT, Silent, Tape
from regard.models.encoder import Encoder
from regard.models.facts import EncoderFacts
from regard.models.hf import ASKED
from regard.parts.linear.engine import at_work, in_precision
from regard.parts.position import Learned
from regard.tasks.answer import CONTEXT, Answerer
from regard.tasks.choose import Chooser
from regard.tasks.classify import EncoderClassifier
from regard.tasks.embed import Embedder
from regard.tasks.fill import Filler
from regard.tasks.rows import Asked, Runner, longest_row, rows_of
from regard.tasks.tag import Tagger
from regard.text.encoder import EncoderText
from regard.text.tuned import TunedText

Read = Asked | Row | Ids  # a text, a pair of texts, or what was made of them
LONGEST = 512  # of rows that nothing else limits


@dataclass(frozen=True, eq=False)
class Understanding(Runner):
    """An encoder. Without a text it reads ids alone."""

    model: Encoder
    facts: EncoderFacts
    tuned: EncoderText | TunedText | None
    notes: dict[str, Any] = field(default_factory=dict)
    rows: int = 256

    @property
    def text(self) -> EncoderText:
        """Its vocabulary."""
        if self.tuned is None:
            raise BadInput("this folder has no tokenizer files: only token ids can be used")
        return self.tuned.encoder if isinstance(self.tuned, TunedText) else self.tuned

    @property
    def longest(self) -> int | None:
        """The most tokens of a row, if anything limits them."""
        return longest_row(self.facts, self.text)

    def with_precision(self, kind: str) -> "Understanding":
        """The same, for inference only, in "fp32", "bf16", "int8" (on a CPU) or "auto"."""
        return replace(self, model=cast(Encoder, in_precision(self.model, kind)))

    @property
    def engine(self) -> str:
        """What does the work, in words."""
        dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        return at_work(self.model) or f"{dtype} on {self.device.type}"

    @property
    def predictor(self) -> EncoderClassifier | Tagger | Answerer | Chooser:
        """What it was tuned to do, asked as it was then where that is noted."""
        if self.facts.head is None:
            raise BadInput("this encoder was tuned for no task: there is nothing to predict")
        task, text, noted = self.facts.head.task, self.text, self._noted_numbers()
        usual = CONTEXT if task == "answer" else None
        limits = [self.longest, noted.pop("longest", usual)]
        longest = min((one for one in limits if one is not None), default=None)
        if task == "answer":
            return Answerer(self.model, text, longest=longest or CONTEXT, **noted)
        if task == "choose":
            return Chooser(self.model, text, longest=longest)
        if not isinstance(self.tuned, TunedText):
            raise BadInput("this folder has no labels: nothing can be named")
        if task == "tag":
            return Tagger(self.model, self.tuned, longest=longest or LONGEST)
        return EncoderClassifier(self.model, self.tuned, longest=longest)

    def _noted_numbers(self) -> dict[str, Any]:
        noted = {name: self.notes[name] for name in ASKED if name in self.notes}
        for name, value in noted.items():
            whole = isinstance(value, int) and value >= (name != "stride")
            fits = isinstance(value, int | float | None) if name == "threshold" else whole
            if not fits or isinstance(value, bool):
                raise BadInput(f"config.json: notes.{name} is no number that fits ({value!r})")
        return noted

    def filler(self, top: int = 5) -> Filler:
        """It, naming words at masks."""
        return Filler(self.model, self.text, longest=self.longest, top=top)

    def embedder(self, pool: str | None = None, normalise: bool | None = None) -> Embedder:
        """It, giving vectors: as its folder says, and else the mean of its states."""
        noted = self.notes.get("embedding") or {}
        if not isinstance(noted, dict) or not isinstance(noted.get("longest"), int | None):
            raise BadInput(f"config.json: notes.embedding says no way to embed ({noted})")
        if pool is None and "hinders" in noted:
            raise BadInput(f"{noted['hinders']}; choose how to pool")
        limits = [noted.get("longest"), None if self.tuned is None else self.longest]
        return Embedder(
            self.model,
            None if self.tuned is None else self.text,
            longest=min((one for one in limits if one is not None), default=None),
            pool=pool or noted.get("pool", "mean"),
            normalise=noted.get("normalise", False) if normalise is None else normalise,
            lower=noted.get("lower", False),
        )

    def read(self, inputs: Sequence[Read], *, masks: bool = False) -> list[Row]:
        """Texts as rows, cut to what it can read; ids as they are. With ``masks``, texts have some.

        Rows that it cannot read are an error.
        """
        _refuse_one(inputs)
        return [self._checked(self._row(one, masks), i) for i, one in enumerate(inputs, start=1)]

    def vectors(
        self, inputs: Sequence[Read], pool: str | None, normalise: bool | None = None
    ) -> Tensor:
        """(inputs, width): one vector for each; see ``embedder``."""
        _refuse_one(inputs)
        embedder = self.embedder(pool, normalise)
        texts = [one for one in inputs if _is_text(one)]
        of_texts = iter(embedder.rows_of(texts) if texts else [])
        rows = [next(of_texts) if _is_text(one) else one for one in inputs]
        return embedder.vectors(self.read(rows))

    @torch.no_grad()
    def states(self, rows: Sequence[Row], layer: int) -> list[Tensor]:
        """(tokens, width) for each row, after so many blocks; see ``api.Model.encode``."""
        name = {-1: "trunk.output", 0: "trunk.embed.output"}.get(
            layer, f"trunk.blocks.{layer - 1}.output"
        )
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, read in self.batches(rows):
            tape = Tape(name)
            self.model.encode(read.tokens_T, read.layout, tape=tape)
            for i, one in zip(chosen, read.layout.split(tape.kept[name]), strict=True):
                found[i] = one
        return found

    @torch.no_grad()
    def logits(self, rows: Sequence[Row], tape: Silent = SILENT) -> list[Tensor]:
        """(tokens, vocabulary) for each row; of a task, (tokens, labels), or (labels,) of all."""
        head = self.facts.head
        if head is None and not self.facts.fills:
            raise BadInput("this encoder has no layer that says anything: it only has states")
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for chosen, read in self.batches(rows):
            said = self.model(read.tokens_T, read.layout, tape=tape)
            said = said.words_NV if head is None else said
            of_rows = head is not None and head.of_rows
            parts = said.unbind() if of_rows else read.layout.split(said)
            for i, one in zip(chosen, parts, strict=True):
                found[i] = one
        return found

    def _row(self, one: Read, masks: bool) -> Row:
        if isinstance(one, Row):
            return one
        if isinstance(one, str) and masks:
            return self.text.row(self.text.masked(one), longest=self.longest)
        if _is_text(one):
            return rows_of(self.text, [one], self.longest)[0]
        ids = cast(Ids, one)
        return Row(ids, [0] * len(ids))

    def _checked(self, row: Row, number: int) -> Row:
        known, position = self.facts.embed, self.facts.embed.position
        if not len(row.tokens):
            raise BadInput(f"input {number}: has no tokens")
        if isinstance(position, Learned) and len(row.tokens) > position.longest:
            said = f"{len(row.tokens)} tokens, and the model knows {position.longest} positions"
            raise BadInput(f"input {number}: {said}")
        if not 0 <= np.min(row.tokens) <= np.max(row.tokens) < known.vocab:
            raise BadInput(f"input {number}: a token is none of the {known.vocab} that there are")
        if known.segments and np.max(row.segments) >= known.segments:
            raise BadInput(f"input {number}: the model reads one text at a time, not two")
        return row


def _refuse_one(inputs: Sequence[Read]) -> None:
    if isinstance(inputs, str):
        raise TypeError("give a list of texts, not one text")


def _is_text(one: Read) -> TypeGuard[Asked]:
    """Whether it is a text or a pair of texts."""
    return isinstance(one, str) or (
        isinstance(one, tuple) and len(one) == 2 and all(isinstance(part, str) for part in one)
    )
