"""ULMFiT (Howard & Ruder, 2018, arXiv:1801.06146): a language model becomes a classifier.

AWD-LSTM with other dropout learns a general language, then that of the task's texts, then their
labels: by two layers with batch norm over the last state, the maximum and the mean of all states.
Three settings of the optimiser keep it from forgetting: ``layer_decay``, ``unfreeze_every`` and the
schedule "slanted".
"""

from regard.models.facts import change
from regard.models.heads import NormedLabelHead
from regard.models.paper import Paper
from regard.models.papers import awd_lstm
from regard.models.pools import ConcatPool

BASE = change(
    awd_lstm.WIKITEXT_2,
    vocab=30_000,
    word_dropout=0.05,
    input_dropout=0.4,
    hidden_dropout=0.3,
)

PAPER = Paper(
    name="ULMFiT",
    year=2018,
    title="Universal Language Model Fine-tuning for Text Classification",
    arxiv="1801.06146",
    after=awd_lstm.PAPER.name,
    tokenizer=awd_lstm.PAPER.tokenizer,
    pretraining={"causal-lm": {"rows": "streams", "ar": 2.0, "tar": 1.0}},
    sizes={"base": BASE},
    heads=(awd_lstm.HEAD, NormedLabelHead(2)),
    pool=ConcatPool(),
    kinds=(NormedLabelHead,),
)
