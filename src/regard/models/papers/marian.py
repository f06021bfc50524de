"""Marian (Junczys-Dowmunt et al., 2018, arXiv:1804.00344): the Transformer behind OPUS-MT.

Against Vaswani et al.: sines before cosines, swish, and a bias on every logit. Hundreds of such
translators (Tiedemann and Thottingal, 2020) are published as Hugging Face's ``MarianMTModel``.
"""

import json
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.ground.errors import BadInput
from regard.models.facts import EncoderDecoder, change
from regard.models.form import (
    Config,
    Form,
    Origin,
    chosen,
    refuse_loss,
    refuse_others,
)
from regard.models.paper import Paper
from regard.models.papers.transformer import BASE as VASWANI
from regard.parts.position import sinusoid
from regard.text.labels import LabelSet
from regard.text.marian import SOURCE, TARGET, VOCAB, MarianTokenizer
from regard.text.tokenizers import Tokenizer
from regard.weights.weight_map import Alias, Derived, Passthrough, Rule, WeightMap

LONGEST = 512  # max_length of folders made here, as those of OPUS-MT have

BASE = change(VASWANI, vocab=58_101, halves=True, activation="swish", head_bias=True)

PAPER = Paper(
    name="Marian",
    year=2018,
    title="Marian: Fast Neural Machine Translation in C++",
    arxiv="1804.00344",
    after="Transformer",
    sizes={"base": BASE},
)

EMBEDDINGS: dict[str, tuple[Rule | Alias | Passthrough, ...]] = {
    "all": (
        Rule("model.shared.weight", "source.embed.token.weight"),
        Alias("model.encoder.embed_tokens.weight", of="model.shared.weight"),
        Alias("model.decoder.embed_tokens.weight", of="model.shared.weight"),
        Alias("lm_head.weight", of="model.shared.weight"),
    ),
    "target": (
        Rule("model.encoder.embed_tokens.weight", "source.embed.token.weight"),
        Rule("model.decoder.embed_tokens.weight", "target.embed.token.weight"),
        Alias("lm_head.weight", of="model.decoder.embed_tokens.weight"),
    ),
    "none": (
        Rule("model.encoder.embed_tokens.weight", "source.embed.token.weight"),
        Rule("model.decoder.embed_tokens.weight", "target.embed.token.weight"),
        Rule("lm_head.weight", "head.weight"),
        Passthrough(
            "model.shared.weight"
        ),  # there, but tied to nothing, if only words are not tied
    ),
}
ENCODER, DECODER = "model.encoder.layers.{i}.", "model.decoder.layers.{i}."
READS, WRITES = "source.blocks.{i}.", "target.blocks.{i}."
LAYERS = (
    Rule(ENCODER + "self_attn.{q,k,v}_proj.*", READS + "attention.qkv.*"),
    Rule(ENCODER + "self_attn.out_proj.*", READS + "attention.o.*"),
    Rule(ENCODER + "self_attn_layer_norm.*", READS + "attention_residual.norm.*"),
    Rule(ENCODER + "fc1.*", READS + "mlp.up.*"),
    Rule(ENCODER + "fc2.*", READS + "mlp.down.*"),
    Rule(ENCODER + "final_layer_norm.*", READS + "mlp_residual.norm.*"),
    Rule(DECODER + "self_attn.{q,k,v}_proj.*", WRITES + "attention.qkv.*"),
    Rule(DECODER + "self_attn.out_proj.*", WRITES + "attention.o.*"),
    Rule(DECODER + "self_attn_layer_norm.*", WRITES + "attention_residual.norm.*"),
    Rule(DECODER + "encoder_attn.q_proj.*", WRITES + "cross.q.*"),
    Rule(DECODER + "encoder_attn.{k,v}_proj.*", WRITES + "cross.kv.*"),
    Rule(DECODER + "encoder_attn.out_proj.*", WRITES + "cross.o.*"),
    Rule(DECODER + "encoder_attn_layer_norm.*", WRITES + "cross_residual.norm.*"),
    Rule(DECODER + "fc1.*", WRITES + "mlp.up.*"),
    Rule(DECODER + "fc2.*", WRITES + "mlp.down.*"),
    Rule(DECODER + "final_layer_norm.*", WRITES + "mlp_residual.norm.*"),
)
BIAS = "final_logits_bias"


def names(facts: EncoderDecoder) -> WeightMap:
    """The weight map of a model of these facts."""
    table = partial(_sinusoids, width=facts.source.stack.width)
    return WeightMap(
        (
            *EMBEDDINGS[facts.tie],
            *LAYERS,
            Rule(BIAS, "head.bias", ones=1),
            Derived("model.encoder.embed_positions.weight", table),
            Derived("model.decoder.embed_positions.weight", table),
        ),
        prefix="model.",
    )


