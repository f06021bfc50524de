"""Decoding by CUDA graphs: a step on fixed buffers, captured once and replayed for every batch.

Launching many small kernels limits the speed of decoding. With fixed shapes and token selection on
the device, a whole step (decode, select, reorder) is one graph, which the host replays. Encoding
the source is another graph, and so is reading short prompts.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.core.batch import BatchLimits, PackedTokens, pack
from regard.core.capture import CapturedGraph, capture
from regard.core.layout import Layout
from regard.core.pytree import move_tensor, tensors_in, without_caches
from regard.core.tape import NULL_TAPE, NullTape
from regard.generation.state import Decodable, DecodingState, Engine, Prompts
from regard.layers.attend import Dot, ScaledDot, WindowMask
from regard.layers.attention import EncoderOutput
from regard.layers.block import Block, unsupported
from regard.layers.kernels import few_rows
from regard.layers.kernels.decode_step import Angles
from regard.layers.rotary import RotaryDot
from regard.layers.static_kv_cache import StaticKVCache, StaticLayerKVCache

if TYPE_CHECKING:
    from regard.core.capture import Pool

POOL_SIZE = 32  # graphed decoders of an engine; the least recently used is dropped
WARM_UP = 2  # calls before a capture, which initialise libraries
LEAST_SOURCE, LEAST_CAPACITY, LEAST_PROMPTS = 16, 64, 16  # smallest buffers; sizes are doubled
MOST_PROMPTS = 4096  # prompt tokens that a graph reads: more are not limited by launches


class TokenSelector(Protocol):
    """Token selector on the device, with fixed shapes."""

    def select(self, logits_RV: Tensor) -> tuple[Tensor, Tensor | None]:
        """Select the next token of each row, and the row that it continues (None: its own)."""


Selector = TypeVar("Selector", bound=TokenSelector)
Sizes = tuple[int, int, int, int]


class GraphedCall:
    """Function of fixed tensors, called eagerly at first, then replayed as one CUDA graph.

    The call stays eager on a CPU, or if the capture fails. Graphs that share a ``pool`` of memory
    leave all their results in tensors outside it.
    """

    def __init__(
        self,
        function: Callable[[], None],
        device: torch.device,
        name: str,
        pool: "Pool | None" = None,
    ):
        self.function, self.device, self.name, self.pool = function, device, name, pool
        self.calls, self.captures = 0, device.type == "cuda"
        self.graph: CapturedGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.captures and self.calls > WARM_UP:
            captured = capture(self.function, self.device, self.name, self.pool)
            self.graph = None if captured is None else captured[0]
            self.captures = False
        if self.graph is None:
            self.function()
        else:
            self.graph.replay()


class GraphedDecoder(Generic[Selector]):
    """Decoder with fixed buffers, and a token selector.

    ``sizes`` are the number of sentences, copies of each, tokens of a row, and tokens of a source
    (0: no source).
    """

    def __init__(self, model: Decodable, selector: Selector, sizes: Sizes, device: torch.device):
        self.model, self.selector = model, selector
        sentences, _, _, source_longest = sizes
        self.cache = model.decoder.new_static_cache(*sizes, device)
        self.stepped = for_few_rows(model, self.cache)  # the model that a step runs
        self.source_BS = torch.zeros(sentences, source_longest, dtype=torch.long, device=device)
        self.lengths_B = torch.ones(sentences, dtype=torch.int32, device=device)
        self.tokens_R = torch.zeros(self.cache.rows, dtype=torch.long, device=device)
        self.step = GraphedCall(self._step, device, "a decoding step")
        self.encode = GraphedCall(self._encode, device, "the encoder")
        self.prompts: dict[BatchLimits, GraphedPrompts] = {}
        self.is_frozen = False  # if so, prompts of new shapes are read eagerly

    def start(self, source: PackedTokens | None, prompts: Prompts | None) -> None:
        """Start a batch; unused sentences become rows of one token."""
        if source is None:
            self.model.decoder.start(self.cache, None)
        else:
            layout = source.layout
            self.source_BS[: layout.rows, : layout.longest] = layout.pad(source.tokens_T)
            self.lengths_B.fill_(1)
            self.lengths_B[: layout.rows] = layout.lengths_B
            self.encode()
        if prompts is not None:
            self._read(prompts.read, source)

    def feed(self, first_B: Tensor) -> None:
        """Set the first token of each sentence."""
        first_R = first_B.to(self.tokens_R.device).repeat_interleave(self.cache.copies)
        self.tokens_R[: len(first_R)] = first_R

    def _encode(self) -> None:
        rows, source_longest = self.source_BS.shape
        device = self.source_BS.device
        layout = Layout.rectangle(rows, source_longest, device, lengths_B=self.lengths_B)
        encoded = self.model.encode(PackedTokens(self.source_BS.flatten(), layout))
        self.model.decoder.start(self.cache, encoded)

    def _read(self, prompts: PackedTokens, source: PackedTokens | None) -> None:
        """Read all tokens of the prompts in one ragged forward pass."""
        tokens, cache = len(prompts.tokens_T), self.cache
        if cache.reads_fixed_prompts and source is None and 0 < tokens <= MOST_PROMPTS:
            longest = min(at_least(prompts.layout.longest, LEAST_PROMPTS), cache.capacity)
            sentences = cache.rows // cache.copies
            limits = BatchLimits(at_least(max(tokens, longest), LEAST_PROMPTS), sentences, longest)
            if limits not in self.prompts and not self.is_frozen:
                self.prompts[limits] = GraphedPrompts(self, limits)
            self.prompts.get(limits, self.read_prompts)(prompts)
        elif tokens:
            encoded = None if source is None else self.model.encode(source)
            self.read_prompts(prompts, encoded)
        cache.start_after(prompts.layout.lengths_B)

    def read_prompts(self, prompts: PackedTokens, encoded: EncoderOutput | None = None) -> None:
        """Run the decoder on prompts, which fills the cache."""
        cache = self.cache.for_prompts(prompts.layout.rows)
        self.model.decoder(prompts.tokens_T, prompts.layout, source=encoded, cache=cache)

    def _step(self) -> None:
        cache = self.cache
        cache.forget()  # a capture that failed has cached tensors that were never computed
        logits_RV = self.stepped.decode(self.tokens_R, cache.queries, None, cache=cache)
        tokens_R, index_R = self.selector.select(logits_RV)
        self.tokens_R.copy_(tokens_R)
        if index_R is not None:
            cache.select_rows(index_R)


class PromptReader(Protocol):
    """Decoder that reads prompts into its cache."""

    tokens_R: Tensor

    def read_prompts(self, prompts: PackedTokens) -> None: ...


class GraphedPrompts:
    """Reader of prompts of a fixed shape, padded by rows that are ignored."""

    def __init__(self, decoder: PromptReader, limits: BatchLimits, pool: "Pool | None" = None):
        self.decoder, self.limits = decoder, limits
        self.device = decoder.tokens_R.device
        self.buffers = pack([], limits).to(self.device)
        self.read = GraphedCall(self._read, self.device, "the prompts", pool)

    def __call__(self, prompts: PackedTokens) -> None:
        self.buffers.tokens_T[: len(prompts.tokens_T)] = prompts.tokens_T
        layout = self.limits.layout(prompts.layout.known_lengths)
        for old, new in zip(tensors_in(self.buffers.layout), tensors_in(layout), strict=True):
            old.copy_(move_tensor(new, self.device), non_blocking=True)
        self.read()

    def _read(self) -> None:
        self.decoder.read_prompts(without_caches(self.buffers))


class CudaGraphEngine(Engine):
    """Engine with a pool of graphed decoders by key; without CUDA nothing is captured.

    The module and its precision are part of every key. Moving or replacing weights after a capture
    has no effect on the graph.
    """

    name = "cuda-graph"
    captures = True

    def __init__(self) -> None:
        self.decoders: OrderedDict[tuple[Hashable, Sizes], GraphedDecoder] = OrderedDict()
        self.is_frozen = False

    def get(
        self, key: Hashable, sizes: Sizes, build: Callable[[], GraphedDecoder]
    ) -> GraphedDecoder | None:
        """Decoder with this key and these sizes, built if there is none.

        A frozen engine gives the smallest decoder of at least these sizes; None: it has none.
        """
        if self.is_frozen:
            return self._covering(key, sizes)
        if (key, sizes) not in self.decoders:
            if len(self.decoders) >= POOL_SIZE:
                self.decoders.popitem(last=False)
            self.decoders[key, sizes] = build()
        self.decoders.move_to_end((key, sizes))
        return self.decoders[key, sizes]

    def _covering(self, key: Hashable, sizes: Sizes) -> GraphedDecoder | None:
        large = {
            prod(of_decoder): decoder
            for (of_key, of_decoder), decoder in self.decoders.items()
            if of_key == key and of_decoder[1] == sizes[1] and covers(of_decoder, sizes)
        }
        return large[min(large)] if large else None

    def freeze(self) -> None:
        """Capture nothing more: batches that no decoder covers are stepped by torch's operators."""
        self.is_frozen = True
        for decoder in self.decoders.values():
            decoder.is_frozen = True

    def open(
        self, model: Decodable, source: PackedTokens | None, prompts: Prompts | None, capacity: int
    ) -> DecodingState:
        state = GraphDecodingState(model, source, prompts, capacity)
        state.engine = self
        return state


