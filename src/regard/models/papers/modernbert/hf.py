"""The format of ModernBERT: the keys of config.json that it does not share with other papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from regard.core.checks import is_whole
from regard.core.errors import BadInput
from regard.core.reading import Reading
from regard.models.facts import values_named
from regard.models.formats import Architectures, HFExtras, HFFormat
from regard.models.formats.config_map import Config, ConfigRow, Names
from regard.models.formats.rotary_keys import FULL, SLIDING, RotaryKeys, check_table, read_scaling
from regard.models.pools import AnyPool, FirstToken, MeanPool

BASES = {FULL: ("global_rope_theta", 160_000.0), SLIDING: ("local_rope_theta", 10_000.0)}
IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")
POOLINGS: dict[str, AnyPool] = {"cls": FirstToken(dense=False), "mean": MeanPool()}


@dataclass(frozen=True)
class NormBias(ConfigRow):
    """Whether layer norms have a bias."""

    key: str = "norm_bias"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        if (bias := config.get(self.key, False)) not in (True, False):
            raise BadInput(f"{self.key} must be true or false, not {bias!r}")
        return {"norm_kind": "layer" if bias else "layer-no-bias"}

    def write(self, facts: object) -> dict[str, object]:
        return {self.key: values_named(facts, "norm_kind") == ["layer"]}


@dataclass(frozen=True)
class RotaryBases(RotaryKeys):
    """Bases of rotary positions, of layers without and with a window, and their scaling.

    Files of 2024 have a key for each base, newer ones tables in ``rope_parameters``; both are
    written.
    """

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        tables, scaling = check_table(self.key, config), check_table("rope_scaling", config)
        if unknown := sorted({*tables} - {*BASES}):
            raise BadInput(f"{self.key} must have {' and '.join(BASES)}, not {unknown[0]!r}")
        keys = {name: {**check_table(name, tables), **scaling} for name in BASES}
        base, local = (
            keys[name].get("rope_theta", config.get(key, default))
            for name, (key, default) in BASES.items()
        )
        wide, other = (read_scaling(f"{self.key}.{name}", keys[name], config) for name in BASES)
        if wide != other:
            raise BadInput(f"{self.key}: the scaling of {' and '.join(BASES)} must be the same")
        local = base if local is None else local
        return {"position.base": base, "local_base": local, "scaling": wide}

    def write(self, facts: object) -> dict[str, object]:
        wide = super().write(facts)
        local = {"rope_theta": values_named(facts, "local_base")[0] or wide["rope_theta"]}
        both = cast(dict[str, object], wide[self.key])
        tables = dict(zip(BASES, (both, {**both, **local}), strict=True))
        bases = {key: tables[name]["rope_theta"] for name, (key, _) in BASES.items()}
        return {**bases, self.key: tables}


@dataclass(frozen=True)
class LocalLayers(ConfigRow):
    """The window of each layer: ``local_attention`` has the tokens of both sides together.

    Files of 2024 have the number of layers from one without a window to the next, newer ones
    ``layer_types``; both are written, where both can express the windows.
    """

    key: str = "local_attention"
    period: str = "global_attn_every_n_layers"
    types: str = "layer_types"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        both, period = config.get(self.key, 128), config.get(self.period, 3)
        depth, types = config.get("num_hidden_layers", 22), config.get(self.types)
        for key, number, least in ((self.key, both, 2), (self.period, period, 1)):
            if not is_whole(number, least):
                raise BadInput(f"{key} must be a whole number, at least {least}, not {number!r}")
        pattern = [FULL] + [SLIDING] * (period - 1)
        if types is not None:
            known = isinstance(types, list) and all(layer in [*BASES] for layer in types)
            if not known or len(types) != depth:
                raise BadInput(f"{self.types} must be {depth} of {', '.join(BASES)}, not {types!r}")
            starts = (types[:count] for count in range(1, depth + 1))
            pattern = next(start for start in (pattern, *starts) if repeats(start, types))
        windows = tuple(both // 2 if layer == SLIDING else 0 for layer in pattern)
        return {"windows": windows if any(windows) else ()}

    def write(self, facts: object) -> dict[str, object]:
        (windows,), (depth,) = values_named(facts, "windows"), values_named(facts, "depth")
        pattern = windows or (0,)
        both = {self.key: 2 * max(pattern)} if any(pattern) else {}
        period = {} if pattern[0] or 0 in pattern[1:] else {self.period: len(pattern)}
        types = [SLIDING if size else FULL for size in (pattern * depth)[:depth]]
        return {**both, **period, self.types: types}


def repeats(pattern: Sequence[str], layers: Sequence[str]) -> bool:
    """Whether ``layers`` are the pattern, repeated; its last copy may be cut off."""
    return all(layer == pattern[at % len(pattern)] for at, layer in enumerate(layers))


@dataclass(frozen=True)
class PooledArchitectures(Architectures):
    """Architectures whose heads of rows read the pool that ``classifier_pooling`` names."""

    pooling: str = "classifier_pooling"

    def read(self, config: Config, tensors: Names) -> dict[str, object]:
        changes, name = super().read(config, tensors), config.get(self.pooling, "cls")
        if name not in [*POOLINGS]:
            raise BadInput(f"{self.pooling} is {name!r}; supported: {', '.join(POOLINGS)}")
        return {**changes, "pool": changes["pool"] and POOLINGS[name]}

    def write(self, facts: object) -> dict[str, object]:
        config, (pool,) = super().write(facts), values_named(facts, "pool")
        for name, known in POOLINGS.items():
            if pool == known:
                config[self.pooling] = name
        return config


class ModernBertFormat(HFFormat):
    """The format of ModernBERT, whose new folders name all special ids, also missing ones."""

    def new_extras(self, tokenizer: Reading | None, notes: Config) -> HFExtras:
        return HFExtras({**dict.fromkeys(IDS), **super().new_extras(tokenizer, notes).config})
