"""Decoding state for search: a decoder and its cache between two steps."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.batch import Ids, PackedTokens, pack
from regard.core.errors import BadInput
from regard.core.tape import NULL_TAPE, NullTape, ValueTape
from regard.layers.attention import EncoderOutput
from regard.models.attention_site import require_cross_attention
from regard.models.encoder_decoder import EncoderDecoderModule
from regard.models.trunk_with_heads import TrunkWithHeadsModule


@dataclass(frozen=True, eq=False)
class Prompts:
    """Prompts: all tokens but the last, to ``read`` at once, and the ``last`` ones.

    The last token of a prompt is the first that a search feeds: its ``Constraints.bos``.
    """

    read: PackedTokens
    last: list[int]

    @classmethod
    def of(cls, rows: Sequence[Ids], device: torch.device | str = "cpu") -> "Prompts":
        """Prompts from rows of token ids."""
        for number, row in enumerate(rows, 1):
            if not len(row):
                raise BadInput(f"prompt {number} is empty: it needs a first token, such as BOS")
        read = pack([row[:-1] for row in rows]).to(device)
        return cls(read, [int(row[-1]) for row in rows])


Decodable = EncoderDecoderModule | TrunkWithHeadsModule


class DecodingState:
    """Decoder that is stepped by torch's operators, with a source or without.

    Rows may start with prompts of different lengths. With ``attention``, each step records the
    weights of the last cross-attention. A ``tape`` edits the values of the encoder, of the prompts
    and of every step.
    """

    def __init__(
        self,
        model: Decodable,
        source: PackedTokens | None,
        prompts: Prompts | None,
        capacity: int,
        *,
        attention: bool = False,
        tape: NullTape = NULL_TAPE,
    ):
        rows, self.device = rows_of(source, prompts)
        self.model, self.inputs, self.prompts, self.tape = model, source, prompts, tape
        self.cache = model.decoder.new_cache(rows, capacity)
        self.recorded: str | None = None
        if attention:
            self.recorded = require_cross_attention(model.cross_attention).weights[-1]
        self._weights_RS: Tensor | None = None
        self._normaliser_R: Tensor | None = None
        self._unread = None if prompts is None else prompts.read

    @cached_property
    def source(self) -> EncoderOutput | None:
        """Encoded source, computed at the first use."""
        return None if self.inputs is None else self.model.encode(self.inputs, tape=self.tape)

    @property
    def rows(self) -> int:
        """Number of active rows, R."""
        return self.cache.rows

    def step(self, tokens_R: Tensor) -> Tensor:
        """Feed one token per row; return log-probabilities of the next token."""
        self._read_prompts()
        layout = self.cache.next_layout(self.device)
        tape = self.tape if self.recorded is None else ValueTape(self.recorded, self.tape)
        logits_RV = self.model.decode(tokens_R, layout, self.source, cache=self.cache, tape=tape)
        if isinstance(tape, ValueTape):
            self._weights_RS = self._recorded_weights(tape.value)
        return self._logprobs(logits_RV.float())

    def select_rows(self, index_R: Tensor) -> None:
        """Drop, repeat or reorder rows: row i becomes a copy of row ``index_R[i]``."""
        self._read_prompts()
        self.cache.select_rows(index_R)

    def join(self, other: "DecodingState") -> None:
        """Append the rows of another state of the same model, which has neither source nor RNN."""
        for state in (self, other):
            state._read_prompts()
        self.cache.join(other.cache, self.device)

    def attention(self) -> Tensor:
        """Attention weights_RS of the last step, mean of the last layer's heads; NaN at padding."""
        if self._weights_RS is None:
            raise ValueError("this state was opened without recording attention")
        return self._weights_RS

    def normaliser(self) -> Tensor:
        """Logits of the last step minus its log-probabilities, (R,)."""
        assert self._normaliser_R is not None
        return self._normaliser_R

    def _logprobs(self, logits_RV: Tensor) -> Tensor:
        logprobs_RV = torch.log_softmax(logits_RV, dim=-1)
        self._normaliser_R = logits_RV[:, 0] - logprobs_RV[:, 0]
        return logprobs_RV

    captures = False

    def graphed(self, copies: int, key: Hashable, selector: Callable[..., object]) -> Any:
        """Decoder whose steps are CUDA graphs: None in this state."""
        return None

    def _read_prompts(self) -> None:
        """Read all tokens of the prompts in one ragged forward pass, before the first step."""
        read, self._unread = self._unread, None
        if read is not None and len(read.tokens_T):
            tape = self.tape.under(self.model.decoder_path)
            self.model.decoder(
                read.tokens_T, read.layout, source=self.source, cache=self.cache, tape=tape
            )

    def _recorded_weights(self, weights_RHLS: Tensor) -> Tensor:
        assert self.inputs is not None
        _, _, keys = self.cache.layers[-1].source
        weights_RS = weights_RHLS.mean(1)[:, 0].masked_fill(~keys.real_BL, torch.nan)
        missing = self.inputs.layout.longest - keys.longest  # dropped rows may have been longer
        return F.pad(weights_RS, (0, missing), value=torch.nan)


def rows_of(source: PackedTokens | None, prompts: Prompts | None) -> tuple[int, torch.device]:
    """Initial number of rows, and their device."""
    read = source if prompts is None else prompts.read
    if read is None:
        raise ValueError("decoding needs a source, prompts, or both")
    if source is not None and source.layout.rows != read.layout.rows:
        raise ValueError(f"{read.layout.rows} prompts for {source.layout.rows} sources")
    return read.layout.rows, read.tokens_T.device


class Engine:
    """Engine that steps a decoder by torch's operators, for every model on every device.

    Subclasses hold packed weights or captured graphs. ``description`` names the implementation, if
    it is not the model itself; ``packed_layers`` are the layers that the engine has packed. A live
    ``tape`` edits every step.
    """

    name = "torch"
    tape: NullTape = NULL_TAPE
    description = ""
    packed_layers: Collection[nn.Module] = ()
    captures = False  # whether searches on the device become CUDA graphs

    def freeze(self) -> None:
        """Capture nothing more."""

    def open(
        self, model: Decodable, source: PackedTokens | None, prompts: Prompts | None, capacity: int
    ) -> DecodingState:
        """Open a state for search, with one row of ``capacity`` tokens per source or prompt."""
        return DecodingState(model, source, prompts, capacity, tape=self.tape)


class EditingEngine(Engine):
    """Engine of torch's operators whose steps a ``tape`` edits."""

    def __init__(self, tape: NullTape):
        self.tape = tape


EAGER = Engine()
