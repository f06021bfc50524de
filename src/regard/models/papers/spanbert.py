"""SpanBERT (Joshi et al., 2019, arXiv:1907.10529): BERT with the cased vocabulary, pre-trained on
single segments with masked spans, whose tokens are also predicted from the boundary of their span.

Its published folders are BERT's, and are read as such. The head of the boundary objective, which
``transformers`` does not have, is written beside them.
"""

from dataclasses import replace

from regard.models.facts import change
from regard.models.formats import Architectures, HFHead, UnreadKey
from regard.models.heads import SpanBoundaryHead
from regard.models.paper import PAPER_KEY, Paper
from regard.models.papers import bert
from regard.weights import Alias, Rule

BASE = change(bert.BASE, vocab=28_996)
LARGE = change(bert.LARGE, vocab=28_996)

# The format of Hugging Face: BERT's, with the name of this paper.
CONFIG = (*bert.CONFIG, UnreadKey(PAPER_KEY, "spanbert"))
SPAN_BOUNDARY = HFHead(SpanBoundaryHead(), tensors="span_boundary.")
ARCHITECTURES = Architectures(  # the last that fits names a model: BertForMaskedLM
    {"BertForSpanBoundary": (bert.MLM, SPAN_BOUNDARY), **bert.ARCHITECTURES.heads}
)
HEADS = (
    Rule("span_boundary.position_embeddings.weight", "heads.span_boundary.position.weight"),
    Rule("span_boundary.dense.{i}.*", "heads.span_boundary.dense.{i}.*"),
    Rule("span_boundary.LayerNorm.{i}.*", "heads.span_boundary.norm.{i}.*"),
    Rule("span_boundary.decoder.{weight,bias}", "heads.span_boundary.out.{weight,bias}"),
    Rule("span_boundary.bias", "heads.span_boundary.out.bias"),
    Alias("span_boundary.decoder.weight", "trunk.embed.token.weight"),
)
WEIGHTS = replace(bert.HF.weights, unprefixed=(*bert.HF.weights.unprefixed, *HEADS))
HF = replace(bert.HF, name="SpanBERT", config_map=(*CONFIG, ARCHITECTURES), weights=WEIGHTS)

PAPER = Paper(
    name="SpanBERT",
    year=2019,
    title="SpanBERT: Improving Pre-training by Representing and Predicting Spans",
    arxiv="1907.10529",
    after="BERT",
    tokenizer="wordpiece",
    pretraining={"span-boundary": {}},
    sizes={"base": BASE, "large": LARGE},
    published={"base": 110_000_000, "large": 340_000_000},
    formats={"hf": HF},
    kinds=(SpanBoundaryHead,),
)
