"""Which dropout falls where in training, for every family: a table from papers and published code.

A line is a number of dropouts, what they fall on, kind and rate, and what reads the result; see
``dropout_graph``. Small models of two layers have the rates of the papers. "dropout" is another one
before or after this; "states" are those that a model gives.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from dropout_graph import count_places, marked_dropout
from regard.core.batch import PackedTokens, SourceTarget, pack
from regard.core.layout import Layout
from regard.models.facts import change
from regard.models.features import Features
from regard.models.heads import NextTokenHead
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.papers import (
    albert,
    awd_lstm,
    bahdanau,
    bert,
    cho,
    context2vec,
    cove,
    dai,
    deit,
    distilbert,
    electra,
    elmo,
    gehring,
    gpt,
    gpt2,
    lin,
    luong,
    marian,
    roberta,
    spanbert,
    sutskever,
    taglm,
    transformer,
    ulmfit,
    vit,
    xlnet,
    zaremba,
)
from regard.models.papers.electra import Joint, ReplacedTokenHead
from regard.models.papers.elmo import BiLMHead
from regard.models.papers.spanbert import SpanBoundaryHead
from regard.models.papers.ulmfit import NormedLabelHead
from regard.models.papers.xlnet.two_stream import PermutationLMHead
from regard.models.pools import ConcatPool

ROWS, LENGTH, WORDS = 2, 4, 13
TOKENS = pack([[1, 2, 3, 4], [4, 5, 6, 7]])
IN_ROWS = torch.arange(ROWS * LENGTH) % LENGTH
STACK = {"width": 8, "heads": 2, "inner": 12, "depth": 2}
TEXT = {**STACK, "vocab": WORDS}
IMAGES = {**STACK, "patch_size": 4, "image_size": 8}
RNN = {"vocab": WORDS, "width": 8, "embedding": 6}
AWD_LSTM = {**RNN, "last_width": 6}
ELMO = change(elmo.ORIGINAL, width=8, cells=10, filters=((1, 4), (2, 4)))

Outputs = Mapping[str, Tensor]


def translate(model: nn.Module) -> Outputs:
    return {"logits": model(SourceTarget(TOKENS, TOKENS)).by_head["next_token"]}


def read_text(model: nn.Module, **more) -> Outputs:
    layout = replace(TOKENS.layout, segments_T=torch.zeros(ROWS * LENGTH, dtype=torch.long))
    outputs = model(replace(TOKENS, layout=layout), **more)
    undropped = (
        {} if outputs.encoded.undropped_TD is None else {"undropped": outputs.encoded.undropped_TD}
    )
    return {"logits": _sum(outputs.by_head), "states": outputs.encoded.states_TD, **undropped}


def read_spans(model: nn.Module) -> Outputs:
    return read_text(model, positions={SpanBoundaryHead.name: torch.tensor([[0], [3], [1]])})


def read_spelled_words(model: nn.Module) -> Outputs:
    """Words by their characters, after a number of their own where features are read."""
    ids = sum(model.trunk.embed.ids_per_token)
    words_TC = torch.ones(ROWS * LENGTH, ids, dtype=torch.long)
    return {"logits": _sum(model(PackedTokens(words_TC, TOKENS.layout)).by_head)}


def read_images(model: nn.Module) -> Outputs:
    inputs = PackedTokens(torch.randn(ROWS, 3, 8, 8), Layout.rectangle(ROWS, 1))
    return {"logits": _sum(model(inputs).by_head)}


def predict_in_any_order(model: nn.Module) -> Outputs:
    """Two streams and a memory, as in pre-training."""
    layout = replace(
        Layout.rectangle(ROWS, LENGTH), orders_T=IN_ROWS, segments_T=torch.zeros_like(IN_ROWS)
    )
    positions = {PermutationLMHead.name: torch.tensor([3, 7])}
    state = model.trunk.new_memory(ROWS, 3)
    outputs = model(PackedTokens(TOKENS.tokens_T, layout), positions=positions, state=state)
    return {"logits": _sum(outputs.by_head), "states": outputs.encoded.states_TD}


def replace_tokens(model: nn.Module) -> Outputs:
    masked_N, number_T = torch.tensor([1]), torch.where(IN_ROWS == 1, 0, -1)
    return read_text(model, positions={MLMHead.name: masked_N, ReplacedTokenHead.name: number_T})


def _sum(by_head: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([logits.sum() for logits in by_head.values()]).sum()


@dataclass(frozen=True)
class Case:
    """A model, how it runs in training, and the places of its dropout."""

    facts: object
    run: Callable[[nn.Module], Outputs]
    places: str


# Vaswani et al., 2017, section 5.4: the output of each sublayer before it is added, and the sum of
# embeddings and positions, on both sides.
TRANSFORMER = """
1 source.embed.token | states 0.1 | {first} source.blocks.i.attention_residual.norm
2 source.blocks.i.attention.o | states 0.1 | source.blocks.i.attention_residual.norm
2 source.blocks.i.mlp.down | states 0.1 | source.blocks.i.mlp_residual.norm
1 source.embed.token | states 0.1 | {second} target.blocks.i.attention_residual.norm
2 target.blocks.i.attention.o | states 0.1 | target.blocks.i.attention_residual.norm
2 target.blocks.i.cross.o | states 0.1 | target.blocks.i.cross_residual.norm
2 target.blocks.i.mlp.down | states 0.1 | target.blocks.i.mlp_residual.norm
""".format(first="source.blocks.i.attention.qkv", second="target.blocks.i.attention.qkv")

# google-research/bert, modeling.py: embedding_postprocessor, attention_layer, transformer_model.
BERT_EMBEDDING = """
1 embed.norm | states 0.1 | blocks.i.attention.qkv blocks.i.attention_residual.norm
"""
BERT_LAYERS = """
2 blocks.i.attention.qkv | attention 0.1 | blocks.i.attention.o
2 blocks.i.attention.o | states 0.1 | blocks.i.attention_residual.norm
2 blocks.i.mlp.down | states 0.1 | blocks.i.mlp_residual.norm
"""
BERT = BERT_EMBEDDING + BERT_LAYERS
# The same code in front of a projection: google-research/albert and electra, modeling.py.
FACTORISED = "\n1 embed.norm | states 0.1 | embed.projection" + BERT_LAYERS

# Zaremba et al., 2014, section 3.1: all connections but those from state to state.
ZAREMBA = """
1 embed.token | states 0.5 | layers.i.kernel
1 layers.i.kernel | states 0.5 | layers.i+1.kernel
1 layers.i.kernel | states 0.5 | heads.next_token states
"""

# awd-lstm-lm, model.py: embedded_dropout, LockedDropout on the input, between layers and on the
# output, WeightDrop. The last states before dropout are kept for TAR.
LOCKED = """
1  | words {words} | dropout
1 dropout embed.token | rows {input} | layers.i.kernel
2 layers.i.kernel | rows {hidden} | layers.i+1.kernel
1 layers.i.kernel | rows 0.4 | {output}
3 layers.i.kernel | weights 0.5 | layers.i.kernel
"""

# Luong et al., 2015, section 4.1: as Zaremba et al. do. The decoder feeds h̃ back before dropout and
# runs token by token.
LUONG = """
1 source.embed.token | states 0.2 | source.layers.layers.i.kernel
1 source.layers.layers.i.kernel | states 0.2 | source.layers.layers.i+1.kernel
1 target.embed.token | states 0.2 | target.layers.layers.i.kernel
4 source.layers.layers.i.kernel target.layers.layers.i.kernel | states 0.2 | {above}
1 target.combine.linear | states 0.2 | head
""".format(above="target.layers.layers.i+1.kernel")

# Cho et al. and Bahdanau et al. have no dropout; "laptop" sizes have it where Zaremba et al. do.
MAXOUT = """
1 source.embed.token | states 0.1 | source.layers.layers.i.kernel
1 target.embed.token | states 0.1 | target.layers.layers.i.kernel target.maxout.linear
1 target.maxout.linear | states 0.1 | head
"""

# What a stack of norms before sublayers reads, from the first sublayer on.
FROM_BLOCK_0 = (
    "blocks.i.attention_residual.norm blocks.i.mlp_residual.norm "
    "blocks.i+1.attention_residual.norm blocks.i+1.mlp_residual.norm norm"
)

CASES = {
    "Transformer": Case(change(transformer.BASE, **TEXT), translate, TRANSFORMER),
    "Transformer big": Case(  # table 3: 0.3
        change(transformer.BIG, **TEXT), translate, TRANSFORMER.replace("0.1", "0.3")
    ),
    # config.json of OPUS-MT: dropout 0.1, attention_dropout and activation_dropout 0.
    "Marian": Case(change(marian.BASE, **TEXT), translate, TRANSFORMER),
    # run_pretraining.py: none in the heads; run_classifier.py: 0.1 on the pooled state.
    "BERT, pre-training": Case(
        change(bert.BASE, **TEXT).with_heads(MLMHead(), SentencePairHead()), read_text, BERT
    ),
    "BERT, labels": Case(
        change(bert.BASE, **TEXT).with_heads(bert.LABEL.head),
        read_text,
        BERT + "1 pool.dense | states 0.1 | heads.label.out",
    ),
    "BERT, labels of tokens": Case(
        change(bert.BASE, **TEXT).with_heads(bert.TOKEN_LABEL.head),
        read_text,
        BERT + "1 blocks.i.mlp_residual.norm | states 0.1 | heads.token_label.out",
    ),
    # run_squad.py: none.
    "BERT, spans": Case(change(bert.BASE, **TEXT).with_heads(SpanHead()), read_text, BERT),
    # fairseq, roberta/model.py, RobertaClassificationHead: before both layers.
    "RoBERTa": Case(
        replace(change(roberta.BASE, **TEXT), pool=roberta.LABEL.pool).with_heads(
            roberta.MLM.head, roberta.LABEL.head
        ),
        read_text,
        BERT
        + "1 blocks.i.mlp_residual.norm | states 0.1 | heads.label.dense\n"
        + "1 heads.label.dense | states 0.1 | heads.label.out",
    ),
    # google-research/albert, modeling.py, attention_ffn_block: both sublayers, where transformers
    # leaves out the second.
    "ALBERT": Case(
        change(albert.BASE, **TEXT, embedding_size=6).with_heads(MLMHead(), SentencePairHead()),
        read_text,
        FACTORISED,
    ),
    # The released models "v2" have none: Lan et al., 2019, section 4.8.
    "ALBERT v2": Case(
        change(albert.SIZES_V2["base-v2"], **TEXT, embedding_size=6).with_heads(MLMHead()),
        read_text,
        "",
    ),
    # SpanBERT, pretraining/fairseq: the boundary head is two dense layers without dropout.
    "SpanBERT": Case(
        change(spanbert.BASE, **TEXT).with_heads(MLMHead(), SpanBoundaryHead()), read_spans, BERT
    ),
    # transformers, modeling_distilbert.py, the authors' own: none after the attention's out_lin.
    "DistilBERT": Case(
        change(distilbert.BASE, **TEXT).with_heads(MLMHead(), distilbert.SPAN.head),
        read_text,
        BERT.replace(
            "2 blocks.i.attention.o | states 0.1 | blocks.i.attention_residual.norm",
            "1 blocks.i.mlp_residual.norm | states 0.1 | heads.span.out",
        ),
    ),
    "DistilBERT, labels": Case(
        replace(change(distilbert.BASE, **TEXT), pool=distilbert.LABEL.pool).with_heads(
            distilbert.LABEL.head
        ),
        read_text,
        BERT.replace(
            "2 blocks.i.attention.o | states 0.1 | blocks.i.attention_residual.norm",
            "1 heads.label.dense | states 0.2 | heads.label.out",
        ),
    ),
    # google-research/electra, pretrain/pretrain_helpers.py and run_pretraining.py: BERT twice, none
    # in the heads.
    "ELECTRA": Case(
        Joint(
            change(electra.SMALL, **TEXT, embedding_size=6).with_heads(ReplacedTokenHead()),
            change(electra.SMALL_GENERATOR, **TEXT, embedding_size=6).with_heads(MLMHead()),
        ),
        replace_tokens,
        FACTORISED.replace("blocks", "discriminator.blocks")
        .replace("embed.projection", "discriminator.embed.projection")
        .replace("embed.norm", "discriminator.embed.norm")
        + FACTORISED.replace("blocks", "generator.blocks")
        .replace("embed.projection", "generator.embed.projection")
        .replace("embed.norm", "discriminator.embed.norm"),
    ),
    "ELECTRA, labels": Case(  # transformers, ElectraClassificationHead: before both layers
        replace(change(electra.SMALL, **TEXT, embedding_size=6), pool=electra.FIRST).with_heads(
            electra.LABEL.head
        ),
        read_text,
        FACTORISED
        + "1 blocks.i.mlp_residual.norm | states 0.1 | heads.label.dense\n"
        + "1 heads.label.dense | states 0.1 | heads.label.out",
    ),
    # Radford et al., 2018, section 4.1: residual, embedding and attention dropout of 0.1. The
    # authors drop rows of the embedding matrix, transformers and this the sum of embeddings.
    "GPT": Case(
        change(gpt.BASE, **TEXT).with_heads(NextTokenHead()),
        read_text,
        BERT.replace("embed.norm", "embed.position embed.token"),
    ),
    # transformers, modeling_gpt2.py: embd_pdrop, attn_pdrop, resid_pdrop.
    "GPT-2": Case(
        change(gpt2.SMALL, **TEXT).with_heads(NextTokenHead()),
        read_text,
        f"""
