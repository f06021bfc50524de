"""ELMo (Peters et al., 2018, arXiv:1802.05365): contextual word vectors of a bidirectional language
model. Words come from their characters; a forward and a backward LSTM language model of two layers
share word vectors and softmax, and are trained jointly. Its three layers, mixed by learned weights,
are features for other models.
"""

from regard.models.bilm import BiLMStack
from regard.models.characters import Characters
from regard.models.facts import change
from regard.models.heads import BiLMHead
from regard.models.paper import Paper
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1_024))
ORIGINAL = TrunkWithHeads(
    trunk=Trunk(Characters(filters=FILTERS, highways=2), BiLMStack(width=512, cells=4_096))
)
MEDIUM = change(ORIGINAL, width=256, cells=2_048, highways=1)
SMALL = change(ORIGINAL, width=128, cells=1_024, highways=1)

PAPER = Paper(
    name="ELMo",
    year=2018,
    title="Deep contextualized word representations",
    arxiv="1802.05365",
    after="TagLM",
    sizes={"small": SMALL, "medium": MEDIUM, "original": ORIGINAL},
    published={"small": 13_600_000, "medium": 28_000_000, "original": 93_600_000},
    tokenizer="characters",
    pretraining={"bilm": {}},
    kinds=(BiLMStack, BiLMHead, Characters),
)
