"""BERT (Devlin et al., 2018, arXiv:1810.04805): a bidirectional encoder, pre-trained with masked LM
and next-sentence prediction. The small sizes are from Turc et al. (2019, arXiv:1908.08962).
"""

from functools import partial

from regard.models.embedding import Learned
from regard.models.facts import change
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key, LabelCount
from regard.models.formats.config_map import ENCODER_KEYS
from regard.models.label_heads import (
    ChoiceHead,
    LabelHead,
    MLMHead,
    SentencePairHead,
    SpanHead,
    TokenLabelHead,
)
from regard.models.paper import Paper
from regard.models.pools import FirstToken
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.wordpiece import WordPiece
from regard.weights import Alias, Join, Passthrough, Rule, WeightLine, WeightMap

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=30_522, position=Learned(512), segments=2, normed=True),
        Stack(
            width=768,
            depth=12,
            heads=12,
            inner=3_072,
            activation="gelu",
            eps=1e-12,
            dropout=0.1,
            attention_dropout=0.1,
        ),
    ),
    pool=FirstToken(dense=True),
    init_std=0.02,
)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)
MEDIUM = change(BASE, width=512, depth=8, heads=8, inner=2_048)
SMALL = change(MEDIUM, depth=4)
MINI = change(SMALL, width=256, heads=4, inner=1_024)
TINY = change(MINI, width=128, depth=2, heads=2, inner=512)

# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
CONFIG = (
    Key("vocab_size", "vocab"),
    *ENCODER_KEYS,
    Key("max_position_embeddings", "longest"),
    Key("type_vocab_size", "segments"),
    Key("initializer_range", "init_std"),
    Key("layer_norm_eps", "eps"),
    Constant("is_encoder_decoder", False),
    Constant("is_decoder", False),
    Constant("add_cross_attention", False),
    Constant("position_embedding_type", "absolute"),
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)
DROPOUT = Key("classifier_dropout", "dropout", fallback="hidden_dropout_prob")
STACK_DROPOUT = {"dropout": "dropout"}
LABELS = LabelCount("outputs")
MLM = HFHead(MLMHead(), "cls.predictions.", (Key("tie_word_embeddings", "tied"),))
SENTENCE_PAIR = HFHead(SentencePairHead(), "cls.seq_relationship.")
SPAN = HFHead(SpanHead(), "qa_outputs.")
LABEL = HFHead(
    LabelHead(2, dropout=0.1), "classifier.", (DROPOUT, LABELS), from_stack=STACK_DROPOUT
)
TOKEN_LABEL = HFHead(
    TokenLabelHead(2, dropout=0.1), "classifier.", (DROPOUT, LABELS), from_stack=STACK_DROPOUT
)
CHOICE = HFHead(ChoiceHead(dropout=0.1), "classifier.", (DROPOUT,), from_stack=STACK_DROPOUT)
ARCHITECTURES = Architectures(
    {
        "BertModel": (),
        "BertForMaskedLM": (MLM,),
        "BertForNextSentencePrediction": (SENTENCE_PAIR,),
        "BertForPreTraining": (MLM, SENTENCE_PAIR),
        "BertForQuestionAnswering": (SPAN,),
        "BertForSequenceClassification": (LABEL,),
        "BertForTokenClassification": (TOKEN_LABEL,),
        "BertForMultipleChoice": (CHOICE,),
    }
)
LAYER, OURS = "encoder.layer.{i}.", "trunk.blocks.{i}."
JOIN = (Join((1, 1, 1)),)
EMBEDDINGS = (
    Rule("embeddings.word_embeddings.weight", "trunk.embed.token.weight"),
    Rule("embeddings.position_embeddings.weight", "trunk.embed.position.weight"),
    Rule("embeddings.token_type_embeddings.weight", "trunk.embed.segment.weight"),
    Rule("embeddings.LayerNorm.*", "trunk.embed.norm.*"),
    Passthrough("embeddings.position_ids"),
)
TRUNK = (
    *EMBEDDINGS,
    Rule(LAYER + "attention.self.{query,key,value}.*", OURS + "attention.qkv.*", JOIN),
    Rule(LAYER + "attention.output.dense.*", OURS + "attention.o.*"),
    Rule(LAYER + "attention.output.LayerNorm.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "intermediate.dense.*", OURS + "mlp.up.*"),
    Rule(LAYER + "output.dense.*", OURS + "mlp.down.*"),
    Rule(LAYER + "output.LayerNorm.*", OURS + "mlp_residual.norm.*"),
    Rule("pooler.dense.*", "pool.dense.*"),
)


def mlm_output(prefix: str) -> tuple[WeightLine, ...]:
    """Rules for the output layer of a masked-LM head, tied to the embedding or not."""
    return (
        Rule(prefix + "decoder.{weight,bias}", "heads.mlm.out.{weight,bias}"),  # if not tied
        Rule(prefix + "bias", "heads.mlm.out.bias"),  # if tied
        Alias(prefix + "decoder.weight", "trunk.embed.token.weight"),
        Alias(prefix + "decoder.bias", "heads.mlm.out.bias"),
        Alias(prefix + "bias", "heads.mlm.out.bias"),
        Passthrough(prefix + "bias"),  # stored, unused if not tied
    )


LABEL_RULES = (
    Rule("qa_outputs.*", "heads.span.out.*"),
    Rule("classifier.*", "heads.label.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("classifier.*", "heads.choice.out.*"),
)
HEADS = (
    Rule("cls.predictions.transform.dense.*", "heads.mlm.dense.*"),
    Rule("cls.predictions.transform.LayerNorm.*", "heads.mlm.norm.*"),
    *mlm_output("cls.predictions."),
    Rule("cls.seq_relationship.*", "heads.sentence_pair.out.*"),
    *LABEL_RULES,
)
OLD = tuple(  # names of norms in old files, of later papers too
    (f"{norm}.{before}", f"{norm}.{today}")
    for norm in ("LayerNorm", "layer_norm")
    for before, today in (("gamma", "weight"), ("beta", "bias"))
)
HF = HFFormat(
    name="BERT",
    model_type="bert",
    defaults=BASE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="bert.", unprefixed=HEADS, old=OLD),
    tokenizer=partial(EncoderTokenizer.load, family=WordPiece()),
)

PAPER = Paper(
    name="BERT",
    year=2018,
    title="BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    authors="Jacob Devlin, Ming-Wei Chang, Kenton Lee, Kristina Toutanova",
    arxiv="1810.04805",
    after="GPT",
    tokenizer=WordPiece.name,
    pretraining={"masked-lm": {}, "next-sentence": {}},
    sizes={
        "base": BASE,
        "large": LARGE,
        "medium": MEDIUM,
        "small": SMALL,
        "mini": MINI,
        "tiny": TINY,
    },
    published={
        "base": 110_000_000,
        "large": 340_000_000,
        "medium": 41_700_000,
        "small": 29_100_000,
        "mini": 11_300_000,
        "tiny": 4_400_000,
    },
    heads=(MLM, SENTENCE_PAIR, SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
