"""Llama (Touvron et al., 2023, arXiv:2302.13971 and 2307.09288): GPT-2 with rotary positions, RMS
norms, gated feed-forward layers and no biases; heads of queries may share keys and values.

Llama 2 and 3, SmolLM2 and many others are ``LlamaForCausalLM`` in Hugging Face's format: what
differs between them is in config.json.
"""

from dataclasses import replace
from functools import partial

from regard.layers.attend import causal
from regard.layers.rotary import Llama3Scaling
from regard.models.facts import change
from regard.models.formats import Architectures, Constant, HFHead, Key
from regard.models.formats.config_map import ACTIVATIONS
from regard.models.formats.rotary_keys import RotaryKeys
from regard.models.heads import NextTokenHead
from regard.models.paper import Paper
from regard.models.papers import gpt, gpt2
from regard.models.papers.llama.hf import LAYER, OURS, LlamaFormat, OptionalKey
from regard.models.positions import Rotary
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.tokenizers.bpe import DecoderBPE
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.weights import Alias, Join, Passthrough, Rule, WeightMap

STACK = Stack(
    width=4_096,
    depth=32,
    heads=32,
    inner=11_008,
    gated=True,
    activation="swish",
    norm="pre",
    norm_kind="rms",
    final_norm=True,
    eps=1e-5,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    dropout=0.0,
    mask=causal,
)
TIED, UNTIED = (NextTokenHead(),), (NextTokenHead(tied=False),)
LLAMA_2 = TrunkWithHeads(
    Trunk(Tokens(vocab=32_000, position=Rotary(4_096)), STACK), output_heads=UNTIED, init_std=0.02
)
LLAMA_3 = change(LLAMA_2, vocab=128_256, inner=14_336, kv_heads=8, longest=8_192, base=500_000.0)
LLAMA_3_1 = change(LLAMA_3, longest=131_072, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8_192))
LLAMA_3_2 = change(LLAMA_3_1, factor=32.0, output_heads=TIED)
SMOLLM2 = change(LLAMA_2, vocab=49_152, longest=8_192, base=100_000.0, output_heads=TIED)
SIZES = {
    "7b": LLAMA_2,
    "13b": change(LLAMA_2, width=5_120, depth=40, heads=40, inner=13_824),
    "70b": change(LLAMA_2, width=8_192, depth=80, heads=64, kv_heads=8, inner=28_672),
    "3-8b": LLAMA_3,
    "3.1-8b": LLAMA_3_1,
    "3.2-1b": change(LLAMA_3_2, width=2_048, depth=16, inner=8_192),
    "3.2-3b": change(LLAMA_3_2, width=3_072, depth=28, heads=24, inner=8_192),
    "smollm2-135m": change(SMOLLM2, width=576, depth=30, heads=9, kv_heads=3, inner=1_536),
    "smollm2-360m": change(SMOLLM2, width=960, heads=15, kv_heads=5, inner=2_560),
    "smollm2-1.7b": change(SMOLLM2, width=2_048, depth=24, inner=8_192, base=130_000.0),
}

# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
CONFIG = (
    Key("vocab_size", "vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "depth"),
    Key("num_attention_heads", "heads"),
    Key("num_key_value_heads", "kv_heads"),
    OptionalKey("head_dim", "key"),
    Key("intermediate_size", "inner"),
    Key("hidden_act", "activation", {"silu": "swish", **ACTIVATIONS}),
    Key("max_position_embeddings", "longest"),
    RotaryKeys(),
    Key("rms_norm_eps", "eps"),
    Key("attention_dropout", "attention_dropout"),
    Key("initializer_range", "init_std"),
    Constant("is_encoder_decoder", False),
    Constant("quantization_config", None),
)
BIASES = (
    Key("attention_bias", "qkv_bias"),
    Key("attention_bias", "output_bias"),
    Key("mlp_bias", "mlp_bias"),
)
NEXT_TOKEN = HFHead(UNTIED[0], "lm_head.", (Key("tie_word_embeddings", "tied"),), tied=True)
LABEL = gpt.LABEL
TOKEN_LABEL, SPAN = replace(gpt2.TOKEN_LABEL, tensors="score."), gpt2.SPAN
HEADS = (NEXT_TOKEN, LABEL, TOKEN_LABEL, SPAN)
TRUNK = (
    Rule("embed_tokens.weight", "trunk.embed.token.weight"),
    Rule(LAYER + "self_attn.o_proj.*", OURS + "attention.o.*"),
    Rule(LAYER + "input_layernorm.*", OURS + "attention_residual.norm.*"),
    Rule(LAYER + "mlp.{gate,up}_proj.*", OURS + "mlp.up.*", (Join((1, 1)),)),
    Rule(LAYER + "mlp.down_proj.*", OURS + "mlp.down.*"),
    Rule(LAYER + "post_attention_layernorm.*", OURS + "mlp_residual.norm.*"),
    Rule("norm.*", "trunk.norm.*"),
    Passthrough(LAYER + "self_attn.rotary_emb.inv_freq"),  # in older files
)
HEAD_RULES = (
    Rule("lm_head.weight", "heads.next_token.weight"),  # if not tied
    Alias("lm_head.weight", "trunk.embed.token.weight"),
    Rule("score.*", "heads.label.out.*"),
    Rule("score.*", "heads.token_label.out.*"),
    Rule("qa_outputs.*", "heads.span.out.*"),
)


def architectures(name: str) -> Architectures:
    """The classes of ``transformers`` for a model after Llama, and their heads."""
    heads = {"ForCausalLM": NEXT_TOKEN, "ForSequenceClassification": LABEL}
    heads |= {"ForTokenClassification": TOKEN_LABEL, "ForQuestionAnswering": SPAN}
    return Architectures({f"{name}Model": (), **{name + kind: (heads[kind],) for kind in heads}})


HF = LlamaFormat(
    name="Llama",
    model_type="llama",
    defaults=change(LLAMA_2, longest=2_048, eps=1e-6, output_heads=()),
    config_map=(*CONFIG, *BIASES, architectures("Llama")),
    weights=WeightMap(TRUNK, prefix="model.", unprefixed=HEAD_RULES),
    tokenizer=partial(EncoderTokenizer.load, family=DecoderBPE()),
)

PAPER = Paper(
    name="Llama",
    year=2023,
    title="Llama 2: Open Foundation and Fine-Tuned Chat Models",
    authors="Hugo Touvron, Louis Martin, Kevin Stone, Peter Albert, Amjad Almahairi, others",
    arxiv="2307.09288",
    after="GPT-2",
    tokenizer=DecoderBPE.name,
    pretraining={"causal-lm": {"rows": "blocks"}},
    sizes=SIZES,
    heads=HEADS,
    formats={"hf": HF},
)
