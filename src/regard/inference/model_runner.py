"""Base class of runners: a model that reads inputs, and runs them in batches or with a tape."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.batch import BatchLimits, Ids, PackedTokens, TokenRow, pack_rows, pack_texts
from regard.core.cancellation import check_wanted
from regard.core.checks import check_whole, is_whole, listed
from regard.core.errors import BadInput, shown
from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape, Tape, ValueTape
from regard.inference.component import TOKENS
from regard.inference.inputs import InputLimits, token_ids
from regard.inference.row_batches import Rows, check_finite, device_of, in_order, row_batches
from regard.inference.text_tokens import TextTokens
from regard.models.attention_site import AttentionSite
from regard.models.edits import AnyEdit, edit_module
from regard.models.encoder_decoder import ModelFacts, ModelModule
from regard.models.folders.loaded_model import LoadedModel
from regard.models.trunk_with_heads import Outputs, TrunkWithHeadsModule
from regard.text.label_sets import LabelSet
from regard.text.segmentation import LabelledImage, LabelledRows
from regard.text.tokenizers.list import Tokenizer
from regard.text.words import check_text


@dataclass(frozen=True, eq=False)
class ModelRunner(ABC):
    """Runner: a loaded model with its limits; its components and views of it run it.

    Texts of more than ``max_length`` tokens are truncated by encoders and refused by translators.
    """

    loaded: LoadedModel
    batch_size: int = 64
    max_length: int | None = None

    @classmethod
    def of(cls, loaded: LoadedModel) -> Self:
        """Runner of the model of a folder, in the precision of its weights."""
        return cls(loaded)

    @property
    def module(self) -> ModelModule:
        """The module that runs."""
        return cast(ModelModule, self.loaded.module)

    @property
    def facts(self) -> ModelFacts:
        """The facts of the model."""
        return self.loaded.facts

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer, or None if the folder has no tokenizer files."""
        return cast(Tokenizer | None, self.loaded.tokenizer)

    @property
    def labels(self) -> LabelSet | None:
        """The labels that the model predicts, if any."""
        return self.loaded.labels

    @property
    def notes(self) -> dict[str, Any]:
        """The notes of the folder: settings of training, decoding and embedding."""
        return self.loaded.notes

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return device_of(self.module)

    @property
    def limits(self) -> BatchLimits:
        """The maximum numbers of tokens and rows of a batch."""
        return BatchLimits(TOKENS, self.batch_size, TOKENS)

    @property
    @abstractmethod
    def position_limit(self) -> int | None:
        """The maximum number of tokens that positions allow; None: no limit."""

    @property
    def truncation(self) -> int | None:
        """The number of tokens to which texts are truncated; None: texts are read whole."""
        return None

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

    @abstractmethod
    def with_precision(self, kind: str, engine: str = "auto") -> Self:
        """A copy for inference in "fp32", "bf16", "int8" (on a CPU) or "auto".

        ``engine`` runs the decoding steps of a model that generates text.
        """

    def with_limits(self, batch_size: int | None, max_length: int | None = None) -> Self:
        """A copy with other limits; None keeps a limit."""
        changes = {"batch_size": batch_size, "max_length": max_length}
        limits = {name: check_whole(name, n, 1) for name, n in changes.items() if n is not None}
        return replace(cast(Any, self), **limits) if limits else self

    def with_module(self, module: nn.Module) -> Self:
        """A copy that runs another module of the same facts."""
        return replace(self, loaded=replace(self.loaded, module=module))

    def edited(self, edits: Sequence[AnyEdit]) -> Self:
        """Copy of the model, with the same weights, whose runs are edited."""
        return self.with_module(edit_module(self.module, self.facts.sides, edits))

    def parse(self, line: str, where: str) -> object:
        """The text, or the pair of texts, in a line of a file."""
        return line

    @abstractmethod
    def token_count(self, given: Any, most: int) -> int:
        """The number of tokens of an input, with special tokens; exact only above ``most``."""

    def listed(self, inputs: Iterable[object], of: str = "texts") -> list[Any]:
        """Inputs as a list; a single string is refused."""
        return listed(inputs, of)

    @abstractmethod
    def read_rows(self, inputs: Iterable[Any]) -> Rows:
        """Rows of inputs: texts as ids with their special tokens, ids unchanged."""

    @abstractmethod
    def tokens(self, inputs: Iterable[Any]) -> list[TextTokens]:
        """The tokens of each input, with the characters and words that they stand for."""

    def default_target(self, text: str) -> str | None:
        """Default second text of ``look``; for translators, the translation."""
        return None

    def label(self, given: object) -> LabelledRows:
        """Labelled rows of a text, a pair of texts, an image, token ids, or a pair of ids."""
        is_pair = isinstance(given, tuple) and not all(map(is_whole, given))
        parts = cast(tuple[Any, ...], given) if is_pair else (given,)
        if len(parts) > 2:
            raise BadInput(f"{shown(given)} has more than two texts")
        if self.reads_images or isinstance(parts[0], str):
            return self.read(*parts)
        return self.label_ids(*(token_ids(ids, 1) for ids in parts if ids is not None))

    def read(
        self, first: object, second: str | None = None, *, repeat: bool = False
    ) -> LabelledRows:
        """Labelled rows of a text, of two texts, or of an image.

        Without a ``second`` text, a translator translates the first. With ``repeat``, all tokens
        follow twice.
        """
        if self.reads_images:
            return {"trunk": self.label_image(first)}
        if self.tokenizer is None:
            raise BadInput(
                "this folder has no tokenizer files: from Python, record() reads token ids"
            )
        text, *_ = (check_text(text, 1) for text in (first, second) if text is not None)
        second = self.default_target(text) if second is None else second
        rows = self.tokenizer.label(text, second)
        if not all(len(row.row.tokens) for row in rows.values()):
            raise BadInput("the text has no tokens: there is no attention to show")
        return {side: row.repeated() if repeat else row for side, row in rows.items()}

    def label_image(self, image: object) -> LabelledImage:
        """An image with the names of its tokens; models of text refuse it."""
        raise BadInput(f"{self.loaded.paper.name} reads texts, not images")

    def label_ids(self, first: Ids, second: Ids | None = None) -> LabelledRows:
        """Rows of token ids, with the names of their tokens; of a translator, source and target."""
        raise BadInput(f"{self.loaded.paper.name} reads images, not token ids")

    def batches(
        self, rows: Rows, tape: NullTape = NULL_TAPE
    ) -> Iterator[tuple[list[int], PackedTokens]]:
        """Batches with the indices of their rows; with a live ``tape`` in the given order."""
        return row_batches(self.module, rows, self.limits, tape)

    def split(self, states_TD: Tensor, layout: Layout) -> Sequence[Tensor]:
        """Split packed states into the states of each row."""
        return layout.split(states_TD)

    @torch.no_grad()
    def states(self, rows: Rows, name: str, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """Encoder states of the tape path ``name`` for each row, (tokens, width).

        Rows are split by ``split``, which may leave out special tokens.
        """

        def states_of(batch: PackedTokens, tape: ValueTape) -> Sequence[Tensor]:
            layout = self.module.encode(batch, tape=tape).layout
            return self.split(check_finite(self.module, tape.value), layout)

        with tape.batches() as run:
            return in_order(
                (numbers, states_of(batch, ValueTape(name, run.next_batch())))
                for numbers, batch in self.batches(rows, tape)
            )

    @torch.no_grad()
    def carried_states(self, rows: Rows, name: str, tape: NullTape = NULL_TAPE) -> list[Tensor]:
        """States (tokens, width) of rows; each row begins with the last state of the row before."""
        module = cast(TrunkWithHeadsModule, self.module)
        states, state = list[Tensor](), module.encoder.new_state(1)
        with tape.batches() as run:
            for row in rows:
                check_wanted()
                record, batch = ValueTape(name, run.next_batch()), pack_texts([row]).to(self.device)
                state = module.encode(batch, tape=record, state=state).state
                states += self.split(check_finite(module, record.value), batch.layout)
        return states

    def run(self, inputs: Sequence[LabelledRows], tape: NullTape = NULL_TAPE) -> Outputs:
        """Outputs of a forward pass over inputs, with gradients unless torch is told otherwise.

        On a tape, values of tokens are packed: first the tokens of the first input, then others.
        All that is computed in batches runs here, and ends here once nobody waits for it.
        """
        check_wanted()
        packed = []
        for side in self.facts.sides:
            limits = InputLimits.of(getattr(self.module, side))
            for number, rows in enumerate(inputs, start=1):
                limits.check_row(rows[side].row, number)
            packed.append(pack_texts([rows[side].row for rows in inputs]))
        return self.module(self.facts.inputs(*packed).to(self.device), tape=tape)

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
        self.module(self.facts.inputs(*tokens).to(self.device), tape=tape)