class GraphDecodingState(DecodingState):
    """State whose engine has graphs for searches that select tokens on the device.

    Other searches step it by torch's operators.
    """

    engine: CudaGraphEngine
    captures = True

    def graphed(
        self, copies: int, key: Hashable, selector: Callable[..., Selector]
    ) -> GraphedDecoder[Selector] | None:
        """Decoder of this batch, with ``copies`` rows for each sentence; None: not captured.

        ``selector(sentences, steps, vocab, device)`` makes its token selector.
        """
        sentences = at_least(self.rows, 1)
        capacity = at_least(self.cache.capacity, LEAST_CAPACITY)
        capacity = min(capacity, self.model.decoder.embed.position_limit or capacity)
        source_longest = 0
        if self.inputs is not None:
            limit = self.model.encoder.embed.position_limit
            source_longest = at_least(self.inputs.layout.longest, LEAST_SOURCE)
            source_longest = min(source_longest, limit or source_longest)
        sizes = (sentences, copies, capacity, source_longest)

        def build() -> GraphedDecoder[Selector]:
            vocab = cast(nn.Linear, self.model.output).out_features
            selects = selector(sentences, capacity, vocab, self.device)
            return GraphedDecoder(self.model, selects, sizes, self.device)

        made_for = (self.model, next(self.model.parameters()).dtype)
        decoder = self.engine.get((*made_for, key), sizes, build)
        if decoder is not None:
            decoder.start(self.inputs, self.prompts)
        return decoder


