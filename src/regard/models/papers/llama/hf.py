"""The format of Llama and of models after it: keys of config.json, and the heads of tensors."""

from dataclasses import dataclass, replace
from typing import cast

from regard.models.encoder_decoder import ModelFacts
from regard.models.formats import HFFormat, Key
from regard.models.label_heads import SpanHead
from regard.models.transformer import Stack
from regard.weights import Join, Rule, WeightMap

LAYER, OURS = "layers.{i}.", "trunk.blocks.{i}."


@dataclass(frozen=True)
class OptionalKey(Key):
    """Key that is written only if its fact is not None."""

    def write(self, facts: object) -> dict[str, object]:
        return {key: size for key, size in super().write(facts).items() if size is not None}


@dataclass(frozen=True)
class LlamaFormat(HFFormat):
    """The format of Llama and of models after it: keys and values may have fewer heads.

    ``span_prefix`` is the prefix of the trunk's tensors under a span head, which differs.
    """

    span_prefix: str = "transformer."

    def weight_map(self, facts: ModelFacts) -> WeightMap:
        stack, spans = cast(Stack, facts.encoder.stack), SpanHead.name in facts.head_names
        kv = stack.kv_heads or stack.heads
        qkv = Rule(
            LAYER + "self_attn.{q,k,v}_proj.*",
            OURS + "attention.qkv.*",
            (Join((stack.heads, kv, kv)),),
        )
        prefix = self.span_prefix if spans else self.weights.prefix
        return replace(self.weights, lines=(qkv, *self.weights.lines), prefix=prefix)
