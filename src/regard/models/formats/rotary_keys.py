"""Keys of config.json for rotary positions and for the windows of layers, which papers share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from regard.core.errors import BadInput
from regard.layers.rotary import LinearScaling, Llama3Scaling, Scaling
from regard.models.facts import values_named
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.positions import Rotary

NAMES = ("default", "linear", "llama3")
FACTORS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class RotaryKeys(ConfigRow):
    """Base and scaling of rotary positions.

    Older files have two keys, newer ones both in ``rope_parameters``; all three are written. As in
    ``transformers``, ``rope_scaling`` goes before ``rope_parameters``.
    """

    key: str = "rope_parameters"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        keys = check_table("rope_scaling", config) or check_table(self.key, config)
        base = keys.get("rope_theta", config.get("rope_theta", Rotary.base))
        return {"position.base": base, "scaling": read_scaling(self.key, keys, config)}

    def write(self, facts: object) -> dict[str, object]:
        (position,) = values_named(facts, "position")
        if not isinstance(position, Rotary):
            raise BadInput(f"{self.key}: positions must be rotary, not {position!r}")
        theta, scaling = {"rope_theta": position.base}, write_scaling(position.scaling)
        both = {**theta, **(scaling or {"rope_type": NAMES[0]})}
        return {**theta, "rope_scaling": scaling, self.key: both}


def check_table(key: str, config: Config) -> Mapping[str, Any]:
    """The table under a key of config.json; empty if it is missing or null."""
    table = config.get(key) or {}
    if not isinstance(table, Mapping):
        raise BadInput(f"{key} must be a table, not {table!r}")
    return table


def read_scaling(key: str, keys: Mapping[str, Any], config: Config) -> Scaling:
    """The scaling of frequencies; None: they are not scaled."""
    name = keys.get("rope_type", keys.get("type", NAMES[0]))
    if name not in NAMES:
        raise BadInput(f"{key}: rope_type is {name!r}; supported: {', '.join(NAMES)}")
    share = keys.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if share != 1.0:
        raise BadInput(f"{key}: partial_rotary_factor is {share!r}, and only 1.0 is supported")
    if name == "default":
        return None
    original = {FACTORS[-1]: config.get("max_position_embeddings")}
    needed = FACTORS if name == "llama3" else FACTORS[:1]
    factors = []
    for key_name in needed:
        value = {**original, **keys}.get(key_name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise BadInput(f"{key}: {key_name} must be a positive number, not {value!r}")
        factors.append(float(value))
    if name == "linear":
        return LinearScaling(*factors)
    factor, low, high, context = factors
    return Llama3Scaling(factor, low, high, int(context))


def write_scaling(scaling: Scaling) -> dict[str, object] | None:
    """The keys of a scaling of frequencies."""
    if scaling is None:
        return None
    if isinstance(scaling, LinearScaling):
        return {"rope_type": "linear", "factor": scaling.factor}
    values = scaling.factor, scaling.low, scaling.high, scaling.original
    return {"rope_type": "llama3", **dict(zip(FACTORS, values, strict=True))}
