"""AWD-LSTM (Merity et al., 2017, arXiv:1708.02182): an LSTM language model with much dropout.

Differences from Zaremba et al.: word vectors are smaller than states and shared with the output
layer, so the last layer has their size; dropout has one mask for all words of a row (``locked``),
and is also applied to whole words and, as weight drop, to the recurrent weights. Training reads
streams in parts of random length, penalises large states and changes of states, and averages the
weights of SGD.
"""

from regard.models.facts import change
from regard.models.heads import NextTokenHead, PaperHead
from regard.models.paper import Paper
from regard.models.papers import zaremba

WIKITEXT_2 = change(
    zaremba.SMALL,
    vocab=33_278,
    word_dropout=0.1,
    width=1_150,
    embedding=400,
    last_width=400,
    depth=3,
    dropout=0.4,
    input_dropout=0.65,
    hidden_dropout=0.2,
    locked=True,
    weight_drop=0.5,
)
PENN_TREEBANK = change(WIKITEXT_2, vocab=10_000, input_dropout=0.4, hidden_dropout=0.25)
HEAD = NextTokenHead(tied=True, bias=True)

PAPER = Paper(
    name="AWD-LSTM",
    year=2017,
    title="Regularizing and Optimizing LSTM Language Models",
    authors="Stephen Merity, Nitish Shirish Keskar, Richard Socher",
    arxiv="1708.02182",
    after="Zaremba",
    tokenizer=zaremba.PAPER.tokenizer,
    pretraining={"causal-lm": {"rows": "streams", "mean_length": 70, "ar": 2.0, "tar": 1.0}},
    sizes={"wikitext-2": WIKITEXT_2, "penn-treebank": PENN_TREEBANK},
    published={"wikitext-2": 33_000_000, "penn-treebank": 24_000_000},
    heads=(PaperHead(HEAD),),
)
