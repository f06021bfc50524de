"""Luong et al., 2015 (arXiv:1508.04025): global attention after the state, and input feeding.

h̃_t = tanh(W[c_t; h_t]) with scores from the current h_t: "dot", "general", "concat" or "location".
The next step is told h̃_t beside the word that was written.
"""

from regard.models.facts import (
    CrossAttentionFacts,
    EncoderDecoder,
    RNNDecoderFacts,
    RNNEncoderFacts,
    Tokens,
    Trunk,
    change,
)
from regard.models.paper import Paper

EMBED = Tokens(vocab=50_000, position=None)
ENCODER = RNNEncoderFacts(
    width=1_000, embedding=1_000, depth=4, cell="lstm", direction="backward", dropout=0.2
)
DECODER = RNNDecoderFacts(
    width=1_000,
    embedding=1_000,
    depth=4,
    cell="lstm",
    bridge="copy",
    attention=CrossAttentionFacts(score="general", timing="current", input_feeding=True),
    dropout=0.2,
)

BASE = EncoderDecoder(source=Trunk(EMBED, ENCODER), target=Trunk(EMBED, DECODER), tie="none")
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, depth=2, dropout=0.1)

PAPER = Paper(
    name="Luong",
    year=2015,
    title="Effective Approaches to Attention-based Neural Machine Translation",
    arxiv="1508.04025",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
)
