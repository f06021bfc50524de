"""RNN encoder-decoder (Cho et al., 2014, arXiv:1406.1078): GRUs, and the source as one vector.

c = tanh(V h_N) initialises the decoder and is an input of every step. Here, as in torch's kernel,
the reset gate is applied to U h; in the paper, to h. The paper factorises word matrices with rank
100; here word vectors have 100 dimensions.
"""

from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.rnn import RNNEncoderFacts
from regard.models.rnn_decoder import RNNDecoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk

EMBED = Tokens(vocab=15_000, position=None)
ENCODER = RNNEncoderFacts(width=1_000, embedding=100, cell="gru")
DECODER = RNNDecoderFacts(
    width=1_000, embedding=100, cell="gru", bridge="last", summary=True, maxout=500
)

BASE = EncoderDecoder(source=Trunk(EMBED, ENCODER), target=Trunk(EMBED, DECODER), tie="none")
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, maxout=256, dropout=0.1)

PAPER = Paper(
    name="Cho",
    year=2014,
    title="Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine "
    "Translation",
    authors=(
        "Kyunghyun Cho, Bart van Merriënboer, Caglar Gulcehre, Dzmitry Bahdanau, Fethi "
        "Bougares, Holger Schwenk, Yoshua Bengio"
    ),
    arxiv="1406.1078",
    after=None,
    sizes={"base": BASE, "laptop": LAPTOP},
)
