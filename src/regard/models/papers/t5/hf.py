"""The formats of T5: an encoder-decoder and an encoder alone, with one ``model_type``."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, cast

from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.models.encoder_decoder import EncoderDecoder, ModelFacts
from regard.models.facts import values_named
from regard.models.formats import (
    Architectures,
    Constant,
    HFFormat,
    HFHead,
    Key,
    LabelCount,
    UnreadKey,
)
from regard.models.formats.config_map import ACTIVATIONS, Config, ConfigRow, Names, begins
from regard.models.formats.hf_format import HFExtras
from regard.models.label_heads import TokenLabelHead
from regard.models.papers.marian import translator_ids
from regard.models.transformer import Stack
from regard.models.trunk_with_heads import TrunkWithHeads
from regard.text.label_sets import LabelSet
from regard.text.tokenizers.encoder_tokenizer import EncoderTokenizer
from regard.text.tokenizers.t5 import T5Tokenizer, load_t5_tokenizer
from regard.text.tokenizers.translation_tokenizer import TranslationTokenizer
from regard.text.tokenizers.unigram import T5Unigram
from regard.weights import Alias, Join, Passthrough, Rule, WeightLine, WeightMap

VOCAB = 32_128
IDS = {"pad_token_id": 0, "eos_token_id": 1}


class FeedForward(ConfigRow):
    """The activation, and whether feed-forward layers are gated: "relu", "gated-gelu"."""

    key = "feed_forward_proj"
    tanh = "gelu_new"  # meant by "gated-gelu"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        if self.key not in config:
            return {}
        gate, _, name = str(config[self.key]).rpartition("-")
        name = self.tanh if (gate, name) == ("gated", "gelu") else name
        if gate not in ("", "gated") or name not in ACTIVATIONS:
            raise BadInput(
                f"{self.key} is {config[self.key]!r}; supported: {', '.join(ACTIVATIONS)}, "
                "each also after 'gated-'"
            )
        return {"gated": bool(gate), "activation": ACTIVATIONS[name]}

    def write(self, facts: object) -> dict[str, object]:
        gated, act = values_named(facts, "gated")[0], values_named(facts, "activation")[0]
        name = next(theirs for theirs, ours in ACTIVATIONS.items() if ours == act)
        plain = "gelu" if gated and name == self.tanh else name
        return {self.key: f"gated-{plain}" if gated else name}


class OutputKeys(ConfigRow):
    """Whether states are scaled before the output layer, and whether that is tied.

    Files of version 1.1 have an output layer of their own, and say that nothing is tied.
    """

    key = "tie_word_embeddings"
    scaled = "scale_decoder_outputs"  # in newer files
    output = "lm_head."

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        scaled = config.get(self.scaled, config.get(self.key) is not False)
        untied = not scaled and begins(tensors, self.output)
        return {"scaled_output": scaled, "tie": "sides" if untied else "all"}

    def write(self, facts: object) -> dict[str, object]:
        (scaled,) = values_named(facts, "scaled_output")
        return {self.key: scaled, self.scaled: scaled}

    def tensors(self, facts: object) -> tuple[str, ...]:
        return (self.output,) if "sides" in values_named(facts, "tie") else ()


# The format of Hugging Face: config.json ↔ facts, heads, and names of tensors ↔ ours.
CONFIG = (
    Key("vocab_size", "vocab"),
    Key("d_model", "width"),
    Key("d_kv", "key"),
    Key("d_ff", "inner"),
    Key("num_heads", "heads"),
    FeedForward(),
    Key("relative_attention_num_buckets", "buckets"),
    Key("relative_attention_max_distance", "farthest"),
    *(Key("dropout_rate", f"{part}dropout") for part in ("", "attention_", "inner_", "final_")),
    Key("layer_norm_epsilon", "eps"),
    Constant("is_decoder", False),
    Constant("quantization_config", None),
)
BOTH_SIDES = (
    *CONFIG,
    Key("num_layers", "source.depth"),
    Key("num_decoder_layers", "target.depth", fallback="num_layers"),
    Constant("is_encoder_decoder", True),
)
TOKEN_LABEL = HFHead(
    TokenLabelHead(2), "classifier.", (Key("classifier_dropout", "dropout"), LabelCount("outputs"))
)


def side_rules(theirs: str, ours: str, *, gated: bool, cross: bool) -> tuple[Rule, ...]:
    """Rules for the tensors of the encoder or of the decoder."""
    layer, block = theirs + "block.{i}.layer.", ours + "blocks.{i}."
    last, up = layer + f"{1 + cross}.", "DenseReluDense."
    join = (Join((1, 1)),)
    rules = (
        Rule(layer + "0.SelfAttention.{q,k,v}.*", block + "attention.qkv.*", (Join((1, 1, 1)),)),
        Rule(layer + "0.SelfAttention.o.*", block + "attention.o.*"),
        Rule(layer + "0.layer_norm.*", block + "attention_residual.norm.*"),
        Rule(last + up + "{wi_0,wi_1}.*", block + "mlp.up.*", join)
        if gated
        else Rule(last + up + "wi.*", block + "mlp.up.*"),
        Rule(last + up + "wo.*", block + "mlp.down.*"),
        Rule(last + "layer_norm.*", block + "mlp_residual.norm.*"),
        Rule(theirs + "final_layer_norm.*", ours + "norm.*"),
        Rule(
            theirs + "block.0.layer.0.SelfAttention.relative_attention_bias.*",
            ours + "blocks.0.attention.score.bias.*",
        ),
    )
    if not cross:
        return rules
    return (
        *rules,
        Rule(layer + "1.EncDecAttention.q.*", block + "cross.q.*"),
        Rule(layer + "1.EncDecAttention.{k,v}.*", block + "cross.kv.*", join),
        Rule(layer + "1.EncDecAttention.o.*", block + "cross.o.*"),
        Rule(layer + "1.layer_norm.*", block + "cross_residual.norm.*"),
    )


def token_rules(side: str) -> tuple[WeightLine, ...]:
    """Rules for the token vectors, which files store under several names."""
    tokens = f"{side}.embed.token.weight"
    return (
        Rule("shared.weight", tokens),
        *(Alias(f"{part}.embed_tokens.weight", tokens) for part in ("encoder", "decoder")),
    )


SIDES = (
    *token_rules("source"),
    Passthrough("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"),
    Rule("lm_head.weight", "head.weight"),
    Alias("lm_head.weight", "source.embed.token.weight"),
)
LABELS = (Rule("classifier.*", "heads.token_label.out.*"),)


class EncoderFormat(HFFormat):
    """The format of T5's encoder alone."""

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        stack, prefix = cast(Stack, facts.encoder.stack), "transformer." if facts.head_names else ""
        rules = side_rules("encoder.", "trunk.", gated=stack.gated, cross=False)
        return WeightMap((*token_rules("trunk"), *rules), prefix=prefix, unprefixed=LABELS)