def covers(sizes: Sizes, needed: Sizes) -> bool:
    """Whether each size is at least the one that is needed."""
    return all(size >= least for size, least in zip(sizes, needed, strict=True))


def at_least(number: int, least: int) -> int:
    """Round ``number`` up to one of ``least``, 2 ``least``, 4 ``least``, …."""
    while least < number:
        least *= 2
    return least


def for_few_rows(model: Decodable, cache: StaticKVCache) -> Decodable:
    """Copy a model with fused blocks and output layer, which share its parameters.

    The model itself is returned if a block does not fit.
    """
    blocks = list(model.decoder.blocks) if model.decoder.attends else []
    if not (blocks and all(map(fits, blocks))):
        return model
    shared = *model.parameters(), *model.buffers()
    memo: dict[int, object] = {id(value): value for value in shared}
    angles = angles_of(blocks, cache)
    memo |= {id(block): FusedBlock(block, angles.get(block)) for block in blocks}
    memo[id(model.output)] = FewRowsLinear(cast(nn.Linear, model.output))
    return copy.deepcopy(model, memo)


FUSED: dict[str, Set[str | type[nn.Module]]] = {  # traits of blocks that ``FusedBlock`` computes
    "norm": {"layer", "layer-no-bias", "rms"},
    "norm placement": {"pre"},
    "score": {Dot, ScaledDot, RotaryDot},
    "mask": {"full", "causal", "window"},
    "cross-attention": {"no"},
    "heads": {"some"},
    "keys": {"one for each head", "one for several heads"},
    "feed-forward": {"plain", "gated"},
    "activation": {*few_rows.NAMES.values()},
    "biases": {"yes", "no"},
    "layer scale": {"no"},
}


def fits(block: Block) -> bool:
    """Whether a block has the traits of ``FUSED``, and its layers fit the fused kernels."""
    layers = (block.attention.qkv, block.attention.o, block.mlp.up, block.mlp.down)
    few = all(map(few_rows.fits, layers))
    return few and not block.training and not any(unsupported(block, FUSED))


def angles_of(blocks: Sequence[Block], cache: StaticKVCache) -> dict[Block, Angles]:
    """Cosines and sines of all positions of the cache, for blocks with rotary positions."""
    rotations = {
        block: block.attention.score.rotation
        for block in blocks
        if isinstance(block.attention.score, RotaryDot)
    }
    tables = {rotation: rotation.angles(cache.positions_S) for rotation in {*rotations.values()}}
    return {block: tables[rotation] for block, rotation in rotations.items()}


class FusedBlock(nn.Module):
    """Fused version of a pre-norm ``Block`` without a source, with the block's parameters."""

    def __init__(self, block: Block, angles: Angles | None):
        super().__init__()
        self.block, self.angles = block, angles
        self.left = cast(WindowMask, block.attention.mask).left
        self.scale = cast(Dot, block.attention.score).scale(block.attention.heads.key)

    def forward(
        self,
        x_RD: Tensor,
        layout: Layout,
        *,
        cache: StaticLayerKVCache,
        source: EncoderOutput | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        attention, mlp, heads = self.block.attention, self.block.mlp, self.block.attention.heads
        qkv_RF = few_rows.linear(x_RD, attention.qkv, norm=self.block.attention_residual.norm)
        q, k, v = heads.split(qkv_RF)
        attended_RHK = cache.attend(q, k, v, self.scale, self.left, self.angles)
        x_RD = few_rows.linear(attended_RHK.flatten(1), attention.o, residual_RF=x_RD)
        norm = self.block.mlp_residual.norm
        activation, gate = (None, mlp.activation) if mlp.gated else (mlp.activation, None)
        inner_RF = few_rows.linear(x_RD, mlp.up, norm=norm, activation=activation)
        return tape("output", few_rows.linear(inner_RF, mlp.down, gate=gate, residual_RF=x_RD))


class FewRowsLinear(nn.Module):
    """Linear layer for few rows, with the parameters of ``layer``."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer
        self.out_features = layer.out_features

    def forward(self, x_RD: Tensor) -> Tensor:
        return few_rows.linear(x_RD, self.layer)
