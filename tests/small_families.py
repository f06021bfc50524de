"""Small random models of every family, without tokenizers, and rows of ids that they read."""

from functools import cache

import torch

from regard.api import Model
from regard.core.batch import TokenRow
from regard.inference.model_runner import ModelRunner
from regard.models.facts import change
from regard.models.folders.loaded_model import LoadedModel
from regard.models.heads import NextTokenHead
from regard.models.label_heads import LabelHead, MLMHead
from regard.models.papers import albert, bert, gpt, gpt2, t5, transformer, vit
from regard.models.papers.llama import PAPER as LLAMA
from regard.models.papers.modernbert import BASE as MODERNBERT
from regard.models.papers.modernbert import PAPER as MODERNBERT_PAPER
from regard.models.papers.xlnet import BASE as XLNET
from regard.models.papers.xlnet import PAPER as XLNET_PAPER
from regard.models.papers.xlnet.two_stream import PermutationLMHead
from regard.models.pools import AttentionPool, FirstToken, MeanPool
from regard.text.segmentation import LabelledRow, LabelledRows, TokenLabels
from small_images import corners, small_vit

SIZE = {"width": 16, "depth": 2, "heads": 2, "inner": 24, "vocab": 23}
LM, MLM, LABEL = (NextTokenHead(),), (MLMHead(),), (LabelHead(3),)
LLAMA_SIZE = next(iter(LLAMA.sizes.values()))
PRE = {"norm": "pre", "final_norm": True}
FACTS = {
    "bert": (bert.PAPER, change(bert.TINY, **SIZE, pool=None, output_heads=MLM)),
    "bert-label": (bert.PAPER, change(bert.TINY, **SIZE, pool=FirstToken(), output_heads=LABEL)),
    "bert-mean": (bert.PAPER, change(bert.TINY, **SIZE, pool=MeanPool(), output_heads=LABEL)),
    "bert-pool": (bert.PAPER, change(bert.TINY, **SIZE, pool=AttentionPool(), output_heads=LABEL)),
    "albert": (
        albert.PAPER,
        change(albert.BASE, **SIZE, embedding_size=12, pool=None, output_heads=MLM),
    ),
    "modernbert": (MODERNBERT_PAPER, change(MODERNBERT, **SIZE, pool=None, output_heads=MLM)),
    "gpt": (gpt.PAPER, change(gpt.BASE, **SIZE, output_heads=LM)),
    "gpt2": (gpt2.PAPER, change(gpt2.SMALL, **SIZE, output_heads=LM)),
    "llama": (
        LLAMA,
        change(next(iter(LLAMA.sizes.values())), **SIZE | {"heads": 4, "kv_heads": 2}),
    ),
    "t5": (t5.PAPER, change(t5.SMALL, **SIZE, key=8)),
    "t5-gated": (t5.PAPER, change(t5.SMALL, **SIZE, key=8, **t5.GATED)),
    "translator": (transformer.PAPER, change(transformer.BASE, **SIZE)),
    "translator-pre": (transformer.PAPER, change(transformer.BASE, **SIZE, **PRE, head_bias=True)),
    "xlnet": (XLNET_PAPER, change(XLNET, **SIZE, output_heads=(PermutationLMHead(),))),
    "vit": (vit.PAPER, None),
}
IDS, OTHER_IDS = [3, 7, 1, 12, 5], [3, 9, 1, 12, 5]


@cache
def small_family(name: str) -> ModelRunner:
    """Model of a family; all parameters are random, gains and biases too."""
    paper, facts = FACTS[name]
    torch.manual_seed(0)
    if facts is None:
        model = small_vit(depth=2)
    else:
        model = Model(LoadedModel(paper, facts, facts.build().eval(), None))
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.inspected


def small_rows(model: ModelRunner, ids: list[int] = IDS) -> LabelledRows:
    """Rows of the ids on each side, or an image that the ids choose."""
    if model.reads_images:
        (image, *_), _ = corners(1, sum(ids))
        return model.read(image)
    labels = TokenLabels.join(*map(TokenLabels.special, map(str, ids)))
    row = LabelledRow(TokenRow.of(ids), labels, labels)
    return dict.fromkeys(model.facts.sides, row)