@dataclass(frozen=True)
class T5Format(HFFormat):
    """The format of T5, with the format of its ``encoder`` alone, of the same ``model_type``."""

    recipe_keys: ClassVar[str] = 'task = "text-to-text"'
    encoder: HFFormat

    def facts_of(self, config: Config, tensors: Collection[str]) -> ModelFacts:
        kind = str((config.get("architectures") or [""])[0])
        if kind.endswith(("ForSequenceClassification", "ForQuestionAnswering")):
            raise BadInput(f"architectures: {kind}, a head on the decoder, is not supported")
        sides = {
            side for side in ("encoder", "decoder") for name in tensors if f"{side}.block." in name
        }
        if is_encoder(config) or sides == {"encoder"}:
            return self.encoder.facts_of(config, tensors)
        return super().facts_of(config, tensors)

    def _is_alone(self, facts: ModelFacts) -> bool:
        """Whether a model is an encoder without a decoder."""
        return facts.sides == self.encoder.defaults.sides

    def config_of(self, facts: ModelFacts, labels: LabelSet | None = None) -> dict[str, object]:
        if self._is_alone(facts):
            return self.encoder.config_of(facts, labels)
        return super().config_of(facts, labels)

    def architecture(self, facts: ModelFacts) -> str:
        if self._is_alone(facts):
            return self.encoder.architecture(facts)
        return super().architecture(facts)

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        if self._is_alone(facts):
            return self.encoder.weight_map(facts)
        gated = cast(Stack, facts.encoder.stack).gated
        source = side_rules("encoder.", "source.", gated=gated, cross=False)
        target = side_rules("decoder.", "target.", gated=gated, cross=True)
        return WeightMap((*SIDES, *source, *target))

    def load_tokenizer(self, folder: Path, config: Config) -> Reading | None:
        if is_encoder(config):
            return self.encoder.load_tokenizer(folder, config)
        return load_t5_tokenizer(folder, config)

    def new_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        if tokenizer is not None and tokenizer.name == TranslationTokenizer.name:
            fault = f"a {self.name} folder needs the vocabulary of T5, but this model has another"
            raise BadInput(f"{fault}; train with {self.recipe_keys}")
        return super().new_extras(tokenizer, notes)

    def special_ids(self, config: Config) -> dict[str, int]:
        pad = config.get("pad_token_id", 0)
        return translator_ids({**IDS, "decoder_start_token_id": pad, **config}, VOCAB)


def is_encoder(config: Config) -> bool:
    """Whether a config.json names an architecture without a decoder."""
    kind = str((config.get("architectures") or [""])[0])
    return kind.endswith(("EncoderModel", "ForTokenClassification"))


def t5_format(name: str, defaults: EncoderDecoder, output: OutputKeys) -> T5Format:
    """The format of T5 or mT5; ``defaults`` are the facts of an empty config.json."""
    heads = {f"{name}EncoderModel": (), f"{name}ForTokenClassification": (TOKEN_LABEL,)}
    encoder = EncoderFormat(
        name=f"{name} encoder",
        model_type=name.lower(),
        defaults=TrunkWithHeads(defaults.source),
        config_map=(*CONFIG, Key("num_layers", "depth"), Architectures(heads)),
        weights=WeightMap(()),
        tokenizer=partial(EncoderTokenizer.load, family=T5Unigram()),
    )
    generates = UnreadKey("architectures", [f"{name}ForConditionalGeneration"])
    return T5Format(
        name=name,
        model_type=name.lower(),
        defaults=defaults,
        config_map=(*BOTH_SIDES, output, generates),
        weights=WeightMap(()),
        tokenizer=T5Tokenizer.load,
        encoder=encoder,
    )
