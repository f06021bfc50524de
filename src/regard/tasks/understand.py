"""What can be done with an encoder, by its facts, its text and what is noted of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, cast

import numpy as np
from torch import Tensor

from regard.ground.batch import Ids, TokenRow
from regard.ground.errors import BadInput, BadItem
from regard.ground.layout import Layout
from regard.ground.tape import NULL_TAPE, NullTape
from regard.models.build.trunk_with_heads import Outputs, TrunkWithHeadsModule
from regard.models.facts import TrunkWithHeads
from regard.models.hf import ASKED
from regard.parts.linear.convert import in_precision, products_in_use
from regard.tasks.answer import CONTEXT, Answerer
from regard.tasks.choose import Chooser
from regard.tasks.classify import EncoderClassifier
from regard.tasks.embed import Embedder
from regard.tasks.fill import Filler
from regard.tasks.inputs import InputLimits, check_text, listed, token_ids
from regard.tasks.rows import Asked, Runner, longest_row, rows_of
from regard.tasks.tag import Tagger
from regard.text.encoder_tokenizer import EncoderTokenizer
from regard.text.ids_only import MISSING
from regard.text.labels import LabelSet

Read = Asked | TokenRow | Ids  # a text, a pair of texts, or what was made of them
TASKS = {"label": "classify", "token_label": "tag", "span": "answer", "choice": "choose"}
LONGEST = 512  # of rows that nothing else limits
READABLE = "neither a text, a pair of texts nor token ids"


@dataclass(frozen=True, eq=False)
class Understanding(Runner):
    """An encoder. Without a text it reads ids alone."""

    model: TrunkWithHeadsModule
    facts: TrunkWithHeads
    tokenizer: EncoderTokenizer | None
    labels: LabelSet | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    rows: int = 256

    @property
    def text(self) -> EncoderTokenizer:
        """Its vocabulary."""
        if self.tokenizer is None:
            raise BadInput(MISSING)
        return self.tokenizer

    @property
    def longest(self) -> int | None:
        """The most tokens of a row, if anything limits them."""
        return longest_row(self.facts, self.text)

    def with_precision(self, kind: str) -> "Understanding":
        """The same, for inference only, in "fp32", "bf16", "int8" (on a CPU) or "auto"."""
        return replace(self, model=cast(TrunkWithHeadsModule, in_precision(self.model, kind)))

    @property
    def engine(self) -> str:
        """What does the work, in words."""
        dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        return products_in_use(self.model) or f"{dtype} on {self.device.type}"

    @property
    def predictor(self) -> EncoderClassifier | Tagger | Answerer | Chooser:
        """What it was tuned to do, asked as it was then where that is noted."""
        names = [head.name for head in self.facts.output_heads]
        tasks = [TASKS[name] for name in names if name in TASKS]
        if not tasks:
            raise BadInput("this encoder was tuned for no task: there is nothing to predict")
        task, text, noted = tasks[0], self.text, self._noted_numbers()
        usual = CONTEXT if task == "answer" else None
        limits = [self.longest, noted.pop("longest", usual)]
        longest = min((one for one in limits if one is not None), default=None)
        if task == "answer":
            return Answerer(self.model, text, longest=longest or CONTEXT, **noted)
        if task == "choose":
            return Chooser(self.model, text, longest=longest)
        if self.labels is None:
            raise BadInput("this folder has no labels: nothing can be named")
        if task == "tag":
            return Tagger(self.model, text, self.labels, longest=longest or LONGEST)
        return EncoderClassifier(self.model, text, self.labels, longest=longest)

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
        limits = [noted.get("longest"), None if self.tokenizer is None else self.longest]
        return Embedder(
            self.model,
            self.tokenizer,
            longest=min((one for one in limits if one is not None), default=None),
            pool=pool or noted.get("pool", "mean"),
            normalise=noted.get("normalise", False) if normalise is None else normalise,
            lower=noted.get("lower", False),
        )

    def read(self, inputs: Iterable[Read], *, masks: bool = False) -> list[TokenRow]:
        """Texts as rows, cut to what it can read; ids as they are. With ``masks``, texts have some.

        Rows that it cannot read are an error.
        """
        numbered = enumerate(listed(inputs), start=1)
        return [self._checked(self._row(one, masks, i), i) for i, one in numbered]

    def vectors(
        self, inputs: Iterable[Read], pool: str | None, normalise: bool | None = None
    ) -> Tensor:
        """(inputs, width): one vector for each; see ``embedder``."""
        given, embedder = listed(inputs), self.embedder(pool, normalise)
        for number, one in enumerate(given, start=1):
            _check_unicode(one, number)
        texts = [one for one in given if _is_text(one)]
        of_texts = iter(embedder.rows_of(texts) if texts else [])
        rows = [next(of_texts) if _is_text(one) else one for one in given]
        return embedder.vectors(self.read(rows))

    def logits(self, rows: Sequence[TokenRow], tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """(tokens, vocabulary) for each row; of a task, (tokens, labels), or (labels,) of all."""
        heads = [head for head in self.facts.output_heads if head.name in (*TASKS, "mlm")]
        if not heads:
            raise BadInput("this encoder has no output head; use encode()")
        head = heads[-1]

        def split(outputs: Outputs, layout: Layout) -> Sequence[Tensor]:
            logits = outputs.by_head[head.name]
            return logits.unbind() if head.per_row else layout.split(logits)

        return self.outputs(rows, split, tape)

    def _row(self, one: Read, masks: bool, number: int) -> TokenRow:
        if isinstance(one, TokenRow):
            return one
        _check_unicode(one, number)
        if isinstance(one, str) and masks:
            ids = self.text.masked(one)
            return self.text.row(ids, longest=self.longest)
        if _is_text(one):
            return rows_of(self.text, [one], self.longest)[0]
        ids = token_ids(one, number, READABLE)
        return TokenRow(ids, [0] * len(ids))

    def _checked(self, row: TokenRow, number: int) -> TokenRow:
        known = self.facts.trunk.embed.segments
        tokens = token_ids(row.tokens, number, READABLE)
        InputLimits.of(self.model.encoder).check(tokens, number)
        if len(row.segments) != len(tokens) or np.min(row.segments) < 0:
            raise BadItem(number, "each token needs the number of its text, from 0")
        if known and np.max(row.segments) >= known:
            raise BadItem(number, "the model reads one text at a time, not two")
        return row


def _check_unicode(one: Read, number: int) -> None:
    if _is_text(one):
        for text in (one,) if isinstance(one, str) else one:
            check_text(text, number)


def _is_text(one: Read) -> TypeGuard[Asked]:
    """Whether it is a text or a pair of texts."""
    return isinstance(one, str) or (
        isinstance(one, tuple) and len(one) == 2 and all(isinstance(part, str) for part in one)
    )
