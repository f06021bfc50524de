"""Architectures of Hugging Face: the names of models with a trunk, and the heads of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.models.facts import AnyHead, AnyPool, FirstToken, values_named
from regard.models.formats.config_map import (
    Config,
    ConfigRow,
    Names,
    begins,
    read_facts,
    write_config,
)


@dataclass(frozen=True)
class HFHead:
    """A head, as an empty configuration has it.

    ``tensors``: how the names of its tensors begin; "" for one that has none of its own, which only
    an architecture tells. ``rows`` are about its facts. ``pool``: that of a model without a pooler.
    """

    head: AnyHead
    tensors: str
    rows: tuple[ConfigRow, ...] = ()
    pool: AnyPool | None = None


@dataclass(frozen=True)
class Architectures(ConfigRow):
    """Names of architectures and the heads that each has.

    A model has the heads whose tensors are there. Where several heads have tensors of the same name
    the architecture tells which it is, else the first that has a pool if it needs one. A model is
    called after the last architecture all of whose heads it has.
    """

    heads: Mapping[str, tuple[HFHead, ...]]
    pooler: str = "pooler."
    key: str = field(default="architectures", init=False)

    def read(self, config: Config, tensors: Names) -> dict[str, Any]:
        meant, pooled = self._meant(config), begins(tensors, self.pooler)
        chosen: dict[str, HFHead] = {}
        for entry in sorted(self._entries, key=meant.__contains__, reverse=True):
            fits = pooled or entry.pool is not None or not entry.head.per_row or entry in meant
            there = begins(tensors, entry.tensors) if entry.tensors else entry in meant
            if there and fits:
                chosen.setdefault(entry.tensors, entry)
        entries = [entry for entry in self._entries if entry in chosen.values()]
        heads = [read_facts(entry.rows, entry.head, config, tensors) for entry in entries]
        pool = FirstToken() if pooled else next((one.pool for one in entries if one.pool), None)
        return {"pool": pool, "output_heads": tuple(heads)}

    def write(self, facts: Any) -> dict[str, Any]:
        config, heads = dict[str, Any](), _heads_of(facts)
        for entry in self._entries:
            if entry.head.name in heads:
                config |= write_config(entry.rows, heads[entry.head.name])
        fitting = [
            name
            for name, entries in self.heads.items()
            if all(entry.head.name in heads for entry in entries)
        ]
        return {**config, self.key: fitting[-1:]}

    def tensors(self, facts: Any) -> tuple[str, ...]:
        entries = (entry for entry in self._entries if entry.head.name in _heads_of(facts))
        pooler = (self.pooler,) if FirstToken() in values_named(facts, "pool") else ()
        return (*pooler, *(entry.tensors for entry in entries))

    def has_labels(self, config: Config) -> bool:
        return any(values_named(entry.head, "outputs") for entry in self._meant(config))

    def _meant(self, config: Config) -> tuple[HFHead, ...]:
        """The heads of the architecture that a configuration names."""
        names = config.get(self.key)
        first = str(names[0]) if isinstance(names, list) and names else ""
        return self.heads.get(first, ())

    @property
    def _entries(self) -> list[HFHead]:
        unique: list[HFHead] = []
        for entries in self.heads.values():
            unique += [entry for entry in entries if entry not in unique]
        return unique


def _heads_of(facts: Any) -> dict[str, AnyHead]:
    return {head.name: head for heads in values_named(facts, "output_heads") for head in heads}
