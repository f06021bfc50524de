"""TagLM (Peters et al., 2017, arXiv:1705.00108): a tagger that reads a frozen language model.

Two bidirectional GRU layers and a CRF. The input of the second layer is h_k1 = [→h; ←h; h_LM]: the
states of the first layer, concatenated with the top layer of language models in both directions.
Here the language model has ELMo's form; the paper has a larger forward and a smaller backward one.
The paper's tagger also has a network over the characters of words, which is left out. Recipes name
the folder of the language model (``model.features``) and the CRF (``labels.crf``).
"""

from regard.models.features import Features
from regard.models.paper import Paper
from regard.models.papers import elmo
from regard.models.rnn import RNNEncoderFacts
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

WORDS = 130_000  # with vectors of 50 numbers: Collobert et al., 2011

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=WORDS, position=None),
        RNNEncoderFacts(
            width=300, embedding=50, depth=2, cell="gru", direction="both", dropout=0.25
        ),
        features=Features(elmo.ORIGINAL.trunk, at=1, layers="top", feature_dropout=0.25),
    )
)

PAPER = Paper(
    name="TagLM",
    year=2017,
    title="Semi-supervised sequence tagging with bidirectional language models",
    authors="Matthew E. Peters, Waleed Ammar, Chandra Bhagavatula, Russell Power",
    arxiv="1705.00108",
    after="Lin",
    sizes={"base": BASE},
)
