"""XLNet (Yang et al., 2019, arXiv:1906.08237): a bidirectional encoder that learns to predict the
tokens of a row in random orders, by two streams of states, with the relative positions and the
memory of Transformer-XL. The class token is last.
"""

from functools import partial
from typing import cast

from regard.core.errors import BadInput
from regard.models.encoder_decoder import ModelFacts
from regard.models.facts import change, values_named
from regard.models.formats import Architectures, HFHead
from regard.models.formats.config_map import ACTIVATIONS, Config, ConfigRow, Constant, Key, Names
from regard.models.formats.hf_format import HFFormat
from regard.models.label_heads import ChoiceHead, LabelHead, TokenLabelHead
from regard.models.paper import Paper
from regard.models.papers import bert
from regard.models.papers.xlnet.two_stream import PermutationLMHead, TwoStreamStack
from regard.models.pools import LastToken
from regard.models.tokens import Tokens
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.unigram import XLNetUnigram
from regard.weights import Alias, Join, Reshape, Rule, Transpose, WeightMap

BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=32_000, position=None),
        TwoStreamStack(width=768, depth=12, heads=12, inner=3_072),
    ),
    init_std=0.02,
)
LARGE = change(BASE, width=1_024, depth=24, heads=16, inner=4_096)


class HeadSize(ConfigRow):
    """Size of a head, which follows from the width and the number of heads."""

    key = "d_head"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        width, heads = config.get("d_model", 1_024), config.get("n_head", 16)
        size = config.get(self.key)
        if isinstance(size, int) and isinstance(heads, int) and size * heads != width:
            raise BadInput(f"{self.key} must be d_model / n_head ({width} / {heads}), not {size}")
        return {}

    def write(self, facts: object) -> dict[str, object]:
        (width,), (heads,) = (values_named(facts, name) for name in ("width", "heads"))
        return {self.key: width // heads}


class AttentionDropout(ConfigRow):
    """Dropout of attention weights: the key ``dropout``, unless our own key is set."""

    key = "attention_dropout"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        value = config.get(self.key, config.get("dropout"))
        return {} if value is None else {self.key: value}

    def write(self, facts: object) -> dict[str, object]:
        (rate,), (other,) = (values_named(facts, name) for name in (self.key, "stack.dropout"))
        return {} if rate == other else {self.key: rate}


CONFIG = (
    Key("vocab_size", "vocab", fallback="n_token"),
    Key("d_model", "width"),
    Key("n_layer", "depth"),
    Key("n_head", "heads"),
    Key("d_inner", "inner"),
    HeadSize(),
    Key("ff_activation", "activation", ACTIVATIONS),
    Key("dropout", "stack.dropout"),
    AttentionDropout(),
    Key("initializer_range", "init_std"),
    Key("layer_norm_eps", "eps"),
    Constant("attn_type", "bi"),
    Constant("bi_data", False),
    Constant("clamp_len", -1),
    Constant("same_length", False),
    Constant("untie_r", True),
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)
JOIN = Join((1, 1))
HEADS = (
    Rule("lm_loss.*", "heads.permutation_lm.*"),
    Alias("lm_loss.weight", "trunk.embed.token.weight"),
    Rule("sequence_summary.summary.*", "heads.label.dense.*"),
    Rule("sequence_summary.summary.*", "heads.choice.dense.*"),
    Rule("logits_proj.*", "heads.label.out.*"),
    Rule("logits_proj.*", "heads.choice.out.*"),
    Rule("classifier.*", "heads.token_label.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)


def weights(width: int, heads: int) -> WeightMap:
    """The weight map for a model of these sizes."""
    size, theirs, ours = width // heads, "layer.{i}.", "trunk.blocks.{i}."
    into_heads = (Reshape((width, heads, size), (width, width)), Transpose())
    score = ours + "attention.score."
    trunk = (
        Rule("word_embedding.weight", "trunk.embed.token.weight"),
        Rule("mask_emb", "trunk.query_embed.weight", (Reshape((1, 1, width), (1, width)),)),
        Rule(theirs + "rel_attn.q", ours + "attention.q.weight", into_heads),
        Rule(theirs + "rel_attn.{k,v}", ours + "attention.kv.weight", (*into_heads, JOIN)),
        Rule(theirs + "rel_attn.o", ours + "attention.o.weight", into_heads[:1]),
        Rule(theirs + "rel_attn.r", score + "distance.weight", into_heads),
        Rule(theirs + "rel_attn.r_w_bias", score + "content_bias"),
        Rule(theirs + "rel_attn.r_r_bias", score + "distance_bias"),
        Rule(theirs + "rel_attn.r_s_bias", score + "segment_bias"),
        Rule(theirs + "rel_attn.seg_embed", score + "segment"),
        Rule(theirs + "rel_attn.layer_norm.*", ours + "attention_residual.norm.*"),
        Rule(theirs + "ff.layer_1.*", ours + "mlp.up.*"),
        Rule(theirs + "ff.layer_2.*", ours + "mlp.down.*"),
        Rule(theirs + "ff.layer_norm.*", ours + "mlp_residual.norm.*"),
    )
    return WeightMap(trunk, prefix="transformer.", unprefixed=HEADS)


class XLNetFormat(HFFormat):
    """The format of XLNet, whose tensor shapes depend on the number of heads."""

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        stack = cast(TwoStreamStack, facts.encoder.stack)
        return weights(stack.width, stack.heads)


# The heads of Hugging Face. An empty config.json is "large".
SUMMARY = (
    Key("summary_last_dropout", "dropout"),
    Key("summary_activation", "dense", {**ACTIVATIONS, "tanh": "tanh"}),
    Constant("summary_type", "last"),
    Constant("summary_use_proj", True),
)
LM = HFHead(PermutationLMHead(), "lm_loss.", (Key("tie_word_embeddings", "tied"),))
LABEL = HFHead(
    LabelHead(2, dropout=0.1, dense="tanh", last_only=True),
    "logits_proj.",
    (*SUMMARY, bert.LABELS),
    pool=LastToken(),
)
CHOICE = HFHead(
    ChoiceHead(dropout=0.1, dense="tanh", last_only=True), "logits_proj.", SUMMARY, pool=LastToken()
)
TOKEN_LABEL = HFHead(TokenLabelHead(2), "classifier.", (bert.LABELS,))
ARCHITECTURES = Architectures(
    {
        "XLNetModel": (),
        "XLNetLMHeadModel": (LM,),
        "XLNetForQuestionAnsweringSimple": (bert.SPAN,),
        "XLNetForSequenceClassification": (LABEL,),
        "XLNetForTokenClassification": (TOKEN_LABEL,),
        "XLNetForMultipleChoice": (CHOICE,),
    }
)
HF = XLNetFormat(
    name="XLNet",
    model_type="xlnet",
    defaults=LARGE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=weights(1_024, 16),
    tokenizer=partial(EncoderTokenizer.load, family=XLNetUnigram()),
)

PAPER = Paper(
    name="XLNet",
    year=2019,
    title="XLNet: Generalized Autoregressive Pretraining for Language Understanding",
    authors=(
        "Zhilin Yang, Zihang Dai, Yiming Yang, Jaime Carbonell, Ruslan Salakhutdinov, Quoc V. Le"
    ),
    arxiv="1906.08237",
    after="BERT",
    tokenizer=XLNetUnigram.name,
    pretraining={"permutation-lm": {}},
    sizes={"base": BASE, "large": LARGE},
    heads=(LM, bert.SPAN, LABEL, TOKEN_LABEL, CHOICE),
    formats={"hf": HF},
)
