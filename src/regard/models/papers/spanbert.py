"""SpanBERT (Joshi et al., 2019, arXiv:1907.10529): BERT with the cased vocabulary, pre-trained on
single segments with masked spans, whose tokens are also predicted from the boundary of their span.

Published folders have BERT's format. The boundary head, which ``transformers`` lacks, is written
beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.models.facts import change
from regard.models.formats import Architectures, HFHead, UnreadKey
from regard.models.heads import AnyHead, Inputs, tie
from regard.models.label_heads import read_spans
from regard.models.paper import PAPER_KEY, Paper
from regard.models.papers import bert
from regard.models.trunk import Trunk
from regard.weights import Alias, Rule


@dataclass(frozen=True)
class SpanBoundaryHead(AnyHead):
    """Head that predicts a token of a span from the tokens around the span (Joshi et al., 2019).

    Two dense layers with GELU and norm over [x_{s-1}; x_{e+1}; p_{i-s+1}], and an output layer that
    shares the token vectors of the embedding if ``tied``.
    """

    name: ClassVar[str] = "span_boundary"
    names_tokens: ClassVar[bool] = True
    read: ClassVar[Callable[..., Inputs]] = staticmethod(read_spans)
    needs_positions: ClassVar[bool] = True
    positions: ClassVar[int] = 20  # of tokens in a span
    position_size: ClassVar[int] = 200
    tied: bool = True

    def build(self, trunk: Trunk, tokens: nn.Embedding, width: int) -> "SpanBoundaryHeadModule":
        module = SpanBoundaryHeadModule(self, trunk, width)
        if self.tied:
            tie(module.out, tokens)
        return module

    def macs(self, trunk: Trunk, width: int) -> int:
        first = width * (2 * width + self.position_size)
        return first + trunk.token_width * (width + trunk.embed.vocab)


class SpanBoundaryHeadModule(nn.Module):
    """Module of the boundary head: two dense layers with GELU and norm, and an output layer."""

    def __init__(self, head: SpanBoundaryHead, trunk: Trunk, width: int):
        super().__init__()
        size, eps = trunk.token_width, trunk.stack.eps
        self.position = nn.Embedding(head.positions, head.position_size)
        inputs = 2 * width + head.position_size
        self.dense = nn.ModuleList([nn.Linear(inputs, width), nn.Linear(width, size)])
        self.norm = nn.ModuleList([nn.LayerNorm(width, eps=eps), nn.LayerNorm(size, eps=eps)])
        self.out = nn.Linear(size, trunk.embed.vocab)

    def forward(self, states_TD: Tensor, positions_3N: Tensor) -> Tensor:
        """Compute logits of tokens from the positions (before the span, after the span, token)."""
        before_N, after_N, at_N = positions_3N
        place_N = (at_N - before_N - 1).clamp(0, self.position.num_embeddings - 1)
        parts = (states_TD[before_N], states_TD[after_N], self.position(place_N))
        x_ND = torch.cat([part.to(states_TD.dtype) for part in parts], -1)
        for dense, norm in zip(self.dense, self.norm, strict=True):
            x_ND = norm(F.gelu(dense(x_ND)))
        return self.out(x_ND)


BASE = change(bert.BASE, vocab=28_996)
LARGE = change(bert.LARGE, vocab=28_996)
# The format of Hugging Face: BERT's, with the name of this paper.
CONFIG = (*bert.CONFIG, UnreadKey(PAPER_KEY, "spanbert"))
SPAN_BOUNDARY = HFHead(SpanBoundaryHead(), "span_boundary.")
ARCHITECTURES = Architectures(  # the last that fits names a model: BertForMaskedLM
    {"BertForSpanBoundary": (bert.MLM, SPAN_BOUNDARY), **bert.ARCHITECTURES.heads}
)
HEADS = (
    Rule("span_boundary.position_embeddings.weight", "heads.span_boundary.position.weight"),
    Rule("span_boundary.dense.{i}.*", "heads.span_boundary.dense.{i}.*"),
    Rule("span_boundary.LayerNorm.{i}.*", "heads.span_boundary.norm.{i}.*"),
    Rule("span_boundary.decoder.{weight,bias}", "heads.span_boundary.out.{weight,bias}"),
    Rule("span_boundary.bias", "heads.span_boundary.out.bias"),
    Alias("span_boundary.decoder.weight", "trunk.embed.token.weight"),
)
WEIGHTS = replace(bert.HF.weights, unprefixed=(*bert.HF.weights.unprefixed, *HEADS))
HF = replace(bert.HF, name="SpanBERT", config_map=(*CONFIG, ARCHITECTURES), weights=WEIGHTS)

PAPER = Paper(
    name="SpanBERT",
    year=2019,
    title="SpanBERT: Improving Pre-training by Representing and Predicting Spans",
    authors="Mandar Joshi, Danqi Chen, Yinhan Liu, Daniel S. Weld, Luke Zettlemoyer, Omer Levy",
    arxiv="1907.10529",
    after="BERT",
    tokenizer="wordpiece",
    pretraining={"span-boundary": {}},
    sizes={"base": BASE, "large": LARGE},
    published={"base": 110_000_000, "large": 340_000_000},
    heads=(*bert.PAPER.heads, SPAN_BOUNDARY),
    formats={"hf": HF},
)
