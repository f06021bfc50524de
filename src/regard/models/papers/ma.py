"""BiLSTM-CNN-CRF (Ma & Hovy, 2016, arXiv:1603.01354): a tagger that reads words and characters.

x_k = [w_k; c_k]: the vector of the word in lower case (GloVe, 100 dimensions), concatenated with
the maximum of each of 30 filters over the characters of the word, in original case; then a
bidirectional LSTM layer over x, and a CRF over its states. Characters are bytes here, and dropout
is applied to x and to the states, not to character vectors. Recipes name the vectors
(``model.vectors``) and the CRF (``labels.crf``).
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
    filters=((3, 30),),
    longest=30,
    character_size=30,
    highways=0,
    character_activation="tanh",
    projected=False,
)
BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=400_000, position=None, characters=CHARACTERS),
        RNNEncoderFacts(width=200, embedding=130, direction="both", dropout=0.5),
    )
)
LAPTOP = change(BASE, width=100, embedding=80)

PAPER = Paper(
    name="Ma",
    year=2016,
    title="End-to-end Sequence Labeling via Bi-directional LSTM-CNNs-CRF",
    authors="Xuezhe Ma, Eduard Hovy",
    arxiv="1603.01354",
    after="Zaremba",
    sizes={"base": BASE, "laptop": LAPTOP},
    tokenizer=WordTokenizer.name,
)
