"""A convolutional encoder (Gehring et al., 2016, arXiv:1611.02344) under a recurrent decoder.

Each word is seen with its neighbours, all words at once, and says its place by a learned vector;
d_t·z_i with d_t from the decoder's state says where to look; c_t = Σ_i α_ti z_i enters the next.
The paper has two stacks side by side, of tanh layers with residual connections: for the scores
mostly 8 of 512 units, for what is summed 4 of 256, the size of its words. Here one stack of 512
does both, with the gated layers that came a year later (arXiv:1705.03122). Its d_t is W h_t and the
last word; here the score is a plain dot product. The vocabulary, and that the decoder begins from
the mean of the states, are ours.
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
    arxiv="1611.02344",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
    kinds=(ConvEncoderFacts,),
)
