"""Dai & Le, 2015 (arXiv:1511.01432): an LSTM classifier begins with weights learned without labels.

They come from a language model, or from a sequence autoencoder, which reads a text into one state
and writes the same text from it: Sutskever et al.'s translator with a text as its own translation.
The classifier reads the last state of the same LSTM. Here encoder and decoder of the autoencoder
have weights of their own (the paper's share them), and the class is read from the last state by a
linear map (the paper has a layer of 512 between them). The language model is Zaremba et al.'s.
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
    arxiv="1511.01432",
    after="Sutskever",
    sizes={"classifier": CLASSIFIER, "autoencoder": AUTOENCODER},
)
