"""Luong et al., 2015 (arXiv:1508.04025): global attention after the state, and input feeding.

h̃_t = tanh(W[c_t; h_t]) with scores from the current h_t: "dot", "general", "concat" or "location".
With input feeding, h̃_t is an input of the next step, beside the last word. The deep LSTMs are
Sutskever et al.'s.
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.papers import sutskever
from regard.models.rnn_decoder import CrossAttentionFacts

ATTENTION = CrossAttentionFacts(score="general", timing="current", input_feeding=True)
BASE = change(sutskever.BASE, vocab=50_000, attention=ATTENTION, dropout=0.2)
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, depth=2, dropout=0.1)

PAPER = Paper(
    name="Luong",
    year=2015,
    title="Effective Approaches to Attention-based Neural Machine Translation",
    authors="Minh-Thang Luong, Hieu Pham, Christopher D. Manning",
    arxiv="1508.04025",
    after="Bahdanau",
    sizes={"base": BASE, "laptop": LAPTOP},
)
