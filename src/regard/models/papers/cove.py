"""CoVe (McCann et al., 2017, arXiv:1708.00107): the encoder of a translator as word features.

The translator (MT-LSTM) has two bidirectional LSTM layers over word vectors, with 300 units in each
direction, and a decoder with Luong's attention and input feeding. The 600-dimensional states of its
frozen encoder are concatenated to the word vectors of a classifier: w̃ = [GloVe(w); MT-
LSTM(GloVe(w))]. Here the translator reads subwords, whose vectors it learns, and the feature of a
word is the mean over its subwords. "classifier" is Lin et al.'s.

"bcn" is the paper's classifier, the biattentive classification network (section 5), without
features: recipes name them. A ReLU layer and a bidirectional LSTM encode both texts (one text
counts as two), each token attends to the other text, a second LSTM reads [x; x - c; x ⊙ c], and
maximum, mean, minimum and attention pool each text. Two maxout layers after batch norm and a linear
layer predict the class: the paper has three maxout layers, and an LSTM of its own for each text.
"""

from dataclasses import replace

from regard.models.facts import change
from regard.models.features import Features
from regard.models.paper import Paper
from regard.models.papers import lin, luong
from regard.models.text_pairs import TextPairStack, TextsPool
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

MT_LSTM = change(
    luong.BASE,
    embedding=300,
    depth=2,
    **{"source.width": 300, "source.direction": "both", "target.width": 600},
)
FEATURES = Features(MT_LSTM.source, layers="top", pieces=8)
READER = change(lin.BASE, embedding=300 + 600)
CLASSIFIER = replace(READER, trunk=replace(READER.trunk, features=FEATURES))
BCN = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=30_000, position=None),
        TextPairStack(
            width=300,
            embedding=300,
            input_layer="dense",
            comparison=("state", "difference", "product"),
            projected=False,
            dropout=0.3,
        ),
    ),
    pool=TextsPool(
        parts=("max", "mean", "min", "attention"),
        hidden=(600, 300),
        hidden_kind="maxout",
        normed=True,
        pool_dropout=0.3,
    ),
)

PAPER = Paper(
    name="CoVe",
    year=2017,
    title="Learned in Translation: Contextualized Word Vectors",
    authors="Bryan McCann, James Bradbury, Caiming Xiong, Richard Socher",
    arxiv="1708.00107",
    after="Luong",
    sizes={"mt-lstm": MT_LSTM, "classifier": CLASSIFIER, "bcn": BCN},
)
