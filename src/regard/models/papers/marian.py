"""Marian (Junczys-Dowmunt et al., 2018, arXiv:1804.00344): the Transformer behind OPUS-MT.

Against Vaswani et al.: sines before cosines, swish, and a bias on every logit. Hundreds of such
translators (Tiedemann and Thottingal, 2020) are published as Hugging Face's ``MarianMTModel``.
"""

from regard.models.facts import change
from regard.models.formats.marian import HF
from regard.models.paper import Paper
from regard.models.papers.transformer import BASE as VASWANI

BASE = change(VASWANI, vocab=58_101, halves=True, activation="swish", head_bias=True)

PAPER = Paper(
    name="Marian",
    year=2018,
    title="Marian: Fast Neural Machine Translation in C++",
    arxiv="1804.00344",
    after="Transformer",
    sizes={"base": BASE},
    formats={"hf": HF},
)
