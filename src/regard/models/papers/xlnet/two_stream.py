"""Two streams of states with relative positions and segments (XLNet, Yang et al., 2019)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.layout import Layout
from regard.core.tape import NULL_TAPE, NullTape
from regard.layers.activation import ACTIVATIONS
from regard.layers.attend import Mask, attend, earlier, earlier_or_itself, full
from regard.layers.attention import Heads, HeadsModule, fused_linear
from regard.layers.block import Mlp, Norm, Residual
from regard.layers.dropout import Dropout
from regard.layers.kernels import relative
from regard.layers.relative_score import Distances, RelativeSegmentDot, distances_between
from regard.models.attention_site import AttentionSite
from regard.models.embedding import AnyEmbedding
from regard.models.facts import at_least, one_of, share
from regard.models.heads import Inputs, NextTokenHead
from regard.models.macs import MACs
from regard.models.trunk import AnyStack, StackModule

BEFORE_ALL = -(1 << 30)  # the order of memory


# Names on the tape: the attention of a stream, and its output.
CONTENT, QUERY = "attention", "query_attention"
OUTPUTS = {CONTENT: "output", QUERY: "query_output"}
NOT_IN_TILES = ("scores", "mask", "weights", "distance_scores", "segment_scores")
Memory = Sequence[Tensor]
"""The states of the preceding tokens before each layer, (B, M, D)."""


@dataclass(frozen=True)
class TwoStreamStack(AnyStack):
    """N equal layers over a content stream and, where tokens are predicted, a query stream.

    Attention scores distances and segments, and projections have no biases (Yang et al., 2019).
    ``dropout`` is applied to embeddings, sinusoids of distances, both sublayers and their inside,
    and the last states. All rows of a batch share the mask of the sinusoids, as in Transformer-XL;
    the authors' code draws one for each row.
    """

    attends: ClassVar[bool] = True
    has_queries: ClassVar[bool] = True
    segments: ClassVar[int] = 3  # two texts and the class token
    width: int
    depth: int
    heads: int
    inner: int
    activation: str = "gelu"
    eps: float = 1e-12
    dropout: float = 0.1
    attention_dropout: float = 0.1

    def __post_init__(self) -> None:
        at_least(1, self, "width", "depth", "heads", "inner")
        share(self, "dropout", "attention_dropout")
        one_of(ACTIVATIONS, "activation", self.activation)

    def build(self, embed: AnyEmbedding, source: AnyStack | None = None) -> "TwoStreamModule":
        return TwoStreamModule(self, embed)

    def macs(self, source: AnyStack | None = None) -> MACs:
        own = 4 * self.width * self.width + 2 * self.width * self.inner
        return MACs(self.depth * own, own_pair=self.depth * 4 * self.width)

    def query_macs(self) -> MACs:
        whole = self.macs()
        return whole._replace(token=whole.token - self.depth * 2 * self.width * self.width)

    def self_attention(self, side: str) -> AttentionSite:
        heads = (self.heads,) * self.depth
        return AttentionSite(side, "self", heads, f"{side}.blocks.{{layer}}.attention")


class Stream(NamedTuple):
    """A stream of queries: its name on the tape of a block, its layout and its mask."""

    name: str
    layout: Layout
    mask: Mask


class TwoStreamOutput(NamedTuple):
    """An ``EncoderOutput`` with the states of predicted tokens, in the query stream."""

    states_TD: Tensor
    layout: Layout
    ends: None = None
    state: Memory | None = None
    undropped_TD: None = None
    queries_ND: Tensor | None = None


class TwoStreamModule(StackModule):
    """An embedding and layers that compute a content stream and a query stream."""

    attends = True

    def __init__(self, stack: TwoStreamStack, embed: AnyEmbedding):
        super().__init__()
        self.embed = embed.build(stack.input_width, stack.dropout, stack.norm_settings)
        blocks = [TwoStreamBlock(stack) for _ in range(stack.depth)]
        self.width = stack.width
        self.query_embed = nn.Embedding(1, self.width)  # where every query state begins
        self.blocks = nn.ModuleList(blocks)
        self.dropout = Dropout(stack.dropout)

    def new_memory(self, rows: int, size: int) -> tuple[Tensor, ...]:
        """Initial memory of streams: zeros, as in the code of the paper."""
        weight = self.embed.token.weight
        return tuple(weight.new_zeros(rows, size, self.width) for _ in self.blocks)

    def forward(
        self,
        tokens_T: Tensor,
        layout: Layout,
        *,
        predicted_N: Tensor | None = None,
        state: Memory | None = None,
        tape: NullTape = NULL_TAPE,
    ) -> TwoStreamOutput:
        """Compute states of all tokens, query states of the predicted tokens, and the new memory.

        ``predicted_N`` are positions in the batch, the same number for each row. Without
        ``layout.orders_T``, all tokens see each other.
        """
        x_ND = tape("embed.output", self.embed(tokens_T, layout, tape.under("embed")))
        count = 0 if predicted_N is None else len(predicted_N)
        begin_ND = self.query_embed.weight.expand(count, -1)  # without any, with a gradient of zero
        x_ND = torch.cat([x_ND, self.dropout(begin_ND).to(x_ND.dtype)])
        ordered = layout.orders_T is not None
        streams = [Stream(CONTENT, layout, earlier_or_itself if ordered else full)]
        if predicted_N is not None:
            chosen = _layout_of(predicted_N, layout)
            streams.append(Stream(QUERY, chosen, earlier if ordered else full))
        keys = layout if state is None else _after_memory(layout, state[0].shape[1])
        distances = distances_between(layout, keys, self.width)
        distances = distances._replace(vectors=self.dropout(distances.vectors))
        later = []
        for number, block in enumerate(self.blocks):
            before_BMD = None if state is None else state[number]
            if before_BMD is not None:
                later.append(_remember(before_BMD, x_ND[: layout.tokens], layout))
            inner = tape.under("blocks").under(number)
            x_ND = block(x_ND, streams, keys, before_BMD, distances, tape=inner)
        states_TD, *queries = _split(self.dropout(x_ND), streams)
        return TwoStreamOutput(
            tape("output", states_TD),
            layout,
            queries_ND=queries[0] if queries else None,
            state=tuple(later) if later else None,
        )


class TwoStreamBlock(nn.Module):
    """One layer: attention and a feed-forward sublayer, shared by both streams.

    On a tape, values of sublayers (``attention.output``, ``attention.sum``, ``mlp.output``, …) have
    the values of the content stream, then of the query stream.
    """

    def __init__(self, stack: TwoStreamStack):
        super().__init__()
        width, dropout = stack.width, stack.dropout
        self.attention = TwoStreamAttention(stack)
        self.mlp = Mlp(width, stack.inner, activation=stack.activation, dropout=dropout)
        self.attention_residual = Residual(width, Norm(eps=stack.eps), dropout=dropout)
        self.mlp_residual = Residual(width, Norm(eps=stack.eps), dropout=dropout)

    def forward(
        self,
        x_ND: Tensor,
        streams: Sequence[Stream],
        keys: Layout,
        memory_BMD: Tensor | None,
        distances: Distances,
        *,
        tape: NullTape = NULL_TAPE,
    ) -> Tensor:
        of_mlp = tape.under("mlp")

        def attend_to_content(x: Tensor) -> Tensor:
            attended_ND = self.attention(x, streams, keys, memory_BMD, distances, tape)
            return tape.under(CONTENT)("output", attended_ND)

        def feed_forward(x: Tensor) -> Tensor:
            return of_mlp("output", self.mlp(x, of_mlp))

        x_ND = self.attention_residual(x_ND, attend_to_content, tape=tape.under(CONTENT))
        x_ND = self.mlp_residual(x_ND, feed_forward, tape=of_mlp, last=True)
        parts = zip(streams, _split(x_ND, streams), strict=True)
        return torch.cat([tape(OUTPUTS[stream.name], part) for stream, part in parts])


class TwoStreamAttention(HeadsModule):
    """Attention of both streams, concatenated, to the memory and the content stream."""

    score: RelativeSegmentDot

    def __init__(self, stack: TwoStreamStack):
        width, heads = stack.width, Heads.of(stack.width, stack.heads)
        score = RelativeSegmentDot(width, heads.count, heads.key)
        super().__init__(heads, score, stack.attention_dropout)
        self.q = fused_linear(width, [heads.count * heads.key], bias=False)
        self.kv = fused_linear(width, [heads.count * heads.key] * 2, bias=False)
        self.o = fused_linear(heads.count * heads.key, [width], bias=False)

    def forward(
        self,
        x_ND: Tensor,
        streams: Sequence[Stream],
        keys: Layout,
        memory_BMD: Tensor | None,
        distances: Distances,
        tape: NullTape,
    ) -> Tensor:
        h, content = self.heads, streams[0].layout
        q = h.split_queries(self.q(x_ND))
        key_values = self.kv(x_ND[: content.tokens])
        if memory_BMD is not None:
            of_memory = self.kv(memory_BMD.to(x_ND.dtype))
            key_values = torch.cat([of_memory, content.pad(key_values)], dim=1)
        k, v = h.split_keys(key_values)
        distances = self.score.project(distances, q.dtype)
        attended = [
            self._attend(stream, part, k, v, keys, distances, tape.under(stream.name))
            for stream, part in zip(streams, _split(q, streams), strict=True)
        ]
        return self.o(torch.cat(attended).flatten(1))

    def _attend(
        self,
        stream: Stream,
        q_THK: Tensor,
        k: Tensor,
        v: Tensor,
        keys: Layout,
        distances: Distances,
        tape: NullTape,
    ) -> Tensor:
        """The attention output of one stream, by the tiled kernel where it applies.

        Keys and values are packed or, after a memory, padded.
        """
        q_THK, k, v = tape("queries", q_THK), tape("keys", k), tape("values", v)
        dropout, start = self.dropout if self.training else 0.0, keys.start
        in_tiles = relative.fits(q_THK, k) and not tape.wants(*NOT_IN_TILES)
        if in_tiles and start is not None:
            q, k, v = stream.layout.pad(q_THK), keys.pad(k), keys.pad(v)
            attended_BLHK, _ = relative.attention(
                self.score.for_content(q).to(k.dtype),
                k,
                v,
                self.score.by_distance(q, distances),
                self.score.by_segment(q),
                *_pairs(stream, keys, distances.farthest + start),
                torch.randint(1 << 31, (1,), device=q.device),
                dropout,
            )
            return tape("head_outputs", stream.layout.pack(attended_BLHK))
        attended_THK = attend(
            partial(self.score.with_distances, distances=distances, tape=tape),
            q_THK,
            k,
            v,
            queries=stream.layout,
            keys=keys,
            mask=stream.mask,
            dropout=dropout,
            tape=tape,
        )
        return tape("head_outputs", attended_THK)


def _split(x: Tensor, streams: Sequence[Stream]) -> Sequence[Tensor]:
    """Split a tensor into the parts of each stream."""
    return x.split([stream.layout.tokens for stream in streams])


def _layout_of(predicted_N: Tensor, layout: Layout) -> Layout:
    """The layout of the predicted tokens, as rows with the positions of their tokens."""
    size, rest = divmod(len(predicted_N), max(1, layout.rows))
    if rest:
        raise ValueError(
            f"{len(predicted_N)} predicted tokens cannot be divided among {layout.rows} rows"
        )
    segments_T, orders_T = layout.segments_T, layout.orders_T
    return replace(
        Layout.rectangle(layout.rows, size, predicted_N.device),
        start=None,
        positions_T=layout.positions_T[predicted_N],
        segments_T=None if segments_T is None else segments_T[predicted_N],
        orders_T=None if orders_T is None else orders_T[predicted_N],
    )


def _pairs(stream: Stream, keys: Layout, column: int) -> tuple[Tensor, Tensor]:
    """Limits, columns, segments of queries, (3, B, L); orders and segments of keys, (2, B, S).

    ``column`` is the column of the first key for a query at position 0.
    """

    def padded(layout: Layout, values_T: Tensor | None) -> Tensor:
        return layout.pad(torch.zeros_like(layout.positions_T) if values_T is None else values_T)

    queries = stream.layout
    segments = keys.segments_T if queries.segments_T is not None else None
    limits_BL = padded(queries, queries.orders_T) + (stream.mask != earlier)
    columns_BL = column - padded(queries, queries.positions_T)
    orders_BS = padded(keys, keys.orders_T).masked_fill(~keys.real_BL, relative.NEVER)
    of_queries = limits_BL, columns_BL, padded(queries, queries.segments_T)
    of_keys = orders_BS, padded(keys, segments)
    return torch.stack(of_queries).int(), torch.stack(of_keys).int()


def _after_memory(layout: Layout, size: int) -> Layout:
    """The layout of rows with the memory before their tokens. The memory has segment 0, as in the
    paper's code, and comes first in every order."""
    assert layout.start is not None

    def with_memory(values_T: Tensor | None, fill: int) -> Tensor | None:
        return None if values_T is None else F.pad(layout.pad(values_T), (size, 0), value=fill)

    segments_BS = with_memory(layout.segments_T, 0)
    orders_BS = with_memory(layout.orders_T, BEFORE_ALL)
    rows = Layout.rectangle(
        layout.rows,
        size + layout.longest,
        layout.positions_T.device,
        start=layout.start - size,
        lengths_B=None if layout.full else layout.lengths_B + size,
        padded=True,
    )
    return replace(
        rows,
        segments_T=None if segments_BS is None else segments_BS.flatten(),
        orders_T=None if orders_BS is None else orders_BS.flatten(),
    )


