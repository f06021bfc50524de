"""ModernBERT (Warner et al., 2024, arXiv:2412.13663): BERT with rotary positions, gated
feed-forward layers, norms before sublayers and no biases, for rows of up to 8,192 tokens.

Every third layer attends to the whole row, the others to 64 tokens on either side, with another
base of rotary positions. All heads have the dense layer and the norm of the masked-LM head, which
learns to predict 30% of the tokens.
"""

from functools import partial

from regard.models.facts import change
from regard.models.formats import Constant, HFHead, Key, LabelCount
from regard.models.formats.config_map import ACTIVATIONS
from regard.models.label_heads import (
    ChoiceHead,
    DenseLayer,
    DropoutSpanHead,
    LabelHead,
    MLMHead,
    TokenLabelHead,
)
from regard.models.paper import Paper
from regard.models.papers.modernbert.hf import (
    LocalLayers,
    ModernBertFormat,
    NormBias,
    PooledArchitectures,
    RotaryBases,
)
from regard.models.pools import MeanPool
from regard.models.positions import Rotary
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.bpe import EncoderBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Rule, WeightMap

POSITION = Rotary(8_192, base=160_000.0, local_base=10_000.0)
BASE = TrunkWithHeads(
    trunk=Trunk(
        Tokens(vocab=50_368, position=POSITION, normed=True, embedding_dropout=0.0),
        Stack(
            width=768,
            depth=22,
            heads=12,
            inner=1_152,
            gated=True,
            activation="gelu",
            norm="pre",
            norm_kind="layer-no-bias",
            first_norm=False,
            final_norm=True,
            qkv_bias=False,
            output_bias=False,
            mlp_bias=False,
            dropout=0.0,
            attention_output_dropout=0.0,
            windows=(0, 64, 64),
        ),
    ),
    init_std=0.02,
    init_cutoff=2.0,
    scaled_init=True,
)
LARGE = change(BASE, width=1_024, depth=28, heads=16, inner=2_624)

# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
CONFIG = (
    Key("vocab_size", "vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "depth"),
    Key("num_attention_heads", "heads"),
    Key("intermediate_size", "inner"),
    Key("hidden_activation", "stack.activation", ACTIVATIONS),
    Key("max_position_embeddings", "longest"),
    RotaryBases(),
    LocalLayers(),
    NormBias(),
    Key("norm_eps", "eps"),
    Key("attention_bias", "qkv_bias"),
    Key("attention_bias", "output_bias"),
    Key("mlp_bias", "mlp_bias"),
    Key("embedding_dropout", "embedding_dropout"),
    Key("attention_dropout", "attention_dropout"),
    Key("attention_dropout", "attention_output_dropout"),
    Key("mlp_dropout", "inner_dropout"),
    Key("initializer_range", "init_std"),
    Key("initializer_cutoff_factor", "init_cutoff"),
    Constant("is_encoder_decoder", False),
    Constant("quantization_config", None),
)
DENSE_KEYS = (
    Key("classifier_activation", "dense_activation", ACTIVATIONS),
    Key("classifier_bias", "dense_bias"),
)
LINEAR = (*DENSE_KEYS, Key("classifier_dropout", "dropout"))
DENSE = DenseLayer("gelu", dense_bias=False, dense_norm=True)
MLM = HFHead(
    MLMHead(dense_activation="gelu", dense_bias=False),
    "head.",
    (*DENSE_KEYS, Key("decoder_bias", "bias"), Key("tie_word_embeddings", "tied")),
    unless="classifier.",
)
LABEL, TOKEN_LABEL, SPAN, CHOICE = (
    HFHead(head, "head.", (*LINEAR, *keys), unless="decoder.", pool=pool)
    for head, keys, pool in (
        (LabelHead(2, dense=DENSE), (LabelCount("outputs"),), MeanPool()),
        (TokenLabelHead(2, dense=DENSE), (LabelCount("outputs"),), None),
        (DropoutSpanHead(dense=DENSE), (), None),
        (ChoiceHead(dense=DENSE), (), MeanPool()),
    )
)
HEADS = (MLM, LABEL, TOKEN_LABEL, SPAN, CHOICE)
ARCHITECTURES = PooledArchitectures(
    {
        "ModernBertModel": (),
        "ModernBertForMaskedLM": (MLM,),
        "ModernBertForSequenceClassification": (LABEL,),
        "ModernBertForTokenClassification": (TOKEN_LABEL,),
        "ModernBertForQuestionAnswering": (SPAN,),
        "ModernBertForMultipleChoice": (CHOICE,),
    }
)
LAYER, OURS = "layers.{i}.", "trunk.blocks.{i}."
TRUNK = (
    Rule("embeddings.tok_embeddings.weight", "trunk.embed.token.weight"),
    Rule("embeddings.norm.*", "trunk.embed.norm.*"),
    Rule(LAYER + "attn_norm.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "attn.Wqkv.*", OURS + "attention.qkv.*"),
    Rule(LAYER + "attn.Wo.*", OURS + "attention.o.*"),
    Rule(LAYER + "mlp_norm.*", OURS + "mlp_residual.norm.*"),
    Rule(LAYER + "mlp.Wi.*", OURS + "mlp.up.*"),
    Rule(LAYER + "mlp.Wo.*", OURS + "mlp.down.*"),
    Rule("final_norm.*", "trunk.norm.*"),
)
HEAD_RULES = (
    *(Rule("head.dense.*", f"heads.{form.head.name}.dense.*") for form in HEADS),
    *(Rule("head.norm.*", f"heads.{form.head.name}.norm.*") for form in HEADS),
    *(Rule("classifier.*", f"heads.{form.head.name}.out.*") for form in HEADS[1:]),
    Rule("decoder.weight", "heads.mlm.out.weight"),  # if not tied
    Rule("decoder.bias", "heads.mlm.out.bias"),
    Alias("decoder.weight", "trunk.embed.token.weight"),
)
HF = ModernBertFormat(
    name="ModernBERT",
    model_type="modernbert",
    defaults=BASE,
    config_map=(*CONFIG, ARCHITECTURES),
    weights=WeightMap(TRUNK, prefix="model.", unprefixed=HEAD_RULES),
    tokenizer=partial(EncoderTokenizer.load, family=EncoderBPE()),
)

PAPER = Paper(
    name="ModernBERT",
    year=2024,
    title="Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory "
    "Efficient, and Long Context Finetuning and Inference",
    authors=(
        "Benjamin Warner, Antoine Chaffin, Benjamin Clavié, Orion Weller, Oskar Hallström, "
        "Said Taghadouini, Alexis Gallagher, Raja Biswas, Faisal Ladhak, Tom Aarsen, Nathan "
        "Cooper, Griffin Adams, Jeremy Howard, Iacopo Poli"
    ),
    arxiv="2412.13663",
    after="RoBERTa",
    tokenizer=EncoderBPE.name,
    pretraining={"masked-lm": {"rate": 0.3}},
    sizes={"base": BASE, "large": LARGE},
    published={"base": 149_000_000, "large": 395_000_000},
    heads=HEADS,
    formats={"hf": HF},
)
