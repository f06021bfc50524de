"""The Transformer (Vaswani et al., 2017, arXiv:1706.03762): a translator based on attention alone.

The encoder attends to all tokens; the decoder to its earlier tokens and to the source.
"""

from regard.layers.attend import causal
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.papers.marian import HF
from regard.models.positions import Sinusoid
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk

EMBED = Tokens(vocab=37_000, position=Sinusoid(), scaled=True)
ENCODER = Stack(width=512, depth=6, heads=8, inner=2_048, dropout=0.1)
DECODER = change(ENCODER, mask=causal, cross=True)

BASE = EncoderDecoder(source=Trunk(EMBED, ENCODER), target=Trunk(EMBED, DECODER), tie="all")
BIG = change(BASE, width=1_024, inner=4_096, heads=16, dropout=0.3)
LAPTOP = change(BASE, width=256, inner=1_024, heads=4, depth=3, norm="pre", final_norm=True)


PAPER = Paper(
    name="Transformer",
    year=2017,
    title="Attention Is All You Need",
    authors=(
        "Ashish Vaswani, Noam Shazeer, Niki Parmar, Jakob Uszkoreit, Llion Jones, Aidan N. "
        "Gomez, Łukasz Kaiser, Illia Polosukhin"
    ),
    arxiv="1706.03762",
    after="Luong",
    sizes={"base": BASE, "big": BIG, "laptop": LAPTOP},
    published={"base": 65_000_000, "big": 213_000_000},
    formats={"hf": HF},
)