1 embed.position embed.token | states 0.1 | {FROM_BLOCK_0}
2 blocks.i.attention.qkv | attention 0.1 | blocks.i.attention.o
1 blocks.i.attention.o | states 0.1 | {FROM_BLOCK_0.split(" ", 1)[1]}
1 blocks.i.mlp.down | states 0.1 | {FROM_BLOCK_0.split(" ", 2)[2]}
1 blocks.i.attention.o | states 0.1 | blocks.i.mlp_residual.norm norm
1 blocks.i.mlp.down | states 0.1 | norm
""",
    ),
    # zihangdai/xlnet, modeling.py, transformer_xl: word_emb_k, word_emb_q, pos_emb, attn_prob,
    # attn_out, both layers of positionwise_ffn, and the output. Here all rows share the mask of
    # pos_emb, as in Transformer-XL.
    "XLNet": Case(
        change(xlnet.BASE, **TEXT).with_heads(PermutationLMHead()),
        predict_in_any_order,
        """
1 embed.token | states 0.1 | {first}
1 query_embed | states 0.1 | {first}
1  | states 0.1 | blocks.i.attention.score.distance blocks.i+1.attention.score.distance
4 {scores} | attention 0.1 | blocks.i.attention.o
2 blocks.i.attention.o | states 0.1 | blocks.i.attention_residual.norm
2 blocks.i.mlp.up | states 0.1 | blocks.i.mlp.down
2 blocks.i.mlp.down | states 0.1 | blocks.i.mlp_residual.norm
1 blocks.i.mlp_residual.norm | states 0.1 | embed.token heads.permutation_lm states
""".format(
            first="blocks.i.attention.kv blocks.i.attention.q blocks.i.attention_residual.norm",
            scores="blocks.i.attention.kv blocks.i.attention.score "
            "blocks.i.attention.score.distance",
        ),
    ),
    # transformers, SequenceSummary: last_dropout after the dense layer.
    "XLNet, labels": Case(
        replace(change(xlnet.BASE, **TEXT), pool=xlnet.LABEL.pool).with_heads(xlnet.LABEL.head),
        read_text,
        """
