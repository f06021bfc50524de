"""CoVe (McCann et al., 2017, arXiv:1708.00107): the encoder of a translator as word features.

The translator (MT-LSTM) has two bidirectional LSTM layers over word vectors, with 300 units in each
direction, and a decoder with Luong's attention and input feeding. The 600-dimensional states of its
frozen encoder are concatenated to the word vectors of a classifier: w̃ = [GloVe(w); MT-
LSTM(GloVe(w))]. Here the translator reads subwords, whose vectors it learns, and the feature of a
word is the mean over its subwords. The classifier is Lin et al.'s; the paper's also has attention
between two texts.
"""

from dataclasses import replace

from regard.models.facts import change
from regard.models.features import Features
from regard.models.paper import Paper
from regard.models.papers import lin, luong

MT_LSTM = change(
    luong.BASE,
    embedding=300,
    depth=2,
    **{"source.width": 300, "source.direction": "both", "target.width": 600},
)
FEATURES = Features(MT_LSTM.source, layers="top", pieces=8)
READER = change(lin.BASE, embedding=300 + 600)
CLASSIFIER = replace(READER, trunk=replace(READER.trunk, features=FEATURES))

PAPER = Paper(
    name="CoVe",
    year=2017,
    title="Learned in Translation: Contextualized Word Vectors",
    authors="Bryan McCann, James Bradbury, Caiming Xiong, Richard Socher",
    arxiv="1708.00107",
    after="Luong",
    sizes={"mt-lstm": MT_LSTM, "classifier": CLASSIFIER},
)
