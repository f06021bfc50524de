"""DistilBERT (Sanh et al., 2019, arXiv:1910.01108): BERT with half of its layers, without segments
and pooler, distilled from BERT. A dense layer over the first state classifies rows. The authors'
code applies no dropout to the output of attention.
"""

from functools import partial

from regard.models.facts import change
from regard.models.formats import Architectures, Constant, HFFormat, HFHead, Key, UnreadKey
from regard.models.formats.config_map import ACTIVATIONS
from regard.models.label_heads import ChoiceHead, DropoutSpanHead, LabelHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.pools import FirstToken
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.wordpiece import WordPiece
from regard.weights import Alias, Passthrough, Rule, WeightMap

BASE = change(bert.BASE, depth=6, segments=0, pool=None, attention_output_dropout=0.0)
FIRST = FirstToken(dense=False)


# The format of Hugging Face: config.json ↔ facts.
CONFIG = (
    Key("vocab_size", "vocab"),
    Key("dim", "width"),
    Key("n_layers", "depth"),
    Key("n_heads", "heads"),
    Key("hidden_dim", "inner"),
    Key("activation", "activation", ACTIVATIONS),
    Key("dropout", "stack.dropout"),
    Key("attention_dropout", "attention_dropout"),
    Key("max_position_embeddings", "longest"),
    Key("initializer_range", "init_std"),
    UnreadKey("sinusoidal_pos_embds", False),  # how positions were drawn: files hold the vectors
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)
DROPOUT = Key("seq_classif_dropout", "dropout")
MLM = HFHead(bert.MLM.head, "vocab_transform.", bert.MLM.config_map)
LABEL = HFHead(
    LabelHead(2, dropout=0.2, dense="relu", last_only=True),
    "pre_classifier.",
    (DROPOUT, bert.LABELS),
    pool=FIRST,
)
CHOICE = HFHead(
    ChoiceHead(dropout=0.2, dense="relu", last_only=True), "pre_classifier.", (DROPOUT,), pool=FIRST
)
SPAN = HFHead(DropoutSpanHead(dropout=0.1), "qa_outputs.", (Key("qa_dropout", "dropout"),))
TOKEN_LABEL = HFHead(
    TokenLabelHead(2, dropout=0.1),
    "classifier.",
    (Key("dropout", "dropout"), bert.LABELS),
    from_stack=bert.STACK_DROPOUT,
    unless="pre_classifier.",
)
ARCHITECTURES = Architectures(
    {
        "DistilBertModel": (),
        "DistilBertForMaskedLM": (MLM,),
        "DistilBertForQuestionAnswering": (SPAN,),
        "DistilBertForSequenceClassification": (LABEL,),
        "DistilBertForTokenClassification": (TOKEN_LABEL,),
        "DistilBertForMultipleChoice": (CHOICE,),
    }
)

# Names of tensors: those of Hugging Face ↔ ours. A rule applies if the model has the tensor.
LAYER, OURS = "transformer.layer.{i}.", "trunk.blocks.{i}."
TRUNK = (
    Rule("embeddings.word_embeddings.weight", "trunk.embed.token.weight"),
    Rule("embeddings.position_embeddings.weight", "trunk.embed.position.weight"),
    Rule("embeddings.LayerNorm.*", "trunk.embed.norm.*"),
    Passthrough("embeddings.position_ids"),
    Rule(LAYER + "attention.{q_lin,k_lin,v_lin}.*", OURS + "attention.qkv.*", bert.JOIN),
    Rule(LAYER + "attention.out_lin.*", OURS + "attention.o.*"),
    Rule(LAYER + "sa_layer_norm.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "ffn.lin1.*", OURS + "mlp.up.*"),
    Rule(LAYER + "ffn.lin2.*", OURS + "mlp.down.*"),
    Rule(LAYER + "output_layer_norm.*", OURS + "mlp_residual.norm.*"),
)
HEADS = (
    Rule("vocab_transform.*", "heads.mlm.dense.*"),
    Rule("vocab_layer_norm.*", "heads.mlm.norm.*"),
    Rule("vocab_projector.*", "heads.mlm.out.*"),
    Alias("vocab_projector.weight", "trunk.embed.token.weight"),
    Rule("pre_classifier.*", "heads.label.dense.*"),
    Rule("classifier.*", "heads.label.out.*"),
    Rule("pre_classifier.*", "heads.choice.dense.*"),
    Rule("classifier.*", "heads.choice.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)
HF = HFFormat(
    name="DistilBERT",
    model_type="distilbert",
    defaults=BASE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="distilbert.", unprefixed=HEADS, old=bert.OLD),
    tokenizer=partial(EncoderTokenizer.load, family=WordPiece()),
)

PAPER = Paper(
    name="DistilBERT",
    year=2019,
    title="DistilBERT, a distilled version of BERT: smaller, faster, cheaper and lighter",
    authors="Victor Sanh, Lysandre Debut, Julien Chaumond, Thomas Wolf",
    arxiv="1910.01108",
    after="BERT",
    tokenizer=WordPiece.name,
    pretraining={"masked-lm": {"weight": 2.0}, "distillation": {"weight": 5.0, "cosine": 1.0}},
    sizes={"base": BASE},
    published={"base": 66_000_000},
    heads=(MLM, SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
