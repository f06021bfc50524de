"""RNNsearch (Bahdanau et al., 2014, arXiv:1409.0473): a decoder that attends to all source words.

h_i = [→h_i; ←h_i]; e_ti = v·tanh(W s_{t-1} + U h_i); c_t = Σ_i α_ti h_i; s_t = f(s_{t-1}, y_{t-1},
c_t); s_0 = tanh(W ←h_1). The next word is predicted from s_t, y_{t-1} and c_t (eq. 4) by a maxout
layer. GRUs and sizes are as in Cho et al., with which the paper compares.
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.papers import cho
from regard.models.rnn_decoder import CrossAttentionFacts

BASE = change(
    cho.BASE,
    vocab=30_000,
    embedding=620,
    direction="both",
    bridge="backward",
    summary=False,
    attention=CrossAttentionFacts(score="additive", timing="previous"),
)
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, maxout=256, dropout=0.1)

PAPER = Paper(
    name="Bahdanau",
    year=2014,
    title="Neural Machine Translation by Jointly Learning to Align and Translate",
    authors="Dzmitry Bahdanau, Kyunghyun Cho, Yoshua Bengio",
    arxiv="1409.0473",
    after="Cho",
    sizes={"base": BASE, "laptop": LAPTOP},
)