1 embed.token | states 0.1 | {first}
1  | states 0.1 | blocks.i.attention.score.distance blocks.i+1.attention.score.distance
2 {scores} | attention 0.1 | blocks.i.attention.o
2 blocks.i.attention.o | states 0.1 | blocks.i.attention_residual.norm
2 blocks.i.mlp.up | states 0.1 | blocks.i.mlp.down
2 blocks.i.mlp.down | states 0.1 | blocks.i.mlp_residual.norm
1 blocks.i.mlp_residual.norm | states 0.1 | heads.label.dense states
1 heads.label.dense | states 0.1 | heads.label.out
""".format(
            first="blocks.i.attention.kv blocks.i.attention.q blocks.i.attention_residual.norm",
            scores="blocks.i.attention.kv blocks.i.attention.score "
            "blocks.i.attention.score.distance",
        ),
    ),
    # Dosovitskiy et al., 2020, appendix B.1: after every dense layer but those of queries, keys and
    # values, and after positions are added. Here at a rate of 0.1 (table 3, ImageNet).
    "ViT": Case(
        change(vit.BASE, **IMAGES, inner_dropout=0.1, **{"stack.dropout": 0.1}).with_heads(
            LabelHead(2)
        ),
        read_images,
        f"""
1 embed.position | states 0.1 | {FROM_BLOCK_0}
1 blocks.i.attention.o | states 0.1 | {FROM_BLOCK_0.split(" ", 1)[1]}
2 blocks.i.mlp.up | states 0.1 | blocks.i.mlp.down
1 blocks.i.mlp.down | states 0.1 | {FROM_BLOCK_0.split(" ", 2)[2]}
1 blocks.i.attention.o | states 0.1 | blocks.i.mlp_residual.norm norm
1 blocks.i.mlp.down | states 0.1 | norm
""",
    ),
    # Touvron et al., 2020, table 9: stochastic depth of 0.1 and no dropout. The rate rises from 0
    # in the first layer (timm, vision_transformer.py); layer scale comes before (CaiT).
    "DeiT": Case(
        change(deit.BASE, **IMAGES, drop_path=0.1, layer_scale=0.1).with_heads(LabelHead(2)),
        read_images,
        """