def _sinusoids(shape: torch.Size, width: int) -> Tensor:
    return sinusoid(torch.arange(shape.numel() // width), width, halves=True)


# What a configuration means where it is silent.
DEFAULTS = {
    "vocab_size": 58_101,
    "decoder_vocab_size": None,
    "d_model": 1_024,
    "encoder_layers": 12,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4_096,
    "decoder_layers": 12,
    "decoder_attention_heads": 16,
    "decoder_ffn_dim": 4_096,
    "activation_function": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "decoder_start_token_id": 58_100,
    "pad_token_id": 58_100,
    "eos_token_id": 0,
}
# What these models do not do; another value means another model.
ONLY = {
    "is_encoder_decoder": True,
    "is_decoder": False,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "encoder_layerdrop": 0,
    "decoder_layerdrop": 0,
    "pruned_heads": {},
    "quantization_config": None,
}
ACTIVATIONS = {"swish": "swish", "silu": "swish", "relu": "relu", "gelu": "gelu"}
SIDES = {"source": "encoder", "target": "decoder"}


def facts_of(config: Config, tensors: Collection[str]) -> EncoderDecoder:
    """The facts behind a config.json and the names of the tensors beside it."""
    refuse_others(config, ONLY)
    given = {**DEFAULTS, **config}
    vocab = given["vocab_size"]
    written = given["decoder_vocab_size"] or vocab
    shares, ties = given["share_encoder_decoder_embeddings"], given["tie_word_embeddings"]
    if not isinstance(shares, bool) or not isinstance(ties, bool):
        raise BadInput("share_encoder_decoder_embeddings and tie_word_embeddings are true or false")
    if shares and written != vocab:
        raise BadInput(f"embeddings are shared, but for {vocab!r} and {written!r} words")
    changes = {
        "width": given["d_model"],
        "activation": chosen(ACTIVATIONS, given, "activation_function"),
        "dropout": given["dropout"],
        "attention_dropout": given["attention_dropout"],
        "inner_dropout": given["activation_dropout"],
        "scaled": given["scale_embedding"],
        "tie": ("all" if shares else "target") if ties else "none",
        "head_bias": BIAS in tensors,
        "source.vocab": vocab,
        "target.vocab": written,
    }
    for ours, theirs in SIDES.items():
        changes[f"{ours}.depth"] = given[f"{theirs}_layers"]
        changes[f"{ours}.heads"] = given[f"{theirs}_attention_heads"]
        changes[f"{ours}.inner"] = given[f"{theirs}_ffn_dim"]
    return change(BASE, **changes)


def config_of(facts: EncoderDecoder) -> dict[str, Any]:
    """What a config.json says of these facts; those it has no word for are an error."""
    source, target = facts.source, facts.target
    stack: Any = source.stack
    config = {
        "vocab_size": source.embed.vocab,
        "decoder_vocab_size": target.embed.vocab,
        "d_model": stack.width,
        "activation_function": stack.activation,
        "dropout": stack.dropout,
        "attention_dropout": stack.attention_dropout,
        "activation_dropout": stack.inner_dropout,
        "scale_embedding": source.embed.scaled,
        "share_encoder_decoder_embeddings": facts.tie == "all",
        "tie_word_embeddings": facts.tie != "none",
    }
    for ours, theirs in SIDES.items():
        stack = getattr(facts, ours).stack
        config[f"{theirs}_layers"] = stack.depth
        config[f"{theirs}_attention_heads"] = stack.heads
        config[f"{theirs}_ffn_dim"] = stack.inner
    refuse_loss("Marian", facts, facts_of(config, (BIAS,) if facts.head_bias else ()))
    return config


def tokenizer_of(folder: Path, config: Config) -> MarianTokenizer | None:
    """The vocabularies of a folder, if it has any."""
    if not any((folder / name).exists() for name in (SOURCE, TARGET, VOCAB)):
        return None
    begin, end = ({**DEFAULTS, **config}[f"{name}_token_id"] for name in ("decoder_start", "eos"))
    if type(begin) is not int:
        raise BadInput(f"{folder}: decoder_start_token_id is {begin!r}, not an id")
    text = MarianTokenizer.load(folder, begin)
    if end not in (text.target.eos, [text.target.eos]):
        raise BadInput(f"{folder}: eos_token_id is {end!r}, in its vocabulary {text.target.eos}")
    return text


def special_ids(config: Config) -> dict[str, int]:
    """What config.json says of pad, begin and end, for a folder without vocabularies."""
    given = {**DEFAULTS, **config}
    vocab, end = given["vocab_size"], given["eos_token_id"]
    ids = {
        "pad": given["pad_token_id"],
        "bos": given["decoder_start_token_id"],
        "eos": end[0] if isinstance(end, list) and len(end) == 1 else end,
    }
    for name, one in ids.items():
        if type(one) is not int or not 0 <= one < vocab:
            raise BadInput(f"config.json: the {name} token is {one!r}, no id of {vocab}")
    return ids


def fresh(facts: EncoderDecoder, tokenizer: Tokenizer | None, labels: LabelSet | None) -> Origin:
    """What belongs to a folder beside facts and weights, for a model that never was in one."""
    if not isinstance(tokenizer, MarianTokenizer):
        kind = "no" if tokenizer is None else f"a {tokenizer.vocabularies[0].kind}"
        raise BadInput(
            f"a Marian folder needs SentencePiece models; this translator has {kind} vocabulary"
        )
    target = tokenizer.target
    ids = {
        "pad_token_id": target.pad,
        "eos_token_id": target.eos,
        "forced_eos_token_id": target.eos,
        "decoder_start_token_id": target.bos,
    }
    config = {"architectures": ["MarianMTModel"], "model_type": "marian", **ids}
    limits = {"max_length": LONGEST, "bad_words_ids": [[target.pad]]}
    generation = json.dumps({**ids, **limits}, indent=1) + "\n"
    return Origin(config, {"generation_config.json": generation.encode()})


HF = Form(
    model_type="marian",
    paper=PAPER,
    facts=facts_of,
    config=config_of,
    names=names,
    tokenizer=tokenizer_of,
    fresh=fresh,
    special_ids=special_ids,
)
