"""A decoder and its cache between two steps: the state that search works with."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.ground.batch import Ids, PackedTokens, pack
from regard.ground.errors import BadInput
from regard.ground.tape import NULL_TAPE, Tape
from regard.models.attention_site import require_cross_attention
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.trunk_with_heads import TrunkWithHeadsModule
from regard.parts.attention import EncoderOutput


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


Decodable = EncoderDecoderModule | TrunkWithHeadsModule


class DecodingState:
    """A decoder, stepped by torch's operators, with a source or without.

    Rows may start with prompts of different lengths. With ``attention``, the weights of the last
    cross-attention of each step are kept.
    """

    def __init__(
        self,
        model: Decodable,
        source: PackedTokens | None,
        prompts: Prompts | None,
        capacity: int,
        *,
        attention: bool = False,
    ):
        rows, self.device = rows_of(source, prompts)
        self.model, self.inputs = model, source
        self.cache = model.decoder.new_cache(rows, capacity)
        self.recorded: str | None = None
        if attention:
            self.recorded = require_cross_attention(model.cross_attention).weights[-1]
        self._weights_RS: Tensor | None = None
        self._normaliser_R: Tensor | None = None
        self._unread = None if prompts is None else prompts.read

    @cached_property
    def source(self) -> EncoderOutput | None:
        """The encoded source, computed when it is first needed."""
        return None if self.inputs is None else self.model.encode(self.inputs)

    @property
    def rows(self) -> int:
        """R, the rows alive."""
        return self.cache.rows

    def step(self, tokens_R: Tensor) -> Tensor:
        """Log-probabilities of the next token, after one more token in each row."""
        self._read_prompts()
        layout = self.cache.next_layout(self.device)
        tape: Any = NULL_TAPE if self.recorded is None else Tape(self.recorded)
        logits_RV = self.model.decode(tokens_R, layout, self.source, cache=self.cache, tape=tape)
        if self.recorded is not None:
            self._weights_RS = self._recorded_weights(tape.records[self.recorded])
        return self._logprobs(logits_RV.float())

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes what row ``index_R[i]`` was."""
        self._read_prompts()
        self.cache.select_rows(index_R)

    def attention(self) -> Tensor:
        """weights_RS of the last step, the mean of the last layer's heads; NaN beyond a source."""
        if self._weights_RS is None:
            raise ValueError("this state was opened without recording attention")
        return self._weights_RS

    def normaliser(self) -> Tensor:
        """(R,): the logits of the last step minus its log-probabilities."""
        assert self._normaliser_R is not None
        return self._normaliser_R

    def _logprobs(self, logits_RV: Tensor) -> Tensor:
        logprobs_RV = torch.log_softmax(logits_RV, dim=-1)
        self._normaliser_R = logits_RV[:, 0] - logprobs_RV[:, 0]
        return logprobs_RV

    def graphed(self, copies: int, key: Hashable, selector: Callable[..., object]) -> Any:
        """A decoder whose steps are CUDA graphs; there is none here."""
        return None

    def _read_prompts(self) -> None:
        """Before the first step, all tokens of the prompts in one ragged forward pass."""
        read, self._unread = self._unread, None
        if read is not None and len(read.tokens_T):
            self.model.decoder(read.tokens_T, read.layout, source=self.source, cache=self.cache)

    def _recorded_weights(self, weights_RHLS: Tensor) -> Tensor:
        assert self.inputs is not None
        _, _, keys = self.cache.layers[-1].source
        weights_RS = weights_RHLS.mean(1)[:, 0].masked_fill(~keys.real_BL, torch.nan)
        gone = self.inputs.layout.longest - keys.longest  # rows that left may have been longer
        return F.pad(weights_RS, (0, gone), value=torch.nan)


def rows_of(source: PackedTokens | None, prompts: Prompts | None) -> tuple[int, torch.device]:
    """How many rows there are at first, and on which device."""
    read = source if prompts is None else prompts.read
    if read is None:
        raise ValueError("decoding needs a source, prompts, or both")
    if source is not None and source.layout.rows != read.layout.rows:
        raise ValueError(f"{read.layout.rows} prompts for {source.layout.rows} sources")
    return read.layout.rows, read.tokens_T.device


class Engine:
    """A way to step a decoder: torch's operators, for every model on every device.

    Others keep what outlasts a batch: packed weights, captured graphs. ``description`` says in
    words what does the work, if that is not the model itself; ``packed_layers`` are the layers of
    the model whose weights an engine has packed for itself.
    """

    name = "torch"
    description = ""
    packed_layers: Collection[nn.Module] = ()

    def open(
        self, model: Decodable, source: PackedTokens | None, prompts: Prompts | None, capacity: int
    ) -> DecodingState:
        """A state for search, one row for each source or prompt, ``capacity`` tokens a row."""
        return DecodingState(model, source, prompts, capacity)


EAGER = Engine()
