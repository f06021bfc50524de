"""The Hugging Face format of ALBERT: groups of layers that share their weights."""

from dataclasses import dataclass, replace
from typing import Any

from regard.ground.errors import BadInput
from regard.models.facts import values_named
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.formats.hf_format import HFFormat
from regard.weights import Join, Rule, WeightMap

JOIN = (Join((1, 1, 1)),)


@dataclass(frozen=True)
class LayersOfGroups(ConfigRow):
    """The layers of a group, all of which are run ``num_hidden_layers`` times."""

    key: str = "inner_group_num"
    times: str = "num_hidden_layers"

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        size, times = config.get(self.key, 1), config.get(self.times, 12)
        if not all(isinstance(number, int) and number > 0 for number in (size, times)):
            raise BadInput(f"{self.key} is {size!r}, and {self.times} {times!r}")
        return {"group_depth": size, "depth": size * times}

    def write(self, facts: Any) -> dict[str, Any]:
        (size,), (depth,) = (values_named(facts, name) for name in ("group_depth", "depth"))
        return {self.key: size, self.times: depth // size}


def layer(theirs: str, ours: str) -> tuple[Rule, ...]:
    """The tensors of a layer."""
    return (
        Rule(theirs + "attention.{query,key,value}.*", ours + "attention.qkv.*", JOIN),
        Rule(theirs + "attention.dense.*", ours + "attention.o.*"),
        Rule(theirs + "attention.LayerNorm.*", ours + "attention_residual.norm.*"),
        Rule(theirs + "ffn.*", ours + "mlp.up.*"),
        Rule(theirs + "ffn_output.*", ours + "mlp.down.*"),
        Rule(theirs + "full_layer_layer_norm.*", ours + "mlp_residual.norm.*"),
    )


class AlbertFormat(HFFormat):
    """Layers are named by their group, and by their number in it."""

    def weight_map(self, facts: Any) -> WeightMap:
        stack = facts.trunk.stack
        layers = (
            layer(
                "encoder.albert_layer_groups.{}.albert_layers.{}.".format(
                    *divmod(number, stack.group_depth)
                ),
                f"trunk.blocks.{number}.",
            )
            for number in range(stack.blocks)
        )
        whole = self.weights
        return replace(whole, lines=(*whole.lines, *sum(layers, ())))
