"""ESIM (Chen et al., 2016, arXiv:1609.06038): inference between two sentences by local alignment.

ā and b̄ are the states of one bidirectional LSTM over both sentences; e_ij = ā_i·b̄_j, and ã_i is the
mean of b̄ weighted by the softmax of e_i over j (equations 11 to 13). [ā; ã; ā - ã; ā ⊙ ã] goes
through a ReLU layer and a second bidirectional LSTM. The mean and the maximum over each sentence
are joined, and a tanh layer and a softmax predict the class. The paper's other half, with LSTMs
over parse trees, is left out. Recipes name the word vectors (``model.vectors``).
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.text_pairs import TextPairStack, TextsPool
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=40_000, position=None), TextPairStack(width=300, embedding=300, dropout=0.5)
    ),
    pool=TextsPool(parts=("mean", "max"), hidden=(300,), pool_dropout=0.5),
)
LAPTOP = change(BASE, width=100, embedding=50, hidden=(100,))

PAPER = Paper(
    name="ESIM",
    year=2016,
    title="Enhanced LSTM for Natural Language Inference",
    authors="Qian Chen, Xiaodan Zhu, Zhenhua Ling, Si Wei, Hui Jiang, Diana Inkpen",
    arxiv="1609.06038",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
)
