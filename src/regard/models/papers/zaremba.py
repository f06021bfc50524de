"""Recurrent language models: Mikolov et al., 2010; Zaremba et al., 2014, arXiv:1409.2329.

h_t = f(h_{t-1}, x_t); the next word is predicted from h_t. Mikolov's network has one layer of
sigmoid units, trained by truncated backpropagation through time; ``change(SMALL, cell="rnn",
depth=1)`` has tanh units instead. Zaremba's has two LSTM layers, and dropout on all connections but
the recurrent ones. The sizes are for the Penn Treebank, 10,000 words; each gate has two biases here
and one in the paper's code, which has 2 × 4 × width parameters less.
"""

from regard.models.facts import change
from regard.models.heads import NextTokenHead, PaperHead
from regard.models.paper import Paper
from regard.models.rnn import CausalRNNFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordLevel

SMALL = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=10_000, position=None), CausalRNNFacts(width=200, embedding=200, depth=2)
    )
)
MEDIUM = change(SMALL, width=650, embedding=650, dropout=0.5)
LARGE = change(SMALL, width=1_500, embedding=1_500, dropout=0.65)
HEAD = NextTokenHead(tied=False, bias=True)

PAPER = Paper(
    name="Zaremba",
    year=2014,
    title="Recurrent Neural Network Regularization",
    authors="Wojciech Zaremba, Ilya Sutskever, Oriol Vinyals",
    arxiv="1409.2329",
    after=None,
    tokenizer=WordLevel.name,
    pretraining={"causal-lm": {"rows": "streams"}},
    sizes={"small": SMALL, "medium": MEDIUM, "large": LARGE},
    heads=(PaperHead(HEAD),),
)
