"""Sequence to sequence (Sutskever et al., 2014, arXiv:1409.3215): LSTMs without attention.

Differences from Cho et al.: deep LSTMs, and no vector that every step reads. The source is read
from its end; the decoder starts from the encoder's final state of every layer.
"""

from regard.models.facts import change
from regard.models.paper import Paper
from regard.models.papers import cho

BASE = change(
    cho.BASE,
    embedding=1_000,
    depth=4,
    cell="lstm",
    direction="backward",
    bridge="copy",
    summary=False,
    maxout=None,
    **{"source.vocab": 160_000, "target.vocab": 80_000},
)
LAPTOP = change(BASE, vocab=37_000, scaled=True, width=256, embedding=256, depth=2, dropout=0.1)

PAPER = Paper(
    name="Sutskever",
    year=2014,
    title="Sequence to Sequence Learning with Neural Networks",
    authors="Ilya Sutskever, Oriol Vinyals, Quoc V. Le",
    arxiv="1409.3215",
    after="Cho",
    sizes={"base": BASE, "laptop": LAPTOP},
    published={"base": 384_000_000},
)
