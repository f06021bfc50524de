"""Recurrent encoder with attention pooling and a label head (Lin et al., 2017, arXiv:1703.03130).

h_i = [→h_i; ←h_i]; α = softmax of v·tanh(W h_i + U q) over i; m = Σ_i α_i h_i; the class is
predicted from m. "base" has the paper's encoder (300 units per direction) and the inner size of its
score (350, no query: U q = 0). Three differences: the paper concatenates r = 30 such m (here one),
has a penalty that keeps them different, and predicts the class by a hidden layer of 2,000 or 3,000
units, by task (here a linear layer). Here the query may also be learned, and any other score used.
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.pools import AttentionPool, LastToken
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

ENCODER = RNNEncoderFacts(width=300, embedding=100, direction="both", dropout=0.5)

BASE = TrunkWithHeads(
    trunk=Trunk(Tokens(vocab=30_000, position=None), ENCODER),
    pool=AttentionPool(score="additive", query="zeros", inner=350),
)
LAPTOP = change(BASE, width=128, embedding=128, scaled=True, query="learned", inner=None)
LAST = change(LAPTOP, pool=LastToken())

PAPER = Paper(
    name="Lin",
    year=2017,
    title="A Structured Self-attentive Sentence Embedding",
    authors=(
        "Zhouhan Lin, Minwei Feng, Cicero Nogueira dos Santos, Mo Yu, Bing Xiang, Bowen "
        "Zhou, Yoshua Bengio"
    ),
    arxiv="1703.03130",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP, "last": LAST},
)
