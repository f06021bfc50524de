"""Convolutional encoder (Gehring et al., 2016, arXiv:1611.02344) with a recurrent decoder.

Gated convolutions over all words in parallel, with learned positions, compute z_i. The attention
score is d_t·z_i, where d_t is computed from the decoder's state; c_t = Σ_i α_ti z_i is an input of
the next state. The paper has two encoder stacks, of tanh layers with residual connections: one for
the scores, mostly 8 layers of 512 units, and one for the values, 4 layers of 256 units, the size of
its word vectors. Here one stack of 512 units serves both, with the gated layers of a later paper
(arXiv:1705.03122). The paper's d_t is W h_t plus the last word; here the score is a plain dot
product. The vocabulary, and the initial decoder state (the mean of the encoder states), are ours.
"""

from regard.models.conv import ConvEncoderFacts
from regard.models.embedding import Learned
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.rnn_decoder import CrossAttentionFacts, RNNDecoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk

SOURCE, TARGET = Tokens(vocab=40_000, position=Learned(1_024)), Tokens(vocab=40_000, position=None)
ENCODER = ConvEncoderFacts(width=512, depth=8, kernel=3, dropout=0.2)
DECODER = RNNDecoderFacts(
    width=512,
    embedding=256,
    cell="lstm",
    bridge="mean",
    attention=CrossAttentionFacts(score="dot", timing="previous"),
    dropout=0.2,
)

BASE = EncoderDecoder(source=Trunk(SOURCE, ENCODER), target=Trunk(TARGET, DECODER), tie="none")
LAPTOP = change(
    BASE, vocab=37_000, scaled=True, width=256, embedding=256, dropout=0.1, **{"source.depth": 4}
)

PAPER = Paper(
    name="Gehring",
    year=2016,
    title="A Convolutional Encoder Model for Neural Machine Translation",
    authors="Jonas Gehring, Michael Auli, David Grangier, Yann N. Dauphin",
    arxiv="1611.02344",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
)