1 blocks.i.attention_residual | path 0.1 | blocks.i.mlp_residual.norm norm
1 blocks.i.mlp_residual | path 0.1 | norm
""",
    ),
    # bilm-tf, training.py: DropoutWrapper around ResidualWrapper, so the residual is dropped too;
    # and once more on the output.
    "ELMo": Case(
        ELMO.with_heads(BiLMHead(11)),
        read_spelled_words,
        """
1 embed.projection | states 0.1 | blocks.i
1 blocks.i | states 0.1 | blocks.i+1 dropout
1 blocks.i dropout | states 0.1 | heads.bilm.out
""",
    ),
    # Merity et al., 2017, section 5; the options of the README of awd-lstm-lm.
    "AWD-LSTM, WikiText-2": Case(
        change(awd_lstm.WIKITEXT_2, **AWD_LSTM).with_heads(awd_lstm.HEAD),
        read_text,
        LOCKED.format(
            words=0.1, input=0.65, hidden=0.2, output="embed.token heads.next_token states"
        ),
    ),
    "AWD-LSTM, Penn Treebank": Case(
        change(awd_lstm.PENN_TREEBANK, **AWD_LSTM).with_heads(awd_lstm.HEAD),
        read_text,
        LOCKED.format(
            words=0.1, input=0.4, hidden=0.25, output="embed.token heads.next_token states"
        ),
    ),
    # Howard & Ruder, 2018, section 4.1.
    "ULMFiT": Case(
        change(ulmfit.BASE, **AWD_LSTM).with_heads(awd_lstm.HEAD),
        read_text,
        LOCKED.format(
            words=0.05, input=0.4, hidden=0.3, output="embed.token heads.next_token states"
        ),
    ),
    # fastai, PoolingLinearClassifier: pools states before the last dropout; batch norm, dropout and
    # a linear layer, twice.
    "ULMFiT, labels": Case(
        replace(change(ulmfit.BASE, **AWD_LSTM), pool=ConcatPool()).with_heads(NormedLabelHead(2)),
        read_text,
        LOCKED.format(words=0.05, input=0.4, hidden=0.3, output="states")
        + "1 heads.label.norms.0 | states 0.4 | heads.label.dense\n"
        + "1 heads.label.norms.1 | states 0.1 | heads.label.out",
    ),
    "Zaremba, medium": Case(
        change(zaremba.MEDIUM, **RNN).with_heads(zaremba.HEAD), read_text, ZAREMBA
    ),
    "Zaremba, large": Case(
        change(zaremba.LARGE, **RNN).with_heads(zaremba.HEAD),
        read_text,
        ZAREMBA.replace("0.5", "0.65"),
    ),
    "Zaremba, small": Case(change(zaremba.SMALL, **RNN).with_heads(zaremba.HEAD), read_text, ""),
    "Cho": Case(change(cho.BASE, **RNN, maxout=4), translate, ""),
    "Cho, laptop": Case(change(cho.LAPTOP, **RNN, maxout=4), translate, MAXOUT),
    "Bahdanau": Case(change(bahdanau.BASE, **RNN, maxout=4), translate, ""),
    "Bahdanau, laptop": Case(change(bahdanau.LAPTOP, **RNN, maxout=4), translate, MAXOUT),
    "Sutskever": Case(change(sutskever.BASE, **RNN), translate, ""),
    "Sutskever, laptop": Case(
        change(sutskever.LAPTOP, **RNN),
        translate,
        """
