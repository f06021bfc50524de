"""End-to-end coreference (Lee et al., 2017, arXiv:1707.07045): spans ranked over a BiLSTM.

A bidirectional LSTM reads each sentence: the vector of a word (GloVe) beside filters of three
widths over its characters. A span is its first and last state, the mean of its states weighted by
attention (its head word) and its width; see ``models/coreference_head.py``. "elmo" is the trunk of
the coarse-to-fine model of 2018: three LSTM layers with features of words (``model.features``).
Dropout is of the embedding and the states; the paper has 0.5 and 0.2, here it is one number.
"""

from regard.models.characters import Characters
from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.word_level import WordTokenizer

CHARACTERS = Characters(
    filters=((3, 50), (4, 50), (5, 50)), longest=30, character_size=8, highways=0, projected=False
)
BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=400_000, position=None, characters=CHARACTERS),
        RNNEncoderFacts(width=200, embedding=500, direction="both", dropout=0.5),
    )
)
ELMO = change(BASE, depth=3)
LAPTOP = change(BASE, width=100, embedding=200, dropout=0.3)

PAPER = Paper(
    name="Lee",
    year=2017,
    title="End-to-end Neural Coreference Resolution",
    authors="Kenton Lee, Luheng He, Mike Lewis, Luke Zettlemoyer",
    arxiv="1707.07045",
    after="Ma",
    sizes={"base": BASE, "elmo": ELMO, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
)
