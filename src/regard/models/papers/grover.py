"""Grover (Zellers et al., 2019, arXiv:1905.12616): GPT-2 over the fields of news articles, any of
which is generated from the others (``regard.text.field_template``).
"""

from dataclasses import replace

from regard.models.facts import change
from regard.models.formats import UnreadKey
from regard.models.paper import PAPER_KEY, Paper
from regard.models.papers import gpt2

BASE = change(gpt2.SMALL, vocab=50_270)
LARGE = change(gpt2.MEDIUM, vocab=50_270)
MEGA = change(BASE, width=1_536, depth=48, heads=24, inner=6_144)
CONFIG = (*gpt2.CONFIG, UnreadKey(PAPER_KEY, "grover"), gpt2.ARCHITECTURES)
PAPER = Paper(
    name="Grover",
    year=2019,
    title="Defending Against Neural Fake News",
    authors=(
        "Rowan Zellers, Ari Holtzman, Hannah Rashkin, Yonatan Bisk, Ali Farhadi, Franziska "
        "Roesner, Yejin Choi"
    ),
    arxiv="1905.12616",
    after="GPT-2",
    tokenizer="gpt2-bpe",
    pretraining={"fields": {}},
    sizes={"base": BASE, "large": LARGE, "mega": MEGA},
    published={"base": 124_000_000, "large": 355_000_000, "mega": 1_500_000_000},
    heads=gpt2.PAPER.heads,
    formats={"hf": replace(gpt2.HF, name="Grover", config_map=CONFIG)},
)