1 source.embed.token | states 0.1 | source.layers.layers.i.kernel
1 source.layers.layers.i.kernel | states 0.1 | source.layers.layers.i+1.kernel
1 target.embed.token | states 0.1 | target.layers.layers.i.kernel
1 source.layers.layers.i.kernel target.layers.layers.i.kernel | states 0.1 | {above}
1 source.layers.layers.i.kernel target.layers.layers.i.kernel | states 0.1 | head
""".format(above="target.layers.layers.i+1.kernel"),
    ),
    "Luong": Case(change(luong.BASE, **RNN, depth=2), translate, LUONG),
    # McCann et al., 2017, section 3: the translator of Luong et al.
    "CoVe, translator": Case(
        change(cove.MT_LSTM, vocab=WORDS, embedding=6, **{"source.width": 4, "target.width": 8}),
        translate,
        LUONG,
    ),
    # Gehring et al., 2016, section 4.3, embeddings and the output of the decoder; 2017, section
    # 3.5, the input of each convolution as well.
    "Gehring": Case(
        change(gehring.BASE, **RNN, longest=9, **{"source.depth": 2}),
        translate,
        """
1 source.embed.position source.embed.token | states 0.2 | dropout {after}
1 dropout | states 0.2 | source.layers.i.linear
1 dropout source.layers.i.linear | states 0.2 | source.layers.i+1.linear
1 target.embed.token | states 0.2 | target.layers.layers.i.kernel
1 target.bridge.begin target.layers.layers.i.kernel | states 0.2 | head
""".format(after="target.bridge.begin target.layers.layers.i.kernel"),
    ),
    # Lin et al., 2017, section 4: 0.5, without places; here those of Zaremba et al.
    "Lin": Case(
        change(lin.BASE, **RNN, inner=4).with_heads(LabelHead(2, lin.ENCODER.dropout)),
        read_text,
        """
