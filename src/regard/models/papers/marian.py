"""Marian (Junczys-Dowmunt et al., 2018, arXiv:1804.00344): the Transformer behind OPUS-MT.

Differences from Vaswani et al.: sines before cosines, swish, and a bias on every logit. Hundreds of
such translators (Tiedemann and Thottingal, 2020) are published as Hugging Face's ``MarianMTModel``.
"""

import json
from pathlib import Path
from typing import ClassVar, cast

import torch
from torch import Tensor

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.layers.attend import causal
from regard.layers.relative_score import sinusoid
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.facts import change, values_named
from regard.models.formats.config_map import (
    ACTIVATIONS,
    Config,
    ConfigRow,
    Constant,
    Key,
    Names,
    Presence,
    UnreadKey,
)
from regard.models.formats.hf_format import HFExtras, HFFormat
from regard.models.paper import Paper
from regard.models.positions import Sinusoid
from regard.models.tokens import Tokens
from regard.models.transformer import Stack
from regard.models.trunk import Trunk
from regard.text.tokenizers.marian_spm import SOURCE, TARGET, VOCAB, MarianTokenizer
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.weights import Alias, Derived, Join, Passthrough, Reshape, Rule, WeightMap

LONGEST = 512  # max_length of folders made here, as those of OPUS-MT have
SHARE, TIE = "share_encoder_decoder_embeddings", "tie_word_embeddings"
BIAS = "final_logits_bias"
TOKENS = Tokens(vocab=58_101, position=Sinusoid(halves=True))
ENCODER = Stack(width=1_024, depth=12, heads=16, inner=4_096, activation="gelu")
DECODER = change(ENCODER, mask=causal, cross=True)
EMPTY = EncoderDecoder(Trunk(TOKENS, ENCODER), Trunk(TOKENS, DECODER))  # an empty config.json
BASE = change(
    EMPTY,
    width=512,
    depth=6,
    heads=8,
    inner=2_048,
    activation="swish",
    dropout=0.1,
    scaled=True,
    tie="all",
    head_bias=True,
)
PENALTIES = {"none": 0.0, "mean": 1.0}  # length_penalty of transformers, by decode.length
IDS = {"pad_token_id": 58_100, "decoder_start_token_id": 58_100, "eos_token_id": 0}


class Ties(ConfigRow):
    """Fact ``tie``, the shared embeddings, which config.json expresses by two keys."""

    key = f"{SHARE}, {TIE}"
    ties: ClassVar = {"all": (True, True), "target": (False, True), "none": (False, False)}

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        share, tie = config.get(SHARE, True), config.get(TIE, True)
        if not isinstance(share, bool) or not isinstance(tie, bool):
            raise BadInput(f"{SHARE} and {TIE} must be true or false, not {share!r} and {tie!r}")
        source, target = config.get("vocab_size", TOKENS.vocab), config.get("decoder_vocab_size")
        if share and target not in (None, source):
            raise BadInput(
                f"{SHARE}: vocab_size {source!r} and decoder_vocab_size {target!r} differ"
            )
        return {"tie": next(name for name, keys in self.ties.items() if keys == (share & tie, tie))}

    def write(self, facts: object) -> dict[str, object]:
        return {
            key: value
            for tie in values_named(facts, "tie")
            for key, value in zip((SHARE, TIE), self.ties[tie], strict=True)
        }


CONFIG = (
    Key("vocab_size", "source.vocab"),
    Key("decoder_vocab_size", "target.vocab", fallback="vocab_size"),
    Key("d_model", "width"),
    Key("encoder_layers", "source.depth"),
    Key("encoder_attention_heads", "source.heads"),
    Key("encoder_ffn_dim", "source.inner"),
    Key("decoder_layers", "target.depth"),
    Key("decoder_attention_heads", "target.heads"),
    Key("decoder_ffn_dim", "target.inner"),
    Key("activation_function", "activation", ACTIVATIONS),
    Key("dropout", "dropout"),
    Key("attention_dropout", "attention_dropout"),
    Key("activation_dropout", "inner_dropout"),
    Key("scale_embedding", "scaled"),
    Ties(),
    Presence(BIAS, "head_bias"),
    UnreadKey("architectures", ["MarianMTModel"]),
    Constant("is_encoder_decoder", True),
    Constant("is_decoder", False),
    Constant("static_position_embeddings", True),
    Constant("normalize_before", False),
    Constant("normalize_embedding", False),
    Constant("add_final_layer_norm", False),
    Constant("encoder_layerdrop", 0),
    Constant("decoder_layerdrop", 0),
    Constant("pruned_heads", {}),
    Constant("quantization_config", None),
)


def layer(theirs: str, ours: str) -> tuple[Rule, ...]:
    """Rules for the tensors that encoder and decoder layers share."""
    return (
        Rule(theirs + "self_attn.{q,k,v}_proj.*", ours + "attention.qkv.*", (Join((1, 1, 1)),)),
        Rule(theirs + "self_attn.out_proj.*", ours + "attention.o.*"),
        Rule(theirs + "self_attn_layer_norm.*", ours + "attention_residual.norm.*"),
        Rule(theirs + "fc1.*", ours + "mlp.up.*"),
        Rule(theirs + "fc2.*", ours + "mlp.down.*"),
        Rule(theirs + "final_layer_norm.*", ours + "mlp_residual.norm.*"),
    )


def sinusoids(shape: torch.Size) -> Tensor:
    """The table of position vectors of that shape."""
    length, width = shape if len(shape) == 2 else (0, 0)
    return sinusoid(torch.arange(length), width, halves=True)


