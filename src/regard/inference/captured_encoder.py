"""Encoders whose forward pass is a CUDA graph: batches of few shapes, captured before requests.

A small batch of short texts is limited by the launches of its kernels. Here it is padded to the
smallest of a few shapes (tokens, rows, longest row), each of which was captured by ``warm_up``;
results are the states of the real tokens. Larger batches, images and runs with a tape are eager.
"""

from copy import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.batch import BatchLimits, TokenRow, pack_rows
from regard.core.layout import Layout
from regard.core.pytree import move_tensor, without_caches
from regard.core.tape import NULL_TAPE, NullTape
from regard.generation.cuda_graph import WARM_UP, GraphedCall
from regard.layers.attention import EncoderOutput
from regard.models.transformer import TransformerModule
from regard.models.trunk import StackModule
from regard.models.trunk_with_heads import TrunkWithHeadsModule

if TYPE_CHECKING:
    from regard.core.capture import Pool

TOKENS = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192)  # of captured batches
LONGEST = (64, 256, 1_024)  # tokens of a row
SHORTEST = 8  # mean tokens of a row, if the shape is full
LEAST_ROWS = 16


class GraphedEncoder:
    """Stack over batches that are padded to a fixed shape."""

    def __init__(
        self,
        stack: TransformerModule,
        limits: BatchLimits,
        device: torch.device,
        pool: "Pool | None" = None,
    ):
        self.stack, self.limits, self.device = stack, limits, device
        self.buffers = pack_rows([], limits).to(device)
        self.states_TD: Tensor | None = None
        self.run = GraphedCall(self._run, device, "the encoder", pool)

    def __call__(self, tokens_T: Tensor, layout: Layout) -> EncoderOutput:
        """States of the tokens, which the next call overwrites."""
        tokens, fixed = len(tokens_T), self.buffers.layout
        padded = self.limits.layout(layout.known_lengths)
        self.buffers.tokens_T[:tokens] = tokens_T
        for name in ("lengths_B", "offsets", "positions_T"):
            getattr(fixed, name).copy_(move_tensor(getattr(padded, name), self.device))
        assert fixed.segments_T is not None
        fixed.segments_T[:tokens] = 0 if layout.segments_T is None else layout.segments_T
        self.run()
        assert self.states_TD is not None
        return EncoderOutput(self.states_TD[:tokens], layout)

    def _run(self) -> None:
        batch = without_caches(self.buffers)
        states_TD = self.stack(batch.tokens_T, batch.layout).states_TD
        if self.states_TD is None:
            self.states_TD = torch.empty_like(states_TD)
        self.states_TD.copy_(states_TD)


class CapturedStack(StackModule):
    """Stack that runs batches without a tape as CUDA graphs, if they fit one."""

    def __init__(self, stack: TransformerModule):
        super().__init__()
        self.stack, self.attends, self.capturable = stack, stack.attends, stack.capturable
        self.graphs: dict[BatchLimits, GraphedEncoder] = {}  # from the smallest to the largest

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("stack"), name)

    @torch.no_grad()
    def warm_up(self, device: torch.device) -> None:
        """Capture all shapes; the largest first, so that the others fit into its memory."""
        pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        most = self.stack.embed.position_limit or LONGEST[-1]
        longest = sorted({min(length, most) for length in LONGEST})
        shapes = [
            BatchLimits(tokens, max(LEAST_ROWS, tokens // SHORTEST), length)
            for tokens in TOKENS
            for length in longest
            if length <= tokens
        ]
        row = pack_rows([TokenRow.of([0])]).to(device)
        graphs = {}
        for limits in reversed(shapes):
            graphs[limits] = GraphedEncoder(self.stack, limits, device, pool)
            for _ in range(WARM_UP + 1):
                graphs[limits](row.tokens_T, row.layout)
        self.graphs = {limits: graphs[limits] for limits in shapes}

    def forward(
        self, tokens_T: Tensor, layout: Layout, *, tape: NullTape = NULL_TAPE, **more: Any
    ) -> EncoderOutput:
        eager = tape.live or more or layout.even or layout.orders_T is not None
        if not eager and layout.lengths is not None and layout.start == 0:
            for limits, graph in self.graphs.items():
                rows, tokens = layout.rows <= limits.rows, len(tokens_T) <= limits.tokens
                if rows and tokens and layout.longest <= limits.longest:
                    return graph(tokens_T, layout)
        return self.stack(tokens_T, layout, tape=tape, **more)

    def new_state(self, rows: int) -> object:
        return self.stack.new_state(rows)


def capture_encoder(module: TrunkWithHeadsModule) -> TrunkWithHeadsModule | None:
    """Copy of a model with the same weights and a captured trunk; None if it cannot be captured."""
    device = next(module.parameters()).device
    if type(module.trunk) is not TransformerModule or not module.trunk.embed.vocab:
        return None
    captured = copy(module)
    stack = CapturedStack(module.trunk)
    captured._modules = {**module._modules, "trunk": stack}
    stack.eval().warm_up(device)
    return captured
