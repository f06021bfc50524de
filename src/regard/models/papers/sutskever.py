"""Sequence to sequence (Sutskever et al., 2014, arXiv:1409.3215): all of a source in one state.

Deep LSTMs; the source is read from its end; what it leaves in every layer is all the decoder knows.
"""

from regard.models.facts import (
    EncoderDecoder,
    RNNDecoderFacts,
    RNNEncoderFacts,
    Tokens,
    Trunk,
    change,
)
from regard.models.paper import Paper

ENCODER = RNNEncoderFacts(width=1_000, embedding=1_000, depth=4, cell="lstm", direction="backward")
DECODER = RNNDecoderFacts(width=1_000, embedding=1_000, depth=4, cell="lstm", bridge="copy")

BASE = EncoderDecoder(
    source=Trunk(Tokens(vocab=160_000, position=None), ENCODER),
    target=Trunk(Tokens(vocab=80_000, position=None), DECODER),
    tie="none",
)
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, depth=2, dropout=0.1)

PAPER = Paper(
    name="Sutskever",
    year=2014,
    title="Sequence to Sequence Learning with Neural Networks",
    arxiv="1409.3215",
    after="Cho",
    sizes={"base": BASE, "laptop": LAPTOP},
    published={"base": 384_000_000},
)