def _remember(memory_BMD: Tensor, x_TD: Tensor, layout: Layout) -> Tensor:
    """Return the new memory: the last states of each row, as many as the old memory has."""
    size, own_BLD = memory_BMD.shape[1], layout.pad(x_TD).to(memory_BMD.dtype)
    all_BSD = torch.cat([memory_BMD, own_BLD], dim=1).detach()
    if layout.full:
        return all_BSD[:, layout.longest :].contiguous()
    at_BM = layout.lengths_B.long()[:, None] + torch.arange(size, device=x_TD.device)
    return all_BSD.gather(1, at_BM[:, :, None].expand(-1, -1, x_TD.shape[-1]))


def read_queries(encoded: TwoStreamOutput, pooled_BD: Tensor | None, at: Tensor | None) -> Inputs:
    """The query states at the given positions; without positions, the states of all tokens."""
    return (encoded.states_TD if at is None else encoded.queries_ND,)


@dataclass(frozen=True)
class PermutationLMHead(NextTokenHead):
    """Permutation-LM head: a token is predicted from its query state (Yang et al., 2019).

    Without predicted positions, all tokens are predicted from their content states.
    """

    name: ClassVar[str] = "permutation_lm"
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_queries)
    reads_queries: ClassVar[bool] = True
    bias: bool = True
