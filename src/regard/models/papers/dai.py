"""Dai & Le, 2015 (arXiv:1511.01432): an LSTM classifier that is pre-trained without labels.

The weights of the classifier come from a language model, or from a sequence autoencoder, which
encodes a text as one state and generates the same text from it: Sutskever et al.'s translator with
identical source and target. The classifier reads the last state of the same LSTM. Here encoder and
decoder of the autoencoder have separate weights (the paper's share them), and a linear layer
predicts the class from the last state (the paper has a hidden layer of 512 units in between). The
language model is Zaremba et al.'s.
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.papers import lin, sutskever

CLASSIFIER = change(lin.LAST, width=1_024, embedding=512, scaled=False, direction="forward")
AUTOENCODER = change(
    sutskever.BASE, vocab=30_000, width=1_024, embedding=512, depth=1, direction="forward"
)

PAPER = Paper(
    name="Dai",
    year=2015,
    title="Semi-supervised Sequence Learning",
    authors="Andrew M. Dai, Quoc V. Le",
    arxiv="1511.01432",
    after="Sutskever",
    sizes={"classifier": CLASSIFIER, "autoencoder": AUTOENCODER},
)