CROSS, OURS = "decoder.layers.{i}.encoder_attn", "target.blocks.{i}.cross"
WEIGHTS = WeightMap(
    (
        Rule("{encoder,decoder}.embed_tokens.weight", "{source,target}.embed.token.weight"),
        Rule("shared.weight", "source.embed.token.weight"),  # if the target has none of its own
        Alias("encoder.embed_tokens.weight", "source.embed.token.weight"),
        Alias("decoder.embed_tokens.weight", "source.embed.token.weight"),
        Passthrough("shared.weight"),  # there, but tied to nothing, if only words are not tied
        *layer("encoder.layers.{i}.", "source.blocks.{i}."),
        *layer("decoder.layers.{i}.", "target.blocks.{i}."),
        Rule(CROSS + ".q_proj.*", OURS + ".q.*"),
        Rule(CROSS + ".{k,v}_proj.*", OURS + ".kv.*", (Join((1, 1)),)),
        Rule(CROSS + ".out_proj.*", OURS + ".o.*"),
        Rule(CROSS + "_layer_norm.*", OURS + "_residual.norm.*"),
        Derived("{encoder,decoder}.embed_positions.weight", sinusoids),
    ),
    prefix="model.",
    unprefixed=(
        Rule("lm_head.weight", "head.weight"),
        Alias("lm_head.weight", "target.embed.token.weight"),
        Alias("lm_head.weight", "source.embed.token.weight"),
        Rule(BIAS, "head.bias", (Reshape((1, -1), (-1,)),)),
    ),
)


def translator_ids(config: Config, vocab: int) -> dict[str, int]:
    """The ids of pad, bos and eos that a config.json names; ``vocab`` is the default vocabulary."""
    vocab, end = config.get("vocab_size", vocab), config["eos_token_id"]
    ids = {
        "pad": config["pad_token_id"],
        "bos": config["decoder_start_token_id"],
        "eos": end[0] if isinstance(end, list) and len(end) == 1 else end,
    }
    for name, number in ids.items():
        if not is_whole(number, 0, vocab - 1):
            raise BadInput(
                f"config.json: the id of {name} must be from 0 to {vocab - 1}, not {number!r}"
            )
    return ids


class MarianFormat(HFFormat):
    """The format of Marian, whose config.json names the special tokens."""

    recipe_keys = 'text.kind = "sentencepiece"'

    def load_tokenizer(self, folder: Path, config: Config) -> Reading | None:
        if not any((folder / name).exists() for name in (SOURCE, TARGET, VOCAB)):
            return None
        keys = {**IDS, **config}
        begin, end = keys["decoder_start_token_id"], keys["eos_token_id"]
        if not is_whole(begin):
            raise BadInput(f"{folder}: decoder_start_token_id must be a token id, not {begin!r}")
        tokenizer = MarianTokenizer.load(folder, begin)
        if end not in ((eos := tokenizer.target.eos), [eos]):
            raise BadInput(f"{folder}: eos_token_id is {end!r}, but the vocabulary has {eos}")
        return tokenizer

    def special_ids(self, config: Config) -> dict[str, int]:
        return translator_ids({**IDS, **config}, TOKENS.vocab)

    def new_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        own = cast(TranslationTokenizer | None, tokenizer)
        if own is None or SOURCE not in own.FILES:
            kind = "no" if own is None else f"a {own.source.kind}"
            fault = f"needs SentencePiece models, but this model has {kind} vocabulary"
            raise BadInput(f"a Marian folder {fault}; train with {self.recipe_keys}")
        return self.graph_extras(own, notes)

    def graph_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        if tokenizer is None:
            return HFExtras({})
        target = cast(TranslationTokenizer, tokenizer).target
        ids = {
            "pad_token_id": target.pad,
            "eos_token_id": target.eos,
            "forced_eos_token_id": target.eos,
            "decoder_start_token_id": target.bos,
        }
        limits = {"max_length": LONGEST, "bad_words_ids": [[target.pad]]}
        generation = json.dumps({**ids, **limits, **_beam(notes)}, indent=1) + "\n"
        return HFExtras(ids, {"generation_config.json": generation.encode()})


def _beam(notes: Config) -> dict[str, object]:
    """The table [decode] of a recipe in the words of transformers, which has no GNMT penalty."""
    match notes.get("decode"):
        case {"beam": int(beam), "length": str(length), "alpha": float(alpha)} if beam > 1:
            penalty = {**PENALTIES, "power": alpha}.get(length)
            ranking = {} if penalty is None else {"length_penalty": penalty}
            return {"num_beams": beam, "early_stopping": True, **ranking}
    return {}


HF = MarianFormat(
    name="Marian",
    model_type="marian",
    defaults=EMPTY,
    config_map=CONFIG,
    weights=WEIGHTS,
    tokenizer=MarianTokenizer.load,
)

PAPER = Paper(
    name="Marian",
    year=2018,
    title="Marian: Fast Neural Machine Translation in C++",
    authors=(
        "Marcin Junczys-Dowmunt, Roman Grundkiewicz, Tomasz Dwojak, Hieu Hoang, Kenneth "
        "Heafield, Tom Neckermann, Frank Seide, Ulrich Germann, Alham Fikri Aji, Nikolay "
        "Bogoychev, André F. T. Martins, Alexandra Birch"
    ),
    arxiv="1804.00344",
    after="Transformer",
    sizes={"base": BASE},
    formats={"hf": HF},
)