1 embed.token | states 0.5 | layers.layers.i.kernel
1 layers.layers.i.kernel pool.attention.score | states 0.5 | heads.label.out
""",
    ),
    "Dai, classifier": Case(
        change(dai.CLASSIFIER, **RNN).with_heads(LabelHead(2, 0.5)),
        read_text,
        """
1 embed.token | states 0.5 | layers.layers.i.kernel
1 layers.layers.i.kernel | states 0.5 | heads.label.out
""",
    ),
    "Dai, autoencoder": Case(change(dai.AUTOENCODER, **RNN), translate, ""),
    # orenmel/context2vec, train_context2vec.py: 0 unless asked for.
    "context2vec": Case(
        change(context2vec.BASE, **RNN).with_heads(TokenLabelHead(2)), read_text, ""
    ),
    # Peters et al., 2017, section 3.4: the input of each GRU.
    "TagLM": Case(
        replace(
            change(taglm.BASE, features=None, **RNN),
            trunk=replace(
                change(taglm.BASE, features=None, **RNN).trunk,
                features=replace(taglm.BASE.trunk.features, model=ELMO.trunk),
            ),
        ).with_heads(TokenLabelHead(2)),
        read_spelled_words,
        """
1 inner.embed.words.token | states 0.25 | inner.layers.layers.i.kernel
1 inner.layers.layers.i.kernel | states 0.25 | inner.layers.layers.i+1.kernel
1 mixes.between | states 0.25 | inner.layers.layers.i.kernel
""",
    ),
    # allennlp, modules/elmo.py: 0.5 on each mixture; none inside the frozen model.
    "ELMo as features": Case(
        replace(
            change(lin.BASE, **RNN, inner=4),
            trunk=replace(
                change(lin.BASE, **RNN, inner=4).trunk,
                stack=replace(lin.BASE.trunk.stack, width=8, embedding=22, dropout=0.0),
                features=Features(ELMO.trunk, at="both"),
            ),
        ).with_heads(ChoiceHead()),
        read_spelled_words,
        """
1 mixes.input | states 0.5 | inner.layers.layers.i.kernel
1 mixes.output | states 0.5 | heads.choice.out pool.attention.score
""",
    ),
}


@pytest.mark.thinned
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_dropout_falls_where_papers_say(case):
    lines = (line.split(" ", 1) for line in case.places.split("\n") if line)
    expected = {place: int(count) for count, place in lines}
    with marked_dropout():
        model = case.facts.build().train()
        places = count_places(model, case.run(model))
    assert places == expected


@pytest.mark.parametrize("name", ["Transformer", "BERT, labels", "XLNet", "ELMo", "Luong"])
def test_no_dropout_falls_in_inference(name):
    with marked_dropout():
        model = CASES[name].facts.build().eval()
        assert not count_places(model, CASES[name].run(model))
