"""T5 (Raffel et al., 2019, arXiv:1910.10683): an encoder-decoder that turns every task into text.

Differences from Vaswani et al.: norms before the sublayers, without mean and bias (RMS norm); no
biases; scores are not scaled, and instead of position vectors have a bias by head and bucket of
distances, shared by the layers of a side. Version 1.1 has a gated feed-forward layer and an output
layer of its own. It is pre-trained by span corruption.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

from regard.core.errors import BadFact
from regard.layers.attend import Mask, causal
from regard.layers.attention import Heads
from regard.layers.relative_bias import BiasedDot
from regard.models.embedding import AnyPosition
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import at_least, change
from regard.models.paper import Paper
from regard.models.papers.t5.hf import OutputKeys, t5_format
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.text.tokenizers.unigram import T5Unigram


@dataclass(frozen=True)
class RelativeBias(AnyPosition):
    """Bias of scores by head and bucket of distances (section 2.1), shared by all layers.

    ``BiasedDot`` says which distances share one of the ``buckets``.
    """

    by_distance: ClassVar[bool] = True
    by_head: ClassVar[bool] = True
    buckets: int = 32
    farthest: int = 128

    def __post_init__(self) -> None:
        at_least(4, self, "buckets")

    def check(self, *, causal: bool) -> None:
        exact, share = self.buckets // 2, "half"
        if not causal:
            exact, share = self.buckets // 4, "a quarter"  # keys on each side have half of them
        if self.farthest <= exact:
            stack = "a decoder" if causal else "an encoder"
            limit = f"{exact}, {share} of the buckets of {stack}"
            raise BadFact("farthest", f"must be above {limit}, not {self.farthest}")

    def scores(self, heads: Heads, masks: Sequence[Mask]) -> Iterator[BiasedDot]:
        score = BiasedDot(heads.count, self.buckets, self.farthest, causal=masks[0].causal)
        return repeat(score, len(masks))


TOKENS = Tokens(vocab=32_128, position=RelativeBias(), vector_std=1.0)
ENCODER = Stack(
    width=512,
    depth=6,
    heads=8,
    key=64,
    inner=2_048,
    norm="pre",
    norm_kind="rms",
    final_norm=True,
    eps=1e-6,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    scaled_scores=False,
    dropout=0.1,
    attention_dropout=0.1,
    inner_dropout=0.1,
    final_dropout=0.1,
    init="fan-in",
)
DECODER = change(ENCODER, mask=causal, cross=True)
SMALL = EncoderDecoder(
    Trunk(TOKENS, ENCODER), Trunk(TOKENS, DECODER), scaled_output=True, head_std=1.0
)
BASE = change(SMALL, width=768, depth=12, heads=12, inner=3_072)
LARGE = change(SMALL, width=1_024, depth=24, heads=16, inner=4_096)
GATED = {"gated": True, "activation": "gelu-tanh", "tie": "sides", "scaled_output": False}
SIZES = {
    "small": SMALL,
    "base": BASE,
    "large": LARGE,
    "3b": change(LARGE, heads=32, key=128, inner=16_384),
    "11b": change(LARGE, heads=128, key=128, inner=65_536),
    "v1.1-small": change(SMALL, depth=8, heads=6, inner=1_024, **GATED),
    "v1.1-base": change(BASE, inner=2_048, **GATED),
    "v1.1-large": change(LARGE, inner=2_816, **GATED),
    "v1.1-3b": change(LARGE, width=2_048, heads=32, inner=5_120, **GATED),
    "v1.1-11b": change(LARGE, width=4_096, heads=64, inner=10_240, **GATED),
}
HF = t5_format("T5", SMALL, OutputKeys())

PAPER = Paper(
    name="T5",
    year=2019,
    title="Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    authors=(
        "Colin Raffel, Noam Shazeer, Adam Roberts, Katherine Lee, Sharan Narang, Michael "
        "Matena, Yanqi Zhou, Wei Li, Peter J. Liu"
    ),
    arxiv="1910.10683",
    after="Transformer",
    tokenizer=T5Unigram.name,
    pretraining={"span-corruption": {}},
    sizes=SIZES,
    published={
        "small": 60_000_000,
        "base": 220_000_000,
        "large": 770_000_000,
        "3b": 2_800_000_000,
        "11b": 11_000_000_000,
    },
    formats={"hf": HF},
)
