"""Papers: one file each. ``LINEAGE`` lists them in order of time."""

from collections.abc import Mapping

from regard.ground.errors import BadInput, did_you_mean, shown
from regard.models.embedding import Learned
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.features import Features
from regard.models.heads import NextTokenHead
from regard.models.label_heads import (
    ChoiceHead,
    DropoutSpanHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
    TransitionHead,
)
from regard.models.paper import PAPER_KEY, Paper
from regard.models.papers import (
    albert,
    awd_lstm,
    bahdanau,
    bert,
    bidaf,
    cho,
    clark,
    context2vec,
    cove,
    dai,
    deit,
    distilbert,
    electra,
    elmo,
    ernie,
    esim,
    gehring,
    gpt,
    gpt2,
    grover,
    he,
    lee,
    lin,
    llama,
    luong,
    ma,
    marian,
    mistral,
    modernbert,
    mt5,
    qwen2,
    roberta,
    spanbert,
    sutskever,
    t5,
    taglm,
    transformer,
    ulmfit,
    vit,
    xlnet,
    zaremba,
)
from regard.models.pools import (
    AttentionPool,
    ConcatPool,
    FirstToken,
    FirstTokens,
    LastToken,
    MeanPool,
)
from regard.models.positions import Relative, Rotary, Sinusoid
from regard.models.rnn import CausalRNNFacts, RNNEncoderFacts
from regard.models.rnn_decoder import CrossAttentionFacts, RNNDecoderFacts
from regard.models.text_pairs import TextPairStack, TextsPool
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.parts.attend import PermutationMask, WindowMask
from regard.parts.rotary import LinearScaling, Llama3Scaling

MODULES = (
    *(cho, sutskever, zaremba, bahdanau, luong, dai, ma, context2vec, esim, bidaf, gehring, lin),
    *(taglm, transformer, he, lee, cove, awd_lstm, clark, marian, ulmfit, elmo, gpt, bert, gpt2),
    *(ernie, grover, xlnet, roberta, spanbert, albert, distilbert, t5, electra, mt5, vit, deit),
    *(llama, mistral, qwen2, modernbert),
)
LINEAGE: tuple[Paper, ...] = tuple(module.PAPER for module in MODULES)
"""All papers, from the first to the last."""
MODULE_NAMES = {module.PAPER.key: module.__name__ for module in MODULES}
"""The module of each paper, by its key."""

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(TrunkWithHeads, EncoderDecoder, Trunk, Features, Tokens, Sinusoid, Learned, Relative),
        *(Rotary, LinearScaling, Llama3Scaling),
        *(Stack, WindowMask, PermutationMask, RNNEncoderFacts, RNNDecoderFacts, CausalRNNFacts),
        *(CrossAttentionFacts, FirstToken, FirstTokens, LastToken, MeanPool, AttentionPool),
        *(ConcatPool, MLMHead, NextTokenHead, SentencePairHead, LabelHead, TokenLabelHead),
        *(TextPairStack, TextsPool, TransitionHead, SpanHead, DropoutSpanHead, ChoiceHead),
        *(kind for paper in LINEAGE for kind in paper.kinds),
    )
}
"""The classes that facts are made of, by name."""


def paper(name: str) -> Paper:
    """The paper of that name."""
    known = {entry.key: entry for entry in LINEAGE}
    if name.lower() not in known:
        raise BadInput(f"no paper is called {name!r}{did_you_mean(name.lower(), list(known))}")
    return known[name.lower()]


def paper_of_folder(config: Mapping[str, object], where: str) -> Paper:
    """Return the paper of a Hugging Face config.json, by its ``model_type``.

    If several papers share the type, the file may name one; the default is the paper with the name
    of the type.
    """
    known = dict[str, dict[str, Paper]]()
    for entry in LINEAGE:
        if "hf" in entry.formats:
            known.setdefault(entry.formats["hf"].model_type, {})[entry.key] = entry
    name = config.get("model_type")
    if str(name) not in known:
        supported = f"is not supported, only {', '.join(known)}"
        raise BadInput(f"{where}: model_type {shown(name)} {supported}")
    papers = known[str(name)]
    order = (str(config.get(PAPER_KEY)), str(name), *papers)
    return next(papers[key] for key in order if key in papers)


def sized(name: str) -> ModelFacts:
    """The facts of "PAPER:SIZE", or of the default size of "PAPER"."""
    key, colon, size = name.partition(":")
    entry = paper(key)
    size = size if colon else entry.default_size
    if size not in entry.sizes:
        raise BadInput(f"{entry.name} has no size {size!r}{did_you_mean(size, list(entry.sizes))}")
    return entry.sizes[size]
